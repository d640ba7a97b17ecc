"""Runs XML of MSCCL as RCCL's kernel does, with data, and finds what is wrong with it. Written from the kernel and its reader, and
independent of Kolo's importer."""
import collections
import functools
import hashlib
import random
import xml.etree.ElementTree as ElementTree

BUFFER = {"Simple": (2, 2 << 20), "LL": (8, 16 << 10), "LL128": (8, 53760)}  # messages, and bytes of one
SENDS, RECEIVES = {"s", "rcs", "rrs", "rrcs"}, {"r", "rcs", "rrs", "rrc", "rrcs"}


class Wrong(Exception):
    pass


def require(condition, message):
    if not condition:
        raise Wrong(message)


class Work:
    """What the kernel runs as one."""

    def __init__(self, step, waits):
        self.type, self.count, self.waits = step["type"], step["cnt"], waits
        self.source, self.destination = (step["srcbuf"], step["srcoff"]), (step["dstbuf"], step["dstoff"])
        self.sources, self.tells, self.number = [self.source], step["hasdep"], None


class Block:
    def __init__(self, element):
        self.send, self.receive, self.channel = (int(element.get(name)) for name in ("send", "recv", "chan"))
        self.works, waits, last, fused = [], [], None, 0
        for step in element:
            step = {name: value if name.endswith(("type", "buf")) else int(value) for name, value in step.attrib.items()}
            wait = (step["depid"], step["deps"])
            if step["type"] == "nop":
                waits += [wait] if wait[0] >= 0 else []
                continue
            same = (step["dstbuf"], step["dstoff"], step["srcbuf"])
            if step["type"] == "re" and wait[0] < 0 and last == same:
                work = self.works[-1]
                work.sources.append((step["srcbuf"], step["srcoff"]))
                work.count, work.tells = step["cnt"], step["hasdep"]
            else:
                require(not waits or wait[0] >= 0, "the reader refuses a step after a nop that does not wait")
                self.works.append(Work(step, waits + ([wait] if wait[0] >= 0 else [])))
                waits = []
            fused += step["type"] == "re"
            last = same if step["type"] == "re" and not step["hasdep"] and fused != 16 else None
        number = 0
        for work in self.works:
            number += max(len(work.waits) - 1, 0) + len(work.sources) - 1
            work.number, number = number, number + 1


class Algorithm:
    def __init__(self, text):
        root = ElementTree.fromstring(text)
        self.collective, self.protocol = root.get("coll"), root.get("proto")
        self.numRanks, self.numChunks = int(root.get("ngpus")), int(root.get("nchunksperloop"))
        self.kinds = [isInPlace for isInPlace, name in ((False, "outofplace"), (True, "inplace")) if root.get(name) == "1"]
        self.per = self.numChunks // (1 if self.collective == "allreduce" else self.numRanks)
        self.sizes = {"i": self.per if self.collective == "allgather" else self.numChunks,
                      "o": self.per if self.collective == "reducescatter" else self.numChunks}
        gpus = sorted(root, key=lambda gpu: int(gpu.get("id")))
        self.scratch = [int(gpu.get("s_chunks")) for gpu in gpus]
        self.blocks = [[Block(block) for block in sorted(gpu, key=lambda block: int(block.get("id")))] for gpu in gpus]
        slots, size = BUFFER[self.protocol]
        largest = int(root.get("maxBytes"))
        self.slots = slots
        self.perMessage = min(max(size // max(largest // self.numChunks, 1), 1), 71) if largest else 1

    def place(self, rank, isInPlace, place):
        buffer, chunk = place
        if not isInPlace or buffer == "s":
            return place
        if self.collective == "allgather" and buffer == "i":
            return "o", rank * self.per + chunk
        if self.collective == "reducescatter":
            return "i", chunk + (rank * self.per if buffer == "o" else 0)
        return "o", chunk

    def size(self, rank, buffer):
        return self.scratch[rank] if buffer == "s" else self.sizes[buffer]


@functools.cache
def inputOf(rank, chunk, slice_):
    return int.from_bytes(hashlib.sha256(f"{rank}/{chunk}/{slice_}".encode()).digest()[:6], "little")


def expected(algorithm, rank, chunk, slice_):
    per = algorithm.per
    if algorithm.collective == "allgather":
        return inputOf(chunk // per, chunk % per, slice_)
    if algorithm.collective == "alltoall":
        return inputOf(chunk // per, rank * per + chunk % per, slice_)
    own = rank * per + chunk if algorithm.collective == "reducescatter" else chunk
    return sum(inputOf(sender, own, slice_) for sender in range(algorithm.numRanks))


class Worker:
    def __init__(self, rank, number, block):
        self.rank, self.number, self.block = rank, number, block
        self.slice, self.at, self.chunk, self.time, self.known, self.message = 0, 0, 0, 0, {}, None


class Replay:
    """One order of all blocks, chosen by a seed, for data of several slices of every chunk."""

    def __init__(self, algorithm, isInPlace, seed, slices=2):
        self.algorithm, self.isInPlace, self.slices = algorithm, isInPlace, slices
        self.random = random.Random(seed)
        self.values, self.writes, self.reads = {}, {}, collections.defaultdict(list)
        for rank in range(algorithm.numRanks):
            for slice_ in range(slices):
                for chunk in range(algorithm.sizes["i"]):
                    self.values[(rank, slice_) + algorithm.place(rank, isInPlace, ("i", chunk))] = inputOf(rank, chunk, slice_)
        self.queues, self.flags = collections.defaultdict(collections.deque), collections.defaultdict(list)
        self.workers = [Worker(rank, number, block) for rank, blocks in enumerate(algorithm.blocks)
                        for number, block in enumerate(blocks) if block.works]
        for worker in self.workers:
            for work in worker.block.works:
                self.checkPlaces(worker.rank, work)

    def checkPlaces(self, rank, work):
        reads = [] if work.type in ("r", "rcs") else [*work.sources, *([work.destination] if work.type == "re" else [])]
        writes = [] if work.type in ("s", "rrs") else [work.destination]
        for buffer, chunk in reads + writes:
            require(not work.count or 0 <= chunk <= self.algorithm.size(rank, buffer) - work.count, "an access out of bounds")
        require(self.isInPlace or not work.count or not any(buffer == "i" for buffer, _ in writes), "an input is changed")
        for source in reads:
            for destination in writes:
                a, b = (self.algorithm.place(rank, self.isInPlace, place) for place in (source, destination))
                require(a[0] != b[0] or a[1] == b[1] or abs(a[1] - b[1]) >= work.count, "a race in one step")

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
            require(moved or not waiting, "a deadlock")
        require(not any(self.queues.values()), "messages are left")
        for rank in range(self.algorithm.numRanks):
            for slice_ in range(self.slices):
                for chunk in range(self.algorithm.sizes["o"]):
                    place = self.algorithm.place(rank, self.isInPlace, ("o", chunk))
                    require(self.values.get((rank, slice_) + place) == expected(self.algorithm, rank, chunk, slice_),
                            f"a wrong result: rank {rank} chunk {chunk}")

    def step(self, worker):
        """What it can do next, at most one message; False if it must wait or has ended."""
        if worker.slice == self.slices:
            return False
        work, block = worker.block.works[worker.at], worker.block
        if worker.chunk == 0 and not self.wait(worker, work):
            return False
        size = min(self.algorithm.perMessage, work.count - worker.chunk)
        if size > 0 and not self.move(worker, work, size):
            return False
        worker.chunk += max(size, 0)
        if worker.chunk < work.count:
            return True
        before = dict(worker.known)
        worker.time += 1
        worker.known[worker.rank, worker.number] = worker.time
        if work.tells:
            isLoose = work.type == "s" and self.algorithm.protocol == "LL"
            self.flags[worker.rank, worker.number].append(((worker.slice, work.number), before if isLoose else dict(worker.known)))
        worker.chunk, worker.at = 0, worker.at + 1
        if worker.at == len(block.works):
            worker.at, worker.slice = 0, worker.slice + 1
        return True

    def wait(self, worker, work):
        learnt = []
        for block, number in work.waits:
            found = [known for key, known in self.flags[worker.rank, block] if key >= (worker.slice, number)]
            if not found:
                return False
            learnt.append(found[0])
        for known in learnt:
            self.learn(worker, known)
        return True

    @staticmethod
    def learn(worker, known):
        for key, time in known.items():
            worker.known[key] = max(worker.known.get(key, 0), time)

    def move(self, worker, work, size):
        block, rank = worker.block, worker.rank
        source = self.queues[block.channel, block.receive, rank] if work.type in RECEIVES else None
        target = self.queues[block.channel, rank, block.send] if work.type in SENDS else None
        require(source is None or block.receive >= 0, "a step receives from nobody")
        require(target is None or block.send >= 0, "a step sends to nobody")
        if (source is not None and not source) or (target is not None and len(target) >= self.algorithm.slots):
            return False
        arrived = [0] * size
        if source is not None:
            count, start, slice_, arrived, known = source.popleft()
            require((count, start, slice_) == (work.count, worker.chunk, worker.slice), "a message is taken for another")
            self.learn(worker, known)
        sent = []
        for index in range(size):
            chunk, value = worker.chunk + index, arrived[index] if source is not None else 0
            reads = [] if work.type in ("r", "rcs") else [*work.sources, *([work.destination] if work.type == "re" else [])]
            for place in reads:
                other = self.access(worker, place, chunk, self.reads)
                value = None if value is None or other is None else value + other
            if work.type not in ("s", "rrs"):
                self.access(worker, work.destination, chunk, self.writes, value)
            sent.append(value)
        if target is not None:
            isWhole = worker.chunk + size == work.count
            known = {**worker.known, (rank, worker.number): worker.time + isWhole}
            target.append((work.count, worker.chunk, worker.slice, sent, known))
        return True

    def isOver(self, worker, access):
        return access[0] == worker.number or worker.known.get((worker.rank, access[0]), 0) >= access[1]

    def access(self, worker, place, chunk, kind, value=None):
        name = (worker.rank, worker.slice) + self.algorithm.place(worker.rank, self.isInPlace, (place[0], place[1] + chunk))
        now = (worker.number, worker.time + 1)
        earlier = [self.writes[name]] if name in self.writes else []
        if kind is self.writes:
            earlier += self.reads.pop(name, [])
        require(all(self.isOver(worker, access) for access in earlier), f"a race: rank {worker.rank} {place}")
        if kind is self.reads:
            self.reads[name].append(now)
            return self.values.get(name)
        self.writes[name] = now
        self.values[name] = value
        return None


def mistake(text, seeds=2):
    """What is wrong with the file; None if nothing is."""
    try:
        algorithm = Algorithm(text)
        for isInPlace in algorithm.kinds:
            for seed in range(seeds):
                Replay(algorithm, isInPlace, seed).run()
    except Wrong as wrong:
        return str(wrong)
    return None
