"""Mutants of right files: whatever the replay finds wrong, Kolo refutes or refuses, and the other way round."""
import collections
import os
import random
import re
import tempfile
import unittest

import replay
import samples
import support

STEP = re.compile(r" +<step [^>]*/>\n")
NUMBER_OF_MUTANTS = 600


def change(step, name, value):
    return re.sub(rf' {name}="[^"]*"', f' {name}="{value}"', step)


def value(step, name):
    return re.search(rf' {name}="([^"]*)"', step)[1]


class Mutator:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.changes = [self.dropWait, self.otherWait, self.silence, self.shift, self.lengthen, self.otherType, self.otherMemory,
                        self.drop, self.swap, self.repeat, self.otherPeer, self.otherChannel, self.otherProtocol]

    def mutant(self, text):
        """(what was done, the text)."""
        while True:
            mutate = self.random.choice(self.changes)
            changed = mutate(text)
            if changed != text:
                return mutate.__name__, self.renumber(changed)

    @staticmethod
    def renumber(text):
        """Steps are numbered 0, 1, 2, ... in their block again."""
        def block(match):
            number = iter(range(10000))
            return STEP.sub(lambda step: change(step[0], "s", next(number)), match[0])
        return re.sub(r"<tb .*?</tb>", block, text, flags=re.S)

    def onStep(self, text, mutate, accepts=lambda step: True):
        steps = [match for match in STEP.finditer(text) if accepts(match[0])]
        if not steps:
            return text
        match = self.random.choice(steps)
        return text[:match.start()] + mutate(match[0]) + text[match.end():]

    def dropWait(self, text):
        return self.onStep(text, lambda step: change(change(step, "depid", -1), "deps", -1), lambda step: value(step, "depid") != "-1")

    def otherWait(self, text):
        return self.onStep(text, lambda step: change(change(step, "depid", self.random.randrange(3)), "deps", self.random.randrange(3)))

    def silence(self, text):
        return self.onStep(text, lambda step: change(step, "hasdep", 0), lambda step: value(step, "hasdep") == "1")

    def shift(self, text):
        name = self.random.choice(["srcoff", "dstoff"])
        return self.onStep(text, lambda step: change(step, name, int(value(step, name)) + self.random.choice([-1, 1, 2])))

    def lengthen(self, text):
        return self.onStep(text, lambda step: change(step, "cnt", self.random.randrange(3)))

    def otherType(self, text):
        kinds = ["s", "r", "rcs", "rrs", "rrc", "rrcs", "cpy", "re", "nop"]
        return self.onStep(text, lambda step: change(step, "type", self.random.choice(kinds)))

    def otherMemory(self, text):
        return self.onStep(text, lambda step: change(step, self.random.choice(["srcbuf", "dstbuf"]), self.random.choice("ios")))

    def drop(self, text):
        return self.onStep(text, lambda step: "")

    def swap(self, text):
        pairs = [match for match in re.finditer(r"( +<step [^>]*/>\n)( +<step [^>]*/>\n)", text)]
        if not pairs:
            return text
        match = self.random.choice(pairs)
        return text[:match.start()] + match[2] + match[1] + text[match.end():]

    def repeat(self, text):
        return self.onStep(text, lambda step: step + step)

    def otherPeer(self, text):
        blocks = list(re.finditer(r' (send|recv)="(\d+)"', text))
        if not blocks:
            return text
        match = self.random.choice(blocks)
        return text[:match.start(2)] + str(self.random.randrange(4)) + text[match.end(2):]

    def otherChannel(self, text):
        match = self.random.choice(list(re.finditer(r' chan="(\d+)"', text)))
        return text[:match.start(1)] + str(self.random.randrange(2)) + text[match.end(1):]

    def otherProtocol(self, text):
        return re.sub(r' proto="\w+"', f' proto="{self.random.choice(["Simple", "LL", "LL128"])}"', text)


class Mutants(unittest.TestCase):
    def test_kolo_and_the_replay_agree_on_every_mutant(self):
        seed = int(os.environ.get("SEED", "20261127"))
        mutator, texts = Mutator(seed), list(samples.all_().items())
        mutants = [(f"{name} {what}", text) for number in range(NUMBER_OF_MUTANTS)
                   for name, original in [texts[number % len(texts)]] for what, text in [mutator.mutant(original)]]
        with tempfile.TemporaryDirectory() as directory:
            paths = [os.path.join(directory, f"{number}.xml") for number in range(len(mutants))]
            for path, (_, text) in zip(paths, mutants):
                with open(path, "w", encoding="ascii") as file:
                    file.write(text)
            found = support.answers(paths)
        missed, alarms, counts = [], [], collections.Counter()
        for (what, text), answer in zip(mutants, found):
            if answer.startswith("refused"):  # what RCCL's reader refuses, or has no meaning: a replay would prove nothing
                counts["refused"] += 1
                continue
            wrong = replay.mistake(text)
            counts["right" if answer == "right" else answer.split()[0]] += 1
            if answer == "right" and wrong:
                missed.append(f"{what}: {wrong}\n{text}")
            if answer != "right" and not wrong:
                alarms.append(f"{what}: {answer}\n{text}")
        print(f"seed {seed}: {len(mutants)} mutants, {dict(counts)}")
        self.assertEqual(missed, [], f"{len(missed)} are missed")
        self.assertEqual(alarms, [], f"{len(alarms)} are refuted, and the replay finds nothing wrong")
        for kind in ("right", "V1", "V2", "V4", "V5", "V6", "refused"):
            self.assertGreater(counts[kind], 5, f"too few mutants are {kind}")


if __name__ == "__main__":
    unittest.main()
