"""Mutants of right plans: whatever the replay finds wrong, Kolo refutes or refuses, and the other way round."""
import collections
import json
import os
import random
import tempfile
import unittest

import plan_replay
import samples
import support

NUMBER_OF_MUTANTS = 400


class Mutator:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.changes = [self.drop, self.swap, self.repeat, self.shift, self.relax, self.otherName, self.oneBuffer]

    def mutant(self, text):
        while True:
            root = json.loads(text)
            mutate = self.random.choice(self.changes)
            mutate(root)
            changed = json.dumps(root, indent=1)
            if changed != text:
                return mutate.__name__, changed

    def operations(self, root):
        """The operations of one block, some."""
        blocks = [block["ops"] for gpu in root["gpus"] for block in gpu["threadblocks"] if block["ops"]]
        return self.random.choice(blocks)

    def drop(self, root):
        ops = self.operations(root)
        del ops[self.random.randrange(len(ops))]

    def swap(self, root):
        ops = self.operations(root)
        at = self.random.randrange(len(ops))
        ops[at - 1], ops[at] = ops[at], ops[at - 1]

    def repeat(self, root):
        ops = self.operations(root)
        at = self.random.randrange(len(ops))
        ops.insert(at, ops[at])

    def shift(self, root):
        op = self.random.choice(self.operations(root))
        buffers = op.get("src_buff", []) + op.get("dst_buff", [])
        if buffers:
            buffer = self.random.choice(buffers)
            buffer["index"] = 1 - buffer["index"]

    def relax(self, root):
        op = self.random.choice(self.operations(root))
        if op["name"] in ("signal", "wait"):
            op["name"] = "rlx" + op["name"]

    def otherName(self, root):
        op = self.random.choice(self.operations(root))
        other = {"rres": "rre", "respkt": "repkt", "signal": "wait", "wait": "signal"}
        op["name"] = other.get(op["name"], op["name"])

    @staticmethod
    def oneBuffer(root):
        root["use_double_scratch_buffer"] = False


class Mutants(unittest.TestCase):
    def test_the_originals_are_right(self):
        for name, text in samples.plans().items():
            self.assertIsNone(plan_replay.mistake(text), name)

    def test_kolo_and_the_replay_agree_on_every_mutant(self):
        seed = int(os.environ.get("SEED", "20261127"))
        mutator, texts = Mutator(seed), list(samples.plans().items())
        mutants = [(f"{name} {what}", text) for number in range(NUMBER_OF_MUTANTS)
                   for name, original in [texts[number % len(texts)]] for what, text in [mutator.mutant(original)]]
        with tempfile.TemporaryDirectory() as directory:
            paths = [os.path.join(directory, f"{number}.json") for number in range(len(mutants))]
            for path, (_, text) in zip(paths, mutants):
                with open(path, "w", encoding="ascii") as file:
                    file.write(text)
            found = support.answers(paths)
        wrong, counts = [], collections.Counter()
        for (what, text), answer in zip(mutants, found):
            counts["right" if answer == "right" else answer.split()[0]] += 1
            mistake = None if answer.startswith("refused") else plan_replay.mistake(text)
            if not answer.startswith("refused") and (answer == "right") != (mistake is None):
                wrong.append(f"{what}: Kolo says {answer}; the replay: {mistake}")
        print(f"seed {seed}: {len(mutants)} mutants, {dict(counts)}")
        self.assertEqual(wrong, [], f"{len(wrong)} differ")
        for kind in ("right", "V1", "V4", "V7"):
            self.assertGreater(counts[kind], 0, f"no mutant is {kind}")


if __name__ == "__main__":
    unittest.main()
