"""Mutants of right plans: whatever the replay finds wrong, Kolo refutes or refuses, and the other way round."""
import collections
import json
import os
import random
import tempfile
import unittest

import plan_replay
import plan_samples
import support

NUMBER_OF_MUTANTS = 1200
SYNCHRONISATION = ("signal", "wait", "flush", "barrier", "nop", "sem_acquire", "sem_release")


class Mutator:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.changes = [self.drop, self.silence, self.swap, self.move, self.repeat, self.shift, self.relax, self.otherName, self.oneBuffer,
                        self.otherPeer, self.fewerPeers, self.otherMemory, self.otherPlace, self.otherMeeting, self.fewerPlaces]

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

    def silence(self, root):
        """Drops a synchronisation of some kind in one block."""
        ops, name = self.operations(root), self.random.choice(SYNCHRONISATION)
        places = [at for at, op in enumerate(ops) if op["name"] == name]
        if places:
            del ops[self.random.choice(places)]

    def move(self, root):
        ops = self.operations(root)
        op = ops.pop(self.random.randrange(len(ops)))
        ops.insert(self.random.randrange(len(ops) + 1), op)

    def field(self, root, *names):
        """A list of numbers in some operation, and the place of one."""
        found = [op[name] for gpu in root["gpus"] for block in gpu["threadblocks"] for op in block["ops"] for name in names if op.get(name)]
        numbers = self.random.choice(found) if found else []
        return numbers, self.random.randrange(len(numbers)) if numbers else 0

    def otherPeer(self, root):
        """Another channel, or another semaphore."""
        numbers, at = self.field(root, "channel_ids", "semaphore_ids")
        if numbers:
            numbers[at] = 1 - numbers[at]

    def fewerPeers(self, root):
        numbers, at = self.field(root, "channel_ids", "semaphore_ids")
        del numbers[at:at + 1]

    def fewerPlaces(self, root):
        places, at = self.field(root, "src_buff", "dst_buff")
        del places[at:at + 1]

    def otherMemory(self, root):
        places, at = self.field(root, "src_buff", "dst_buff")
        if places and "type" in places[at]:
            places[at]["type"] = self.random.choice("ios")

    def otherPlace(self, root):
        """Another buffer of some peer, or another chunk."""
        places, at = self.field(root, "src_buff", "dst_buff")
        if places:
            name = self.random.choice(["buffer_id" if "buffer_id" in places[at] else "index", "index", "size"])
            places[at][name] = max(0, places[at][name] + self.random.choice([-1, 1, 2]))

    def otherMeeting(self, root):
        barriers = [op for gpu in root["gpus"] for block in gpu["threadblocks"] for op in block["ops"] if op["name"] == "barrier"]
        if barriers:
            self.random.choice(barriers)["barrier_id"] = self.random.randrange(3)

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
        other = {"rres": "rre", "respkt": "repkt", "signal": "wait", "wait": "signal", "pwsf": "pws", "pws": "put", "put": "pws",
                 "sem_release": "sem_acquire", "sem_acquire": "sem_release", "ppkt": "put", "rppkt": "ppkt", "flush": "nop", "barrier": "nop"}
        op["name"] = other.get(op["name"], op["name"])

    @staticmethod
    def oneBuffer(root):
        root["use_double_scratch_buffer"] = False


class Mutants(unittest.TestCase):
    def test_the_originals_are_right(self):
        for name, text in plan_samples.all_().items():
            self.assertIsNone(plan_replay.mistake(text), name)

    def test_kolo_and_the_replay_agree_on_every_mutant(self):
        seed = int(os.environ.get("SEED", "20261127"))
        mutator, texts = Mutator(seed), list(plan_samples.all_().items())
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
            counts[answer.split()[0].rstrip(":")] += 1
            mistake = None if answer.startswith("refused") else plan_replay.mistake(text)
            if not answer.startswith("refused") and (answer == "right") != (mistake is None):
                wrong.append(f"{what}: Kolo says {answer}; the replay: {mistake}")
        silenced = sum(what.split()[1] in ("silence", "drop") for what, _ in mutants)
        print(f"seed {seed}: {len(mutants)} mutants, {silenced} without one operation, {dict(counts)}")
        self.assertEqual(wrong, [], f"{len(wrong)} differ")
        for kind in ("right", "refused", "V1", "V2", "V4", "V5", "V6", "V7"):
            self.assertGreater(counts[kind], 0, f"no mutant is {kind}")


if __name__ == "__main__":
    unittest.main()
