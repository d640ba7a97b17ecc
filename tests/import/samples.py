"""Small schedules of our own that use every type of step."""
import json


class Rank:
    def __init__(self, number, scratch=0):
        self.number, self.scratch, self.blocks = number, scratch, []

    def block(self, send=-1, receive=-1, channel=0):
        self.blocks.append((send, receive, channel, []))
        return len(self.blocks) - 1

    def step(self, block, kind, source=("i", 0), destination=("o", 0), count=1, wait=(-1, -1), tells=0):
        steps = self.blocks[block][3]
        steps.append(f'      <step s="{len(steps)}" type="{kind}" srcbuf="{source[0]}" srcoff="{source[1]}" dstbuf="{destination[0]}" '
                     f'dstoff="{destination[1]}" cnt="{count}" depid="{wait[0]}" deps="{wait[1]}" hasdep="{tells}"/>\n')
        return len(steps) - 1


def text(name, collective, chunks, sizes, ranks, protocol="Simple", isInPlace=False, channels=1):
    body = ""
    for rank in ranks:
        body += f'  <gpu id="{rank.number}" i_chunks="{sizes[0]}" o_chunks="{sizes[1]}" s_chunks="{rank.scratch}">\n'
        for number, (send, receive, channel, steps) in enumerate(rank.blocks):
            body += f'    <tb id="{number}" send="{send}" recv="{receive}" chan="{channel}">\n{"".join(steps)}    </tb>\n'
        body += "  </gpu>\n"
    return (f'<algo name="{name}" proto="{protocol}" nchannels="{channels}" nchunksperloop="{chunks}" ngpus="{len(ranks)}" '
            f'coll="{collective}" inplace="{int(isInPlace)}" outofplace="{int(not isInPlace)}" minBytes="0" maxBytes="0">\n'
            f"{body}</algo>\n")


def ringAllReduce(size=4, protocol="Simple"):
    """In place: s, rrs, rrcs, rcs, r in one block."""
    ranks = []
    for number in range(size):
        rank = Rank(number)
        block = rank.block((number + 1) % size, (number - 1) % size)
        rank.step(block, "s", ("i", number), ("i", number))
        for step in range(1, size - 1):
            chunk = ("i", (number - step) % size)
            rank.step(block, "rrs", chunk, chunk)
        chunk = ("i", (number + 1) % size)
        rank.step(block, "rrcs", chunk, chunk)
        for step in range(size - 2):
            chunk = ("i", (number - step) % size)
            rank.step(block, "rcs", chunk, chunk)
        chunk = ("i", (number + 2) % size)
        rank.step(block, "r", chunk, chunk)
        ranks.append(rank)
    return text("ring", "allreduce", size, (size, 0), ranks, protocol, True)


def allPairsAllReduce(size=4, protocol="LL"):
    """Out of place: every rank sums its chunk in scratch memory, and sends it to all. With nops and fused reductions."""
    ranks = []
    for number in range(size):
        rank = Rank(number, size)
        others = [other for other in range(size) if other != number]
        links = {other: rank.block(other, other) for other in others}
        local = rank.block()
        for other in others:
            rank.step(links[other], "s", ("i", other), ("i", other))
            rank.step(links[other], "r", ("i", 0), ("s", other), tells=1)
        rank.step(local, "cpy", ("i", number), ("o", number))
        for other in others[:-2]:
            rank.step(local, "nop", wait=(links[other], 1))
        rank.step(local, "re", ("s", others[-2]), ("o", number), wait=(links[others[-2]], 1))
        rank.step(local, "re", ("s", others[-1]), ("o", number), wait=(links[others[-1]], 1))
        for other in others[:-2]:
            rank.step(local, "re", ("s", other), ("o", number), tells=int(other == others[:-2][-1]))
        last = len(rank.blocks[local][3]) - 1
        for other in others:
            rank.step(links[other], "s", ("o", number), ("o", number), wait=(local, last))
            rank.step(links[other], "r", ("i", 0), ("o", other))
        ranks.append(rank)
    return text("allpairs", "allreduce", size, (size, size), ranks, protocol)


def treeReduceScatter(size=4):
    """Each rank receives its block from all others, with rrc, in blocks that follow each other."""
    ranks = []
    for number in range(size):
        rank = Rank(number)
        others = [(number + step) % size for step in range(1, size)]
        local = rank.block()
        rank.step(local, "cpy", ("i", number), ("o", 0), tells=1)
        before = (local, 0)
        for other in others:
            block = rank.block(other, -1)
            rank.step(block, "s", ("i", other), ("o", 0))
        for other in reversed(others):
            block = rank.block(-1, other)
            rank.step(block, "rrc", ("o", 0), ("o", 0), wait=before, tells=1)
            before = (block, 0)
        ranks.append(rank)
    return text("reduceToAll", "reducescatter", size, (size, 1), ranks)


def allGatherInPlace(size=4, per=2, protocol="Simple"):
    ranks = []
    for number in range(size):
        rank = Rank(number)
        block = rank.block((number + 1) % size, (number - 1) % size)
        for step in range(size - 1):
            own, left = ("o", per * ((number - step) % size)), ("o", per * ((number - step - 1) % size))
            rank.step(block, "s", own, own, per)
            rank.step(block, "r", left, left, per)
        ranks.append(rank)
    return text("gather", "allgather", size * per, (0, size * per), ranks, protocol, True)


def directAllToAll(size=4):
    ranks = []
    for number in range(size):
        rank = Rank(number)
        rank.step(rank.block(), "cpy", ("i", number), ("o", number))
        for other in range(size):
            if other != number:
                block = rank.block(other, other)
                rank.step(block, "s", ("i", other), ("o", number))
                rank.step(block, "r", ("i", number), ("o", other))
        ranks.append(rank)
    return text("direct", "alltoall", size, (size, size), ranks)


PLAN = {"name": "exchange", "collective": "allreduce", "protocol": "Simple", "inplace": True, "reuse_resources": False}


def plan(changes=None, operations=None):
    """An all-reduce of two ranks, in place: each reads the other's half, sums it and puts the sum back."""
    gpus = []
    for rank in range(2):
        own = {"type": "i", "index": rank, "size": 1}
        theirs = {"buffer_id": 0, "index": rank, "size": 1}
        sync = [{"name": "signal", "channel_ids": [0], "channel_type": "memory"}, {"name": "wait", "channel_ids": [0], "channel_type": "memory"},
                {"name": "nop"}]
        ops = [{"name": "nop"}, *sync, {"name": "rres", "channel_type": "memory", "src_buff": [own, theirs], "dst_buff": [own, theirs], "reduce_op": "sum"},
               {"name": "nop"}, *sync]
        block = {"id": 0, "ops": operations(rank, ops) if operations else ops, "channels": [{"channel_type": "memory", "channel_ids": [0]}],
                 "remote_buffer_refs": [{"access_channel_type": "memory", "remote_buffer_ids": [0]}]}
        gpus.append({"id": rank, "input_chunks": 2, "output_chunks": 2, "scratch_chunks": 0, "threadblocks": [block],
                     "channels": [{"channel_type": "memory", "connected_to": [1 - rank]}],
                     "remote_buffers": [{"rank": 1 - rank, "type": "i", "access_channel_types": ["memory"]}], "semaphores": []})
    return json.dumps({**PLAN, "gpus": gpus, **(changes or {})}, indent=1)


def packetPlan():
    """The same by packets: each sends its half to the other, which sums it and sends the sum back. Two scratch buffers take turns."""
    gpus = []
    for rank in range(2):
        own, other = {"type": "i", "index": rank, "size": 1}, {"type": "i", "index": 1 - rank, "size": 1}
        ops = [{"name": "ppkt", "channel_type": "memory", "src_buff": [other], "dst_buff": [{"buffer_id": 0, "index": 0, "size": 1}]},
               {"name": "respkt", "channel_type": "memory", "src_buff": [own, {"type": "s", "index": 0, "size": 1}],
                "dst_buff": [own, {"buffer_id": 0, "index": 1, "size": 1}], "reduce_op": "sum"}]
        unpack = [{"name": "upkt", "src_buff": [{"type": "s", "index": 1, "size": 1}], "dst_buff": [other]}]
        tables = {"channels": [{"channel_type": "memory", "channel_ids": [0]}],
                  "remote_buffer_refs": [{"access_channel_type": "memory", "remote_buffer_ids": [0]}]}
        gpus.append({"id": rank, "input_chunks": 2, "output_chunks": 2, "scratch_chunks": 2,
                     "threadblocks": [{"id": 0, "ops": ops + (unpack if rank else []), **tables}, {"id": 1, "ops": [] if rank else unpack, **tables}],
                     "channels": [{"channel_type": "memory", "connected_to": [1 - rank]}],
                     "remote_buffers": [{"rank": 1 - rank, "type": "s", "access_channel_types": ["memory"]}], "semaphores": []})
    return json.dumps({**PLAN, "name": "packets", "protocol": "LL", "use_double_scratch_buffer": True, "gpus": gpus}, indent=1)


def sharedPlan():
    """Two blocks share the operations of `plan`, and each has a channel of its own."""
    root = json.loads(plan())
    for gpu in root["gpus"]:
        gpu["channels"][0]["connected_to"] *= 2
        first = gpu["threadblocks"][0]
        second = json.loads(json.dumps(first))
        second["id"], second["channels"][0]["channel_ids"] = 1, [1]
        for number, block in enumerate((first, second)):
            for op in block["ops"]:
                if op["name"] == "rres":
                    op["tbg_info"] = {"tb_id": number, "tbg_size": 2}
        gpu["threadblocks"].append(second)
    return json.dumps(root, indent=1)


def plans():
    return {"plan": plan(), "packetPlan": packetPlan(), "sharedPlan": sharedPlan()}


def all_():
    return {"ring": ringAllReduce(), "ringLL": ringAllReduce(protocol="LL"), "allPairs": allPairsAllReduce(),
            "allPairsSimple": allPairsAllReduce(protocol="Simple"), "reduceScatter": treeReduceScatter(),
            "gather": allGatherInPlace(), "allToAll": directAllToAll()}
