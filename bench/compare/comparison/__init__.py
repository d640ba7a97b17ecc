"""The driver of the comparison: systems, rank processes, plugins, rounds, report."""
