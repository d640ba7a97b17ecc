"""Schedules of MSCCL as those of the measured tables are: rings and all pairs, on several channels. Made here, from what the
table says of them, for any number of ranks and channels."""


class ThreadBlock:
    def __init__(self, send, receive, channel):
        self.send, self.receive, self.channel, self.steps = send, receive, channel, []

    def step(self, kind, source, destination, count=1, wait=(-1, -1), tells=0):
        self.steps.append(f'<step s="{len(self.steps)}" type="{kind}" srcbuf="{source[0]}" srcoff="{source[1]}" '
                          f'dstbuf="{destination[0]}" dstoff="{destination[1]}" cnt="{count}" depid="{wait[0]}" deps="{wait[1]}" '
                          f'hasdep="{tells}"/>')

    def wait(self, *blocks_and_steps):
        for wait in blocks_and_steps:
            self.step("nop", ("i", -1), ("o", -1), 0, wait)


def text(name, collective, protocol, channels, chunks, sizes, ranks):
    """`sizes`: chunks of input, output and scratch memory. `ranks`: the thread blocks of each."""
    lines = [f'<algo name="{name}" proto="{protocol}" nchannels="{channels}" nchunksperloop="{chunks}" ngpus="{len(ranks)}" '
             f'coll="{collective}" inplace="1" outofplace="0" minBytes="0" maxBytes="0">']
    for rank, blocks in enumerate(ranks):
        lines.append(f'<gpu id="{rank}" i_chunks="{sizes[0]}" o_chunks="{sizes[1]}" s_chunks="{sizes[2]}">')
        for number, block in enumerate(blocks):
            lines.append(f'<tb id="{number}" send="{block.send}" recv="{block.receive}" chan="{block.channel}">')
            lines += block.steps + ["</tb>"]
        lines.append("</gpu>")
    return "\n".join(lines + ["</algo>", ""])


def all_gather_ring(protocol, rings, instances, size=8):
    """Chunk i goes around on channel i modulo the rings; with several instances, each carries its part of every chunk."""
    ranks = []
    for rank in range(size):
        blocks = []
        for channel in range(rings * instances):
            instance, ring = divmod(channel, rings)
            block = ThreadBlock((rank + 1) % size, (rank - 1) % size, channel)
            for distance in range(size):
                origin = (rank - distance) % size
                if origin % rings != ring:
                    continue
                chunk = ("o", origin * instances + instance)
                if distance > 0:
                    block.step("r", chunk, chunk)
                if distance < size - 1:
                    block.step("s", chunk, chunk)
            blocks.append(block)
        ranks.append(blocks)
    chunks = size * instances
    return text("ring", "allgather", protocol, rings * instances, chunks, (0, chunks, 0), ranks)


def all_gather_all_pairs(protocol, channels, size=8):
    """A thread block for each peer and channel sends its part of the own block, and receives the peer's."""
    ranks = []
    for rank in range(size):
        blocks = []
        for peer in (peer for peer in range(size) if peer != rank):
            for channel in range(channels):
                block = ThreadBlock(peer, peer, channel)
                block.step("s", ("o", rank * channels + channel), ("o", rank * channels + channel))
                block.step("r", ("o", peer * channels + channel), ("o", peer * channels + channel))
                blocks.append(block)
        ranks.append(blocks)
    chunks = size * channels
    return text("allPairs", "allgather", protocol, channels, chunks, (0, chunks, 0), ranks)


def all_reduce_all_pairs(protocol, channels, size=8):
    """A thread block for each peer and channel, and one more for each channel. All blocks of a channel share the sum of the
    own block, when what all peers sent is there, and send the sum when all of it is there."""
    ranks = []
    for rank in range(size):
        others = [peer for peer in range(size) if peer != rank]
        blocks = [ThreadBlock(-1, -1, channel) for channel in range(channels)]
        blocks += [ThreadBlock(peer, peer, channel) for peer in others for channel in range(channels)]

        def of_peer(index, channel):
            return channels * (1 + index) + channel

        for channel in range(channels):
            first, scratch = size * size * channel, size * (size - 1) * channel
            received = [(of_peer(index, channel), 1) for index in range(size - 1)]
            summed = [(of_peer(index, channel), 2 * size - 3) for index in range(size - 1)]
            for index, peer in enumerate(others):
                block = blocks[of_peer(index, channel)]
                own = rank - (rank > peer)  # among the peer's others
                block.step("s", ("i", first + size * peer), ("s", scratch + size * own), size)
                block.step("r", ("i", first + size * rank), ("s", scratch + size * index), size, tells=1)
            parts = [(rank, blocks[channel], None)]
            parts += [(peer, blocks[of_peer(index, channel)], received[index]) for index, peer in enumerate(others)]
            for part, block, own in parts:
                waits = [wait for wait in received if wait != own]
                block.wait(*waits[1:])
                target = ("i", first + size * rank + part)
                for source in range(size - 1):
                    block.step("re", ("s", scratch + size * source + part), target, wait=waits[0] if source == 0 else (-1, -1),
                               tells=int(source == size - 2))
            for index, peer in enumerate(others):
                block = blocks[of_peer(index, channel)]
                block.wait(*(wait for wait in summed if wait != summed[index]))
                own, others_block = ("i", first + size * rank), ("i", first + size * peer)
                block.step("s", own, own, size, wait=(channel, 2 * size - 4))
                block.step("r", others_block, others_block, size)
        ranks.append(blocks)
    chunks = size * size * channels
    return text("allPairs", "allreduce", protocol, channels, chunks, (chunks, 0, size * (size - 1) * channels), ranks)


def schedule(collective, algorithm, protocol, rings, channels, size=8):
    """Of a row of a table."""
    protocol = {"ll": "LL", "ll128": "LL128", "simple": "Simple"}[protocol]
    if (collective, algorithm) == ("all-gather", "ring"):
        return all_gather_ring(protocol, rings, channels, size)
    if (collective, algorithm) == ("all-gather", "all pairs"):
        return all_gather_all_pairs(protocol, channels, size)
    if (collective, algorithm) == ("all-reduce", "all pairs"):
        return all_reduce_all_pairs(protocol, channels, size)
    raise ValueError(f"there is no schedule for {collective}, {algorithm}")
