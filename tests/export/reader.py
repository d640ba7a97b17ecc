"""Reads the XML of MSCCL as strictly as RCCL does, and more: every limit, matching messages, well-formed waits.

Written from the grammar of RCCL's reader, and independent of Kolo's writer."""
import collections
import re

MAX_BLOCKS = 64
MAX_STEPS = 64
MAX_COUNT = 71
MAX_FUSED = 16
MAX_CHANNEL = 127
MAX_NODES = 4095
MAX_CHUNK = 32767

COLLECTIVES = {"reduce", "broadcast", "allreduce", "reducescatter", "allgather", "gather", "scatter", "alltoall", "alltoallv",
               "send", "recv"}
ATTRIBUTES = {
    "algo": ["name", "proto", "nchannels", "nchunksperloop", "ngpus", "coll", "inplace", "outofplace", "minBytes", "maxBytes"],
    "gpu": ["id", "i_chunks", "o_chunks", "s_chunks"],
    "tb": ["id", "send", "recv", "chan"],
    "step": ["s", "type", "srcbuf", "srcoff", "dstbuf", "dstoff", "cnt", "depid", "deps", "hasdep"],
}
WORDS = {"name", "proto", "coll", "type", "srcbuf", "dstbuf"}
NESTED = {None: "algo", "algo": "gpu", "gpu": "tb", "tb": "step"}
INSTRUCTIONS = {"rccl-6.1": {"s", "r", "cpy", "re", "nop"},
                "rccl-6.0": {"s", "r", "cpy", "re", "nop", "rcs", "rrs", "rrc", "rrcs"}}
SENDS = {"s", "rcs", "rrs", "rrcs"}
RECEIVES = {"r", "rcs", "rrs", "rrc", "rrcs"}


class Refused(Exception):
    pass


def require(condition, message):
    if not condition:
        raise Refused(message)


class Element:
    def __init__(self, tag, attributes, number):
        self.tag, self.values, self.line, self.children = tag, attributes, number, []

    def __getitem__(self, name):
        return self.values[name]


def readAttributes(tag, text, number):
    found = re.findall(r' (\w+)="([^"]*)"', text)
    require("".join(f' {name}="{value}"' for name, value in found) == text, f"line {number}: malformed attributes: {text}")
    names = [name for name, _ in found]
    require(sorted(names) == sorted(ATTRIBUTES[tag]), f"line {number}: {tag} has the attributes {names}")
    values = {}
    for name, value in found:
        if name not in WORDS:
            require(re.fullmatch(r"-1|0|[1-9]\d*", value), f"line {number}: {name} is no number: {value}")
            value = int(value)
        values[name] = value
    return values


def readElements(text):
    """The tree. One tag is one line."""
    require("\t" not in text and "\r" not in text and text.isascii(), "tabs, carriage returns or other characters")
    require(text.endswith("\n"), "the last line has no end")
    root, open_ = None, []
    for number, line in enumerate(text.splitlines(), 1):
        line = line.lstrip(" ")
        close = re.fullmatch(r"</(\w+)>", line)
        if close:
            require(open_ and open_[-1].tag == close[1], f"line {number}: {line} closes nothing")
            open_.pop()
            continue
        start = re.fullmatch(r"<(\w+)((?: \w+=\"[^\"]*\")*)(/?)>", line)
        require(start, f"line {number}: is no tag: {line}")
        parent = open_[-1].tag if open_ else None
        require(NESTED.get(parent) == start[1] and (open_ or root is None), f"line {number}: {start[1]} inside {parent}")
        require((start[3] == "/") == (start[1] == "step"), f"line {number}: only steps are single tags")
        element = Element(start[1], readAttributes(start[1], start[2], number), number)
        if open_:
            open_[-1].children.append(element)
        else:
            root = element
        if start[1] != "step":
            open_.append(element)
    require(root is not None and not open_, "the file is not complete")
    return root


class Instruction:
    """What the kernel runs as one: a step, with the waits of the nops before it, or several fused reductions."""

    def __init__(self, kind, source, destination, count, waits):
        self.kind, self.sources, self.destination, self.count, self.waits = kind, [source], destination, count, waits
        self.last = None     # number of its last step
        self.signals = False  # whether others may wait for it


class Block:
    def __init__(self, element):
        self.send, self.receive, self.channel = element["send"], element["recv"], element["chan"]
        self.numSteps = len(element.children)
        self.instructions = []


class Algorithm:
    def __init__(self, text, profile):
        root = readElements(text)
        self.values, self.profile = root.values, profile
        self.protocol, self.collective, self.numRanks = root["proto"], root["coll"], root["ngpus"]
        self.numChannels, self.numChunks = root["nchannels"], root["nchunksperloop"]
        self.gpus = root.children
        self.checkHead()
        self.ranks = [self.readRank(gpu) for gpu in self.gpus]
        self.checkWaits()
        self.checkConnections()

    def checkHead(self):
        require(self.values["name"], "no name")
        require(self.protocol in ("Simple", "LL", "LL128"), f"proto {self.protocol}")
        require(self.collective in COLLECTIVES, f"coll {self.collective}")
        require(1 <= self.numChannels <= MAX_CHANNEL + 1, f"nchannels {self.numChannels}")
        require(1 <= self.numChunks <= MAX_CHUNK, f"nchunksperloop {self.numChunks}")
        require(self.values["inplace"] in (0, 1) and self.values["outofplace"] in (0, 1), "inplace and outofplace are 0 or 1")
        require(self.values["inplace"] + self.values["outofplace"] > 0, "selected for no call")
        require(self.values["minBytes"] >= 0 and self.values["maxBytes"] >= 0, "minBytes, maxBytes")
        require([gpu["id"] for gpu in self.gpus] == list(range(self.numRanks)), "gpus are not 0, 1, 2, ...")
        per = self.numChunks // self.numRanks
        sizes = {"allreduce": (self.numChunks, self.numChunks), "allgather": (per, self.numChunks),
                 "reducescatter": (self.numChunks, per), "alltoall": (self.numChunks, self.numChunks)}
        require(self.collective in sizes, f"Kolo exports no {self.collective}: RCCL does not look at the root")
        require(self.collective == "allreduce" or self.numChunks % self.numRanks == 0, "chunks per rank")
        for gpu in self.gpus:
            require((gpu["i_chunks"], gpu["o_chunks"]) == sizes[self.collective], f"line {gpu.line}: i_chunks, o_chunks")
            require(0 <= gpu["s_chunks"] <= MAX_CHUNK, f"line {gpu.line}: s_chunks")

    def readRank(self, gpu):
        require(len(gpu.children) <= MAX_BLOCKS, f"line {gpu.line}: {len(gpu.children)} thread blocks")
        require([block["id"] for block in gpu.children] == list(range(len(gpu.children))), f"line {gpu.line}: ids of blocks")
        nodes = 1 + self.numRanks + sum(1 + len(block.children) for block in gpu.children)
        require(nodes <= MAX_NODES, f"line {gpu.line}: {nodes} nodes")
        return [self.readBlock(gpu, block) for block in gpu.children]

    def readBlock(self, gpu, element):
        for peer in (element["send"], element["recv"]):
            require(-1 <= peer < self.numRanks and peer != gpu["id"], f"line {element.line}: peer {peer}")
        require(0 <= element["chan"] < self.numChannels, f"line {element.line}: chan {element['chan']}")
        require(len(element.children) <= MAX_STEPS, f"line {element.line}: {len(element.children)} steps")
        block, nops, previous = Block(element), [], None
        for number, step in enumerate(element.children):
            where = f"line {step.line}"
            require(step["s"] == number, f"{where}: step {step['s']} is number {number}")
            require(step["hasdep"] in (0, 1), f"{where}: hasdep")
            require(step["type"] in INSTRUCTIONS[self.profile], f"{where}: {step['type']} is not run by {self.profile}")
            require((step["depid"] == -1) == (step["deps"] == -1), f"{where}: depid and deps")
            require(step["srcbuf"] in "ios" and step["dstbuf"] in "ios", f"{where}: buffers")
            wait = (step["depid"], step["deps"], where)
            if step["type"] == "nop":
                require(step["depid"] >= 0, f"{where}: a nop that waits for nothing shifts the numbers of steps")
                require(not step["hasdep"], f"{where}: nobody can wait for a nop")
                nops.append(wait)
                continue
            require(not nops or step["depid"] >= 0, f"{where}: the step after nops must wait too")
            self.checkStep(gpu, block, step, where)
            source, destination = (step["srcbuf"], step["srcoff"]), (step["dstbuf"], step["dstoff"])
            if (step["type"] == "re" and previous is not None and previous.kind == "re" and not previous.signals
                    and previous.destination == destination and previous.sources[0][0] == source[0] and step["depid"] == -1):
                require(step["cnt"] == previous.count, f"{where}: the kernel fuses reductions of different lengths")
                previous.sources.append(source)
                require(len(previous.sources) <= MAX_FUSED, f"{where}: more than {MAX_FUSED} reductions are fused")
            else:
                previous = Instruction(step["type"], source, destination, step["cnt"],
                                       nops + ([wait] if step["depid"] >= 0 else []))
                block.instructions.append(previous)
            previous.last, previous.signals, nops = number, bool(step["hasdep"]), []
        require(not nops, f"line {element.line}: nops at the end")
        return block

    def checkStep(self, gpu, block, step, where):
        require(1 <= step["cnt"] <= MAX_COUNT, f"{where}: cnt {step['cnt']}")
        require(step["type"] not in SENDS or block.send >= 0, f"{where}: sends to nobody")
        require(step["type"] not in RECEIVES or block.receive >= 0, f"{where}: receives from nobody")
        isReceive = step["type"] == "r"
        for prefix, isLocal in (("src", not isReceive), ("dst", step["type"] != "s")):
            size = gpu[step[prefix + "buf"] + "_chunks"]
            require(not isLocal or 0 <= step[prefix + "off"] <= size - step["cnt"], f"{where}: {prefix}off leaves the buffer")

    def checkWaits(self):
        for blocks in self.ranks:
            ends = [{instruction.last for instruction in block.instructions if instruction.signals} for block in blocks]
            for number, block in enumerate(blocks):
                for instruction in block.instructions:
                    for other, step, where in instruction.waits:
                        require(other < len(blocks) and other != number, f"{where}: waits for block {other}")
                        require(step in ends[other], f"{where}: step {step} of block {other} tells nobody that it is complete")

    def checkConnections(self):
        """One block sends to a peer on a channel, one receives, and what is sent is what is received."""
        lengths = collections.defaultdict(lambda: ([], []))
        for rank, blocks in enumerate(self.ranks):
            for kinds, peerOf in ((SENDS, lambda block: block.send), (RECEIVES, lambda block: block.receive)):
                ends = [(block.channel, peerOf(block)) for block in blocks if peerOf(block) >= 0]
                require(len(ends) == len(set(ends)), f"rank {rank}: two blocks on one end of a connection")
                for block in blocks:
                    peer = peerOf(block)
                    key = (block.channel, rank, peer) if kinds is SENDS else (block.channel, peer, rank)
                    lengths[key][kinds is RECEIVES].extend(i.count for i in block.instructions if i.kind in kinds)
        for (channel, sender, receiver), (sent, received) in lengths.items():
            require(sent == received, f"channel {channel}: {sender} sends {sent}, {receiver} receives {received}")
