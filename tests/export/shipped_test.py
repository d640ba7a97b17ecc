"""Every shipped algorithm of a collective without a root is exported on 2, 4 and 8 ranks and replayed, or refused as below."""
import re
import unittest

import kolo

VARIANTS = [  # profile, flags
    ("rccl-6.1", ()),
    ("rccl-6.1", ("--in-place",)),
    ("rccl-6.0", ()),
    ("rccl-6.1", ("--lanes", "2")),
]
# What cannot be said in XML for RCCL: patterns of the algorithm's name, of its flags, and of the refusal.
REFUSED = [
    (r"^(quantised|hybrid)", "", "RCCL knows no codec"),
    (r"^(bruckAllToAll|orderedAllReduce)$", "--in-place", "overwrites input that it still needs"),
    (r"^frontierAllReduce$", "--lanes 2", "needs more than 64 steps"),
]


def casesOf(algorithm):
    name, dims, over = algorithm
    cases = [(name, kolo.mesh(dims, over, 8), profile, flags) for profile, flags in VARIANTS]
    return cases + [(name, kolo.mesh(dims, over, size), "rccl-6.1", ()) for size in (2, 4)]


def outcome(case):
    """The refusal, or nothing."""
    name, mesh, profile, flags = case
    code, text, error = kolo.export(name, mesh, *flags, profile=profile)
    if code:
        return case, error.strip()
    # One message in a connection: what does not stop then, never stops.
    kolo.replay(text, profile, "--in-place" in flags, slots=1)
    return case, ""


def isExpected(case, error):
    return any(re.search(name, case[0]) and re.search(flags, " ".join(case[3])) and re.search(words, error)
               for name, flags, words in REFUSED)


class Shipped(unittest.TestCase):
    maxDiff = None

    def test_every_export_gives_the_result_of_its_collective(self):
        cases = [case for algorithm in kolo.shipped() for case in casesOf(algorithm)]
        self.assertGreater(len(cases), 150)
        outcomes = kolo.inParallel(outcome, cases)
        unexpected = [(case, error) for case, error in outcomes if error and not isExpected(case, error)]
        self.assertEqual(unexpected, [])
        exported = {case[0] for case, error in outcomes if not error}
        self.assertGreater(len(exported), 20, exported)


if __name__ == "__main__":
    unittest.main(verbosity=2)
