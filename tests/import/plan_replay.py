"""Runs execution plans of MSCCL++ as its executor does, over calls that follow each other, and finds what is wrong. Written from the
executor's kernel, and independent of Kolo's importer. A proxy does what it is told through a port channel, and a call can end before
it has."""
import collections
import json
import math
import random

from replay import Wrong, inputOf, require

PACKETS = {"ppkt": (False, True), "rppkt": (True, True), "upkt": (True, False), "cpkt": (False, True), "put": (False, False),
           "copy": (False, False)}
REDUCTIONS = {"re": (False, False, 0), "res": (False, True, 0), "rre": (False, False, 0), "rres": (False, True, 0),
              "repkt": (True, False, 0), "respkt": (True, True, 0), "recpkt": (True, False, 1), "recspkt": (True, True, 1)}


class Plan:
    def __init__(self, text):
        root = json.loads(text)
        self.gpus, self.collective, self.isInPlace = root["gpus"], root["collective"], root["inplace"]
        self.hasTwoBuffers = root.get("use_double_scratch_buffer", False)
        self.numRanks = len(self.gpus)
        sizes = [op["tbg_info"]["tbg_size"] for gpu in self.gpus for block in gpu["threadblocks"] for op in block["ops"] if "tbg_info" in op]
        self.pieces = math.lcm(1, *sizes)
        gpu, many = self.gpus[0], self.numRanks
        inBlocks = many if self.collective in ("alltoall", "reducescatter") else 1
        outBlocks = many if self.collective in ("alltoall", "allgather") else 1
        self.per = self.pieces * (gpu["input_chunks"] // inBlocks if gpu["input_chunks"] else gpu["output_chunks"] // outBlocks)
        self.sizes = {"i": self.per * inBlocks, "o": self.per * outBlocks, "s": self.pieces * gpu["scratch_chunks"]}
        self.channels = {kind: [[peer for channel in gpu["channels"] if channel["channel_type"] == kind for peer in channel["connected_to"]]
                                for gpu in self.gpus] for kind in ("memory", "port")}

    def place(self, rank, buffer, chunk):
        if not self.isInPlace or buffer == "s":
            return rank, buffer, chunk
        if self.collective == "allgather" and buffer == "i":
            return rank, "o", rank * self.per + chunk
        if self.collective == "reducescatter":
            return rank, "i", chunk + (rank * self.per if buffer == "o" else 0)
        return rank, "o", chunk

    def expected(self, rank, chunk, call):
        per = self.per
        if self.collective == "allgather":
            return inputOf(chunk // per, chunk % per, call)
        if self.collective == "alltoall":
            return inputOf(chunk // per, rank * per + chunk % per, call)
        own = rank * per + chunk if self.collective == "reducescatter" else chunk
        return sum(inputOf(sender, own, call) for sender in range(self.numRanks))


class Thread:
    def __init__(self, rank):
        self.rank, self.steps, self.at, self.time, self.known, self.start = rank, [], 0, 0, {}, {}
        self.orders = collections.deque()  # of a proxy: what it is told


class Replay:
    def __init__(self, plan, seed):
        self.plan, self.random = plan, random.Random(seed)
        self.values, self.writes, self.reads = {}, {}, collections.defaultdict(list)
        self.packets, self.told, self.taken = {}, collections.defaultdict(list), collections.Counter()
        self.joins = collections.defaultdict(dict)
        self.calls = 3 if plan.hasTwoBuffers else 2
        self.call = [0] * plan.numRanks
        self.threads = []
        self.proxies = {}
        self.signallers, self.perCall = collections.defaultdict(set), collections.Counter()
        self.apps = [Thread(rank) for rank in range(plan.numRanks)]
        for rank, gpu in enumerate(plan.gpus):
            for number, block in enumerate(gpu["threadblocks"]):
                self.addBlock(rank, number, gpu, block)
        self.initial = collections.Counter()
        for rank, gpu in enumerate(plan.gpus):
            for number, semaphore in enumerate(gpu.get("semaphores", [])):
                self.initial["own", rank, number] = semaphore["init_value"]
                self.told["own", rank, number] += [({}, {})] * semaphore["init_value"]
        for rank in range(plan.numRanks):
            self.begin(rank)

    def addBlock(self, rank, number, gpu, block):
        data, control = Thread(rank), Thread(rank)
        self.threads += [data, control]
        own = {kind: [index for channel in block["channels"] if channel["channel_type"] == kind for index in channel["channel_ids"]]
               for kind in ("memory", "port")}
        remote = {kind: [gpu["remote_buffers"][index] for reference in block.get("remote_buffer_refs", [])
                         if reference["access_channel_type"] == kind for index in reference["remote_buffer_ids"]]
                  for kind in ("memory", "port")}

        def run(op, buffer, isPackets):
            where = (rank, buffer["type"]) if "type" in buffer else None
            if "buffer_id" in buffer:
                there = remote[op["channel_type"]][buffer["buffer_id"]]
                where = (there["rank"], there["type"])
            group = op.get("tbg_info", {"tb_id": 0, "tbg_size": 1})
            count = buffer["size"] * self.plan.pieces // group["tbg_size"]
            first = buffer["index"] * self.plan.pieces + count * group["tb_id"]
            require(first + count <= self.plan.sizes[where[1]], "an access out of bounds")
            return where, first, count, isPackets

        def semaphore(kind, index, isSignal):
            peers = self.plan.channels[kind][rank]
            peer, ordinal = peers[own[kind][index]], peers[:own[kind][index]].count(peers[own[kind][index]])
            return (kind, rank, peer, ordinal) if isSignal else (kind, peer, rank, ordinal)

        def signals(thread, name):
            self.signallers[name].add(thread)
            self.perCall[name] += 1

        def tell(index, order):
            proxy = self.proxies.setdefault((rank, own["port"][index]), Thread(rank))
            if order[0] == "signal":
                signals(proxy, order[1])
            control.steps.append(("tell", proxy, order))
            return proxy

        def join(key, number):
            for thread in (data, control):
                thread.steps.append(("join", key, number))
        turns = collections.Counter()
        for turn, op in enumerate(block["ops"]):
            name, kind = op["name"], op.get("channel_type")
            if name == "nop":
                join((rank, number, turn), 2)
            elif name == "barrier":
                turns[op["barrier_id"]] += 1
                join((rank, number, turn, "before"), 2)
                join((rank, "barrier", op["barrier_id"], turns[op["barrier_id"]]), 2 * op["num_threadblocks"])
            elif name in ("signal", "rlxsignal", "wait", "rlxwait"):
                for index in op["channel_ids"]:
                    isSignal = name.endswith("signal")
                    order = "signal" if isSignal else "wait", semaphore(kind, index, isSignal), name.startswith("rlx") and kind == "memory"
                    if isSignal and kind == "port":
                        tell(index, order)
                        continue
                    if isSignal:
                        signals(control, order[1])
                    control.steps.append(order)
            elif name in ("sem_acquire", "sem_release"):
                for index in op["semaphore_ids"]:
                    what = ("own", rank, index)
                    if name == "sem_release":
                        signals(control, what)
                    control.steps.append(("signal" if name == "sem_release" else "wait", what, False))
            elif name == "flush":
                for index, _ in zip(op["channel_ids"], op.get("dst_buff", [])):
                    control.steps.append(("flush", self.proxies.setdefault((rank, own["port"][index]), Thread(rank))))
            elif kind == "port" and name in ("put", "pws", "pwsf", "ppkt", "rppkt"):
                if name == "rppkt":
                    data.steps.append(("move", [run(op, op["src_buff"][0], True)], []))
                    join((rank, number, turn), 2)
                for each, target in enumerate(op["dst_buff"]):
                    index, source = op["channel_ids"][each], run(op, op["src_buff"][0 if name == "rppkt" else each], False)
                    proxy = tell(index, ("copy", source, run(op, target, name.endswith("pkt"))))
                    if name in ("pws", "pwsf"):
                        tell(index, ("signal", semaphore(kind, index, True), False))
                    if name == "pwsf":
                        control.steps.append(("flush", proxy))
            elif name == "get":
                for source, target in zip(op["src_buff"], op["dst_buff"]):
                    source, target = run(op, source, False), run(op, target, False)
                    data.steps.append(("move", [(source[0], target[1], *source[2:])], [(target[0], source[1], *target[2:])]))
            elif name in PACKETS:
                reads, writes = PACKETS[name]
                for index, target in enumerate(op["dst_buff"]):
                    source = op["src_buff"][0 if name == "rppkt" else index] | ({} if name == "rppkt" else {"type": op["src_buff"][0]["type"]})
                    data.steps.append(("move", [run(op, source, reads)], [run(op, target, writes)]))
            elif name in REDUCTIONS:
                packets, isRemote, extra = REDUCTIONS[name]
                sources = [run(op, source, packets and index > 0) for index, source in enumerate(op["src_buff"])]
                targets = op["dst_buff"] if isRemote else op["dst_buff"][:1 + extra]
                data.steps.append(("move", sources, [run(op, target, packets and index > 0) for index, target in enumerate(targets)]))
            else:
                raise Wrong(f"the replay knows no {name}")

    def name(self, place, chunk, call):
        (rank, buffer), first, _, _ = place
        turn = call % 2 if self.plan.hasTwoBuffers and buffer == "s" else 0
        return self.plan.place(rank, buffer, first + chunk) + (turn,)

    def begin(self, rank):
        app = self.apps[rank]
        app.time += 1
        app.known[app] = app.time
        for buffer in "oi":
            for chunk in range(self.plan.sizes[buffer]):
                value = inputOf(rank, chunk, self.call[rank]) if buffer == "i" else None
                self.access(app, self.plan.place(rank, buffer, chunk) + (0,), value, True)
        for thread in self.threads:
            if thread.rank == rank:
                self.learn(thread, app.known)
                thread.at, thread.start = 0, dict(thread.known)

    def end(self, rank):
        app = self.apps[rank]
        for thread in self.threads:
            if thread.rank == rank:
                self.learn(app, thread.known)
        app.time += 1
        app.known[app] = app.time
        for chunk in range(self.plan.sizes["o"]):
            value = self.access(app, self.plan.place(rank, "o", chunk) + (0,))
            require(value == self.plan.expected(rank, chunk, self.call[rank]), f"a wrong result: rank {rank} chunk {chunk}")
        self.call[rank] += 1
        if self.call[rank] < self.calls:
            self.begin(rank)

    @staticmethod
    def learn(thread, known):
        for key, time in known.items():
            thread.known[key] = max(thread.known.get(key, 0), time)

    def access(self, thread, name, value=None, isWrite=False):
        earlier = [self.writes[name]] if name in self.writes else []
        if isWrite:
            earlier += self.reads.pop(name, [])
        require(all(other is thread or thread.known.get(other, 0) >= time for other, time in earlier), f"a race: {name}")
        now = (thread, thread.time + (thread not in self.apps))
        if not isWrite:
            self.reads[name].append(now)
            return self.values.get(name)
        self.writes[name], self.values[name] = now, value
        return None

    def run(self):
        while any(call < self.calls for call in self.call) or any(proxy.orders for proxy in self.proxies.values()):
            moved = False
            for thread in self.random.sample(self.threads, len(self.threads)):
                while self.call[thread.rank] < self.calls and thread.at < len(thread.steps) and self.step(thread):
                    moved = True
                    if self.random.random() < 0.3:
                        break
            for proxy in self.proxies.values():
                if proxy.orders and self.random.random() < 0.5:
                    self.obey(proxy)
                    moved = True
                moved = moved or bool(proxy.orders)
            for rank in range(self.plan.numRanks):
                if self.call[rank] < self.calls and all(thread.at == len(thread.steps) for thread in self.threads if thread.rank == rank):
                    self.end(rank)
                    moved = True
            require(moved, "a deadlock")
        require(all(len(told) == self.taken[semaphore] + self.initial[semaphore] for semaphore, told in self.told.items()),
                "signals are left")

    def step(self, thread):
        kind, call = thread.steps[thread.at][0], self.call[thread.rank]
        what = thread.steps[thread.at]
        if kind == "join":
            arrived = self.joins[what[1], call]
            arrived.setdefault(thread, dict(thread.known) | {thread: thread.time + 1})
            if len(arrived) < what[2]:
                return False
            for known in arrived.values():
                self.learn(thread, known)
        elif kind == "wait":
            if self.taken[what[1]] == len(self.told[what[1]]):
                return False
            self.take(thread, what[1], what[2], call)
        elif kind == "signal":
            self.signal(thread, what[1], what[2], thread.start)
        elif kind == "tell":
            what[1].orders.append((what[2], call, dict(thread.known) | {thread: thread.time + 1}, thread.start))
        elif kind == "flush":
            if what[1].orders:
                return False
            self.learn(thread, what[1].known)
        elif not self.move(thread, what[1], what[2], call):
            return False
        thread.time += 1
        thread.known[thread] = thread.time
        thread.at += 1
        return True

    def signal(self, thread, semaphore, isRelaxed, start):
        everything = dict(thread.known) | {thread: thread.time + 1}
        self.told[semaphore].append((start if isRelaxed else everything, start))

    def take(self, thread, semaphore, isRelaxed, call):
        """Which of several signallers it was is not known until all of them have signalled."""
        told, number = self.told[semaphore], self.taken[semaphore]
        self.taken[semaphore] += 1
        if len(self.signallers[semaphore]) <= 1:
            known = [told[number]]
        else:
            isLast = number + 1 == self.initial[semaphore] + self.perCall[semaphore] * (call + 1)
            known = told[:number + 1] if isLast else []
        for everything, start in known:
            self.learn(thread, start if isRelaxed else everything)

    def arrive(self, thread, name, written, call):
        """Packets of this call that are written again: a reader may have read the first ones, and knows no more."""
        if (self.packets.get(name, (-1,))[0], written) != (call, call):
            self.packets[name] = (written, dict(thread.known) | {thread: thread.time + 1})

    def obey(self, proxy):
        """A proxy's next order. It copies packets as they are, and waits for none."""
        order, call, known, start = proxy.orders.popleft()
        self.learn(proxy, known)
        if order[0] == "signal":
            self.signal(proxy, order[1], order[2], start)
        else:
            source, target = order[1:]
            require(source[2] == target[2], "runs of different lengths")
            for chunk in range(source[2]):
                value = self.access(proxy, self.name(source, chunk, call))
                self.access(proxy, self.name(target, chunk, call), value, True)
                if target[3]:
                    before = self.packets.get(self.name(source, chunk, call), (-1,))[0]
                    self.arrive(proxy, self.name(target, chunk, call), before, call)
        proxy.time += 1
        proxy.known[proxy] = proxy.time

    def move(self, thread, sources, targets, call):
        count = sources[0][2]
        require(all(each[2] == count for each in sources + targets), "runs of different lengths")
        for source in sources:
            if source[3] and any(self.packets.get(self.name(source, chunk, call), (-1,))[0] != call for chunk in range(count)):
                return False
        for source in sources:
            for chunk in range(count if source[3] else 0):
                self.learn(thread, self.packets[self.name(source, chunk, call)][1])
        for chunk in range(count):
            values = [self.access(thread, self.name(source, chunk, call)) for source in sources]
            value = None if None in values else sum(values)
            for target in targets:
                self.access(thread, self.name(target, chunk, call), value, True)
                if target[3]:
                    self.arrive(thread, self.name(target, chunk, call), call, call)
        return True


def mistake(text, seeds=2):
    try:
        for seed in range(seeds):
            Replay(Plan(text), seed).run()
    except Wrong as wrong:
        return str(wrong)
    return None
