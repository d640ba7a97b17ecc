#!/usr/bin/env python3
"""usage: processor_time.py MINUTES COMMAND...

Runs a command, prints the processor time that it and what it waited for took, and exits as it did; or with 1 if that was more than
MINUTES per processor of this machine.
"""

import os
import resource
import subprocess
import sys


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    most = float(sys.argv[1])
    status = subprocess.run(sys.argv[2:], check=False).returncode
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    minutes = (used.ru_utime + used.ru_stime) / 60 / len(os.sched_getaffinity(0))
    name = sys.argv[2]
    print(f"{name}: {minutes:.1f} minutes of processor time per processor, of at most {most:g}", flush=True)
    if status == 0 and minutes > most:
        sys.exit(f"{name}: takes too long: see the table of times above")
    sys.exit(status if status >= 0 else 128 - status)


if __name__ == "__main__":
    main()
