"""Runs an algorithm with data, and finds wrong results, races between thread blocks, and deadlocks.

Every connection holds few messages. A step of several chunks is several messages, as it is in RCCL when chunks are large."""
import collections
import functools
import hashlib
import random

from reader import Refused, require

# Messages that a connection holds: 8 steps of its buffer, of which a message takes 4 (Simple) or 1.
SLOTS = {"Simple": 2, "LL": 8, "LL128": 8}
ELEMENTS = 2  # of a chunk


class Memory:
    """Of one rank, for one slice of every chunk. None is what nobody wrote."""

    def __init__(self, algorithm, rank, inPlace, slice_):
        self.algorithm, self.rank, self.inPlace = algorithm, rank, inPlace
        gpu = algorithm.gpus[rank]
        self.values = {}
        for buffer in "ios":
            for chunk in range(gpu[buffer + "_chunks"]):
                self.values.setdefault(self.name(buffer, chunk), [None] * ELEMENTS)
        for chunk in range(gpu["i_chunks"]):
            self.values[self.name("i", chunk)] = inputOf(rank, chunk, slice_)
        self.writers, self.readers = {}, collections.defaultdict(list)  # (block, time, is a send of LL)

    def name(self, buffer, chunk):
        """One name for memory that input and output share in a call in place."""
        if not self.inPlace or buffer == "s":
            return buffer, chunk
        collective, gpu = self.algorithm.collective, self.algorithm.gpus[self.rank]
        if collective == "allgather" and buffer == "i":
            return "o", self.rank * gpu["i_chunks"] + chunk
        if collective == "reducescatter":
            return "i", chunk + (self.rank * gpu["o_chunks"] if buffer == "o" else 0)
        return "o", chunk


@functools.cache
def inputOf(rank, chunk, slice_):
    text = hashlib.sha256(f"{rank}/{chunk}/{slice_}".encode()).digest()
    return [int.from_bytes(text[6 * element:6 * element + 6], "little") for element in range(ELEMENTS)]


def expected(algorithm, rank, chunk, slice_):
    """The definition of the collective."""
    blocks = range(algorithm.numRanks)
    per = algorithm.numChunks // algorithm.numRanks
    if algorithm.collective == "allgather":
        return inputOf(chunk // per, chunk % per, slice_)
    if algorithm.collective == "alltoall":
        return inputOf(chunk // per, rank * per + chunk % per, slice_)
    own = rank * per + chunk if algorithm.collective == "reducescatter" else chunk
    return [sum(values) for values in zip(*(inputOf(sender, own, slice_) for sender in blocks))]


class Worker:
    """A thread block: its place in its instructions, and what it knows to be complete: a time by block."""

    def __init__(self, rank, number, block):
        self.rank, self.number, self.block = rank, number, block
        self.slice, self.at, self.chunk = 0, 0, 0
        self.time, self.known = 0, {}


class Replay:
    def __init__(self, algorithm, inPlace, slots=None, seed=0, slices=2):
        self.algorithm, self.inPlace, self.slices = algorithm, inPlace, slices
        require(algorithm.values["inplace" if inPlace else "outofplace"], "RCCL does not select it for such a call")
        self.slots = slots or SLOTS[algorithm.protocol]
        self.random = random.Random(seed)
        self.memories = [[Memory(algorithm, rank, inPlace, slice_) for slice_ in range(slices)]
                         for rank in range(algorithm.numRanks)]
        self.connections = collections.defaultdict(collections.deque)
        self.flags = {}  # (rank, block): the last (slice, step) that is complete, what was known then
        self.history = collections.defaultdict(dict)
        self.workers = [Worker(rank, number, block) for rank, blocks in enumerate(algorithm.ranks)
                        for number, block in enumerate(blocks) if block.instructions]

    def run(self):
        waiting = list(self.workers)
        while waiting:
            self.random.shuffle(waiting)
            moved = False
            for worker in waiting:
                while self.step(worker):
                    moved = True
                    if self.random.random() < 0.3:
                        break
            waiting = [worker for worker in waiting if worker.slice < self.slices]
            require(moved or not waiting, "deadlock: " + ", ".join(
                f"rank {worker.rank} block {worker.number} step {worker.block.instructions[worker.at].last}" for worker in waiting[:4]))
        require(not any(self.connections.values()), "messages are left")
        self.check()

    def step(self, worker):
        """Does what it can do next, one chunk of a message at most; False if it must wait or has ended."""
        if worker.slice == self.slices:
            return False
        instruction = worker.block.instructions[worker.at]
        if worker.chunk == 0 and not self.hasWaited(worker, instruction):
            return False
        if instruction.kind in ("cpy", "re"):
            for chunk in range(instruction.count):
                self.combine(worker, instruction, chunk)
        elif instruction.kind in ("s", "r", "rrc"):
            if not (self.send if instruction.kind == "s" else self.receive)(worker, instruction):
                return False
            worker.chunk += 1
            if worker.chunk < instruction.count:
                return True
        else:
            raise Refused(f"the replay knows no {instruction.kind}")
        worker.time += 1
        worker.known[worker.rank, worker.number] = worker.time
        if instruction.signals:
            key = (worker.rank, worker.number)
            self.flags[key] = (worker.slice, instruction.last)
            self.history[key][worker.slice, instruction.last] = dict(worker.known)
        worker.chunk, worker.at = 0, worker.at + 1
        if worker.at == len(worker.block.instructions):
            worker.at, worker.slice = 0, worker.slice + 1
        return True

    def hasWaited(self, worker, instruction):
        for other, step, _ in instruction.waits:
            if self.flags.get((worker.rank, other), (-1, -1)) < (worker.slice, step):
                return False
        for other, step, _ in instruction.waits:
            self.learn(worker, self.history[worker.rank, other][worker.slice, step])
        return True

    def learn(self, worker, known):
        for key, time in known.items():
            worker.known[key] = max(worker.known.get(key, 0), time)

    def send(self, worker, instruction):
        queue = self.connections[worker.block.channel, worker.rank, worker.block.send]
        if len(queue) == self.slots:
            return False
        value = self.read(worker, instruction.sources[0], worker.chunk, self.algorithm.protocol == "LL")
        isWhole = worker.chunk + 1 == instruction.count  # who has the last chunk knows that all have been read
        known = {**worker.known, (worker.rank, worker.number): worker.time + isWhole}
        queue.append((instruction.count, worker.chunk, worker.slice, value, known))
        return True

    def receive(self, worker, instruction):
        queue = self.connections[worker.block.channel, worker.block.receive, worker.rank]
        if not queue:
            return False
        count, chunk, slice_, value, known = queue.popleft()
        require((count, chunk, slice_) == (instruction.count, worker.chunk, worker.slice), "a message is taken for another")
        self.learn(worker, known)
        if instruction.kind == "rrc":
            own = self.read(worker, instruction.sources[0], worker.chunk)
            value = [None if a is None or b is None else a + b for a, b in zip(own, value)]
        self.write(worker, instruction.destination, worker.chunk, value)
        return True

    def combine(self, worker, instruction, chunk):
        if instruction.kind == "cpy":
            self.write(worker, instruction.destination, chunk, self.read(worker, instruction.sources[0], chunk))
            return
        values = [self.read(worker, place, chunk) for place in [instruction.destination, *instruction.sources]]
        self.write(worker, instruction.destination, chunk,
                   [None if None in parts else sum(parts) for parts in zip(*values)])

    def access(self, worker, place, chunk):
        memory = self.memories[worker.rank][worker.slice]
        return memory, memory.name(place[0], place[1] + chunk)

    def isAfter(self, worker, access):
        block, time, isLoose = access
        return not isLoose and (block == worker.number or worker.known.get((worker.rank, block), 0) >= time)

    def read(self, worker, place, chunk, isLoose=False):
        memory, name = self.access(worker, place, chunk)
        writer = memory.writers.get(name)
        require(writer is None or self.isAfter(worker, writer), f"race: rank {worker.rank} block {worker.number} reads {name}")
        memory.readers[name].append((worker.number, worker.time + 1, isLoose))
        return memory.values[name]

    def write(self, worker, place, chunk, value):
        memory, name = self.access(worker, place, chunk)
        earlier = memory.readers.pop(name, []) + ([memory.writers[name]] if name in memory.writers else [])
        require(all(self.isAfter(worker, access) for access in earlier),
                f"race: rank {worker.rank} block {worker.number} writes {name}")
        memory.writers[name] = (worker.number, worker.time + 1, False)
        memory.values[name] = value

    def check(self):
        for rank, slices in enumerate(self.memories):
            for slice_, memory in enumerate(slices):
                for chunk in range(self.algorithm.gpus[rank]["o_chunks"]):
                    require(memory.values[memory.name("o", chunk)] == expected(self.algorithm, rank, chunk, slice_),
                            f"wrong result: rank {rank} chunk {chunk}")
                if not self.inPlace:
                    for chunk in range(self.algorithm.gpus[rank]["i_chunks"]):
                        require(memory.values["i", chunk] == inputOf(rank, chunk, slice_), f"rank {rank} changes its input")
