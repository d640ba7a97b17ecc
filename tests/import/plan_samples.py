"""Small execution plans of our own with port channels, barriers, semaphores and packets that go on."""
import json

import samples

NOP = {"name": "nop"}


class Rank:
    """Its blocks may use a channel of each kind to every other rank, and every buffer of theirs."""

    def __init__(self, number, numRanks):
        self.number, self.peers, self.blocks = number, [peer for peer in range(numRanks) if peer != number], []

    def far(self, peer, buffer, chunk):
        return {"buffer_id": 3 * self.peers.index(peer) + "ios".index(buffer), "index": chunk, "size": 1}

    def tell(self, name, kind, peers=None):
        return {"name": name, "channel_type": kind, "channel_ids": [self.peers.index(peer) for peer in peers or self.peers]}

    def send(self, name, kind, peers, sources, targets):
        return {**self.tell(name, kind, peers), "src_buff": sources, "dst_buff": targets}

    def flush(self, peers=None):
        """The executor flushes one channel for each destination."""
        op = self.tell("flush", "port", peers)
        return {**op, "dst_buff": [near("o", 0) for _ in op["channel_ids"]]}

    def meet(self, kind):
        return [self.tell("signal", kind), self.tell("wait", kind)]


def near(buffer, chunk):
    return {"type": buffer, "index": chunk, "size": 1}


def local(name, sources, target):
    op = {"name": name, "src_buff": sources, "dst_buff": [target]}
    return {**op, "reduce_op": "sum"} if name == "re" else op


def text(name, collective, sizes, ranks, isInPlace=False, semaphores=0, **head):
    gpus = []
    kinds = ("memory", "port")
    for rank in ranks:
        buffers = [{"rank": peer, "type": buffer, "access_channel_types": list(kinds)} for peer in rank.peers for buffer in "ios"]
        tables = {"channels": [{"channel_type": kind, "channel_ids": list(range(len(rank.peers)))} for kind in kinds],
                  "remote_buffer_refs": [{"access_channel_type": kind, "remote_buffer_ids": list(range(len(buffers)))} for kind in kinds]}
        gpus.append({"id": rank.number, "input_chunks": sizes[0], "output_chunks": sizes[1], "scratch_chunks": sizes[2],
                     "threadblocks": [{"id": number, "ops": ops, **tables} for number, ops in enumerate(rank.blocks)],
                     "channels": [{"channel_type": kind, "connected_to": rank.peers} for kind in kinds],
                     "remote_buffers": buffers, "semaphores": [{"init_value": 0}] * semaphores})
    return json.dumps({**samples.PLAN, "name": name, "collective": collective, "inplace": isInPlace, **head, "gpus": gpus}, indent=1)


def portAllGather(form, size=3):
    """Each rank puts its input into the outputs of all others: "put" and "signal", "pws", or "pwsf", which flushes."""
    ranks = [Rank(number, size) for number in range(size)]
    for rank in ranks:
        many, own = len(rank.peers), rank.number
        put = rank.send(form, "port", rank.peers, [near("i", 0)] * many, [rank.far(peer, "o", own) for peer in rank.peers])
        tell = [rank.tell("signal", "port")] if form == "put" else []
        flush = [] if form == "pwsf" else [rank.flush()]
        rank.blocks = [[local("copy", [near("i", 0)], near("o", own)), *rank.meet("port"), put, *tell, *flush, rank.tell("wait", "port")]]
    return text(form, "allgather", (1, size, 0), ranks)


def twoBlockAllReduce(usesBarriers):
    """In place on two ranks: block 0 exchanges halves, block 1 sums them in between. Barriers, or semaphores, order the blocks."""
    ranks = [Rank(number, 2) for number in range(2)]
    for rank in ranks:
        own, [peer] = rank.number, rank.peers
        if usesBarriers:
            before, after = ({"name": "barrier", "barrier_id": number, "num_threadblocks": 2} for number in range(2))
            sums, enter, leave = [before], [before, after], [after]
        else:
            release, acquire = ([{"name": f"sem_{name}", "semaphore_ids": [number]} for number in range(2)] for name in ("release", "acquire"))
            sums, enter, leave = [acquire[0], NOP], [release[0], acquire[1], NOP], [NOP, release[1]]
        rank.blocks = [[*rank.meet("memory"), NOP, rank.send("put", "memory", [peer], [near("i", peer)], [rank.far(peer, "s", 0)]),
                        NOP, *rank.meet("memory"), *enter,
                        rank.send("put", "memory", [peer], [near("i", own)], [rank.far(peer, "i", own)]), NOP, *rank.meet("memory"), NOP],
                       [*sums, local("re", [near("i", own), near("s", 0)], near("i", own)), *leave]]
    return text("barriers" if usesBarriers else "semaphores", "allreduce", (2, 2, 1), ranks, True, semaphores=2)


def portPackets():
    """Two ranks write packets into their own scratch memory, and proxies put them into the other's."""
    ranks = [Rank(number, 2) for number in range(2)]
    for rank in ranks:
        own, [peer] = rank.number, rank.peers
        rank.blocks = [[local("cpkt", [near("i", 0)], near("s", own)), local("copy", [near("i", 0)], near("o", own)), NOP,
                        rank.send("ppkt", "port", [peer], [near("s", own)], [rank.far(peer, "s", own)]), rank.flush(),
                        local("upkt", [near("s", peer)], near("o", peer))]]
    return text("portPackets", "allgather", (1, 2, 2), ranks, protocol="LL", use_double_scratch_buffer=True)


def packetRing(kind):
    """Three ranks in a ring: each sends its packets to the next one, which sends them on while it keeps them."""
    ranks = [Rank(number, 3) for number in range(3)]
    for rank in ranks:
        own, after, before = rank.number, (rank.number + 1) % 3, (rank.number + 2) % 3
        onward = rank.send("rppkt", kind, [after], [near("s", before)], [rank.far(after, "s", before)])
        rank.blocks = [[local("copy", [near("i", 0)], near("o", own)),
                        rank.send("ppkt", "memory", [after], [near("i", 0)], [rank.far(after, "s", own)]), onward,
                        *([rank.flush([after])] if kind == "port" else []), local("upkt", [near("s", before)], near("o", before)),
                        local("upkt", [near("s", after)], near("o", after))]]
    return text(f"{kind}Ring", "allgather", (1, 3, 3), ranks, protocol="LL", use_double_scratch_buffer=True)


def getAllToAll():
    """Two ranks read each other's input. The offsets are written as the executor takes them: each for the other side."""
    ranks = [Rank(number, 2) for number in range(2)]
    for rank in ranks:
        own, [peer] = rank.number, rank.peers
        rank.blocks = [[*rank.meet("memory"), NOP, local("copy", [near("i", own)], near("o", own)),
                        rank.send("get", "memory", [peer], [rank.far(peer, "i", peer)], [near("o", own)]), NOP, *rank.meet("memory")]]
    return text("get", "alltoall", (2, 2, 0), ranks)


def own():
    return {**{form: portAllGather(form) for form in ("put", "pws", "pwsf")}, "barriers": twoBlockAllReduce(True),
            "semaphores": twoBlockAllReduce(False), "portPackets": portPackets(), "memoryRing": packetRing("memory"),
            "portRing": packetRing("port"), "get": getAllToAll()}


def all_():
    return {**samples.plans(), **own()}
