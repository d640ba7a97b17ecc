"""What LLVM's memory model for gfx90a and gfx942 wants of an assembly text, at every release, acquire and packet.

A system-scope access is recognised by its bits: sc0 sc1 on gfx942; on gfx90a glc for a load, and none for a store. So the functions
that release and those that wait are named, and what has to stand around their accesses is checked for each of them.
"""
import re

DRAIN = re.compile(r"s_waitcnt (.*\s)?vmcnt\(0\)")
RELEASING, ACQUIRING = {"signal.one": 1, "wait.note": 2}, ("wait.one",)  # RELEASING: how often; the record, and the abort word
WRITE_BACK = {"gfx90a": ["buffer_wbl2"], "gfx942": ["buffer_wbl2 sc0 sc1"]}
INVALIDATE = {"gfx90a": ["buffer_invl2", "buffer_wbinvl1_vol"], "gfx942": ["buffer_inv sc0 sc1"]}
PACKETS = re.compile(r"(send|sendAll|receive|receiveAll|receiveReduce|receiveReduceAll)(\.blocked)?$")


def is_strong_load(architecture, line):
    bits = r"sc0 sc1$" if architecture == "gfx942" else r"\bglc$"
    return line.startswith("global_load_dwordx2") and re.search(bits, line) is not None


def check_release(architecture, name, code):
    """Write back, drain, store: in this order, with nothing between, and the store has its scope."""
    wrong, writeBack = [], WRITE_BACK[architecture]
    begins = [i for i, line in enumerate(code) if line in writeBack]
    if len(begins) < RELEASING[name]:
        wrong.append(f"{name}: the caches are written back {len(begins)} times")
    for begin in begins:
        after = code[begin + 1:begin + 3]
        if len(after) < 2 or not DRAIN.match(after[0]):
            wrong.append(f"{name}: the write-back is not drained")
        store = next((line for line in code[begin + 1:] if line.startswith(("global_store", "global_load"))), "")
        if not store.startswith("global_store_dwordx2"):
            wrong.append(f"{name}: no store follows the write-back")
        elif architecture == "gfx942" and not store.endswith("sc0 sc1"):
            wrong.append(f"{name}: the released store is not at system scope: {store}")
    return wrong


def check_acquire(architecture, name, code):
    """Polls bypass the caches and are waited for; then the caches are invalidated, before anything else is loaded."""
    wrong, invalidate = [], INVALIDATE[architecture]
    polls = [i for i, line in enumerate(code) if is_strong_load(architecture, line)]
    if len(polls) < 3:  # the first poll, those of the loop, the abort word
        wrong.append(f"{name}: {len(polls)} loads at system scope")
    begins = [i for i, line in enumerate(code) if line == invalidate[0]]
    if not begins or any(code[i:i + len(invalidate)] != invalidate for i in begins):
        return wrong + [f"{name}: the caches are not invalidated by {', '.join(invalidate)}"]
    if begins[-1] < polls[-1]:
        wrong.append(f"{name}: nothing is invalidated after the last poll")
    for poll in polls:
        following = code[poll + 1:]
        use = next((i for i, line in enumerate(following) if line.startswith(("s_cbranch", "s_setpc"))), len(following))
        if not any(DRAIN.match(line) for line in following[:use]):
            wrong.append(f"{name}: a branch depends on a poll that has not come")
    return wrong


def check_barrier(architecture, name, code):
    """Each wave's stores are in the cache that all waves of the block share before it signals."""
    wrong = []
    for i, line in enumerate(code):
        if line.startswith("s_barrier") and not any(DRAIN.match(before) for before in code[max(0, i - 3):i]):
            wrong.append(f"{name}: stores are not drained before the barrier")
    return wrong


def check_packets(architecture, name, code):
    """A packet is one access of 8 bytes at system scope, and so is each poll for one."""
    wrong = []
    if name.startswith("send"):
        stores = [line for line in code if line.startswith("global_store")]
        narrow = [line for line in stores if not line.startswith("global_store_dwordx2")]
        wrong += [f"{name}: a packet is not stored at once: {line}" for line in narrow]
        if architecture == "gfx942":
            wrong += [f"{name}: a packet is not stored at system scope: {line}" for line in stores if not line.endswith("sc0 sc1")]
        return wrong if stores else [f"{name}: nothing is sent"]
    if sum(is_strong_load(architecture, line) for line in code) < 4:
        wrong.append(f"{name}: packets are not polled at system scope")
    return wrong


def problems(architecture, found):
    """What is wrong with functions, by name without `kolo.`: lists of instructions."""
    wrong = []
    for name, code in found.items():
        if name in RELEASING:
            wrong += check_release(architecture, name, code)
        if name in ACQUIRING:
            wrong += check_acquire(architecture, name, code)
        if name == "signal":
            wrong += check_barrier(architecture, name, code)
        if PACKETS.match(name):
            wrong += check_packets(architecture, name, code)
    return wrong


def mutants(architecture, found):
    """Functions that are wrong, each with what was changed."""
    def changed(name, i, *lines):
        return {**found, name: found[name][:i] + list(lines) + found[name][i + 1:]}

    ordering = set(WRITE_BACK[architecture] + INVALIDATE[architecture])
    for name, code in found.items():
        for i, line in enumerate(code):
            if name in (*RELEASING, *ACQUIRING) and line in ordering:
                yield f"{name}: {line} dropped", changed(name, i)
            if name in RELEASING and code[i - 1] in ordering and DRAIN.match(line):
                yield f"{name}: {line} dropped", changed(name, i)
            if name in (*RELEASING, *ACQUIRING) and line in ("buffer_inv sc0 sc1", "buffer_wbl2 sc0 sc1"):
                yield f"{name}: {line} narrowed", changed(name, i, line.replace("sc0 sc1", "sc1"))
            if name == "signal" and line.startswith("s_barrier"):
                drains = [j for j in range(max(0, i - 3), i) if DRAIN.match(code[j])]
                if len(drains) == 1:
                    yield f"{name}: {code[drains[0]]} dropped", changed(name, drains[0])
            isStrongStore = line.startswith("global_store_dwordx2") and line.endswith("sc0 sc1")
            if isStrongStore and (name in RELEASING or name.startswith("send")):
                yield f"{name}: {line} narrowed", changed(name, i, line.replace(" sc0 sc1", " sc0"))
            if name.startswith("send") and line.startswith("global_store_dwordx2"):
                halves = [line.replace("dwordx2", "dword")] * 2
                yield f"{name}: {line} in halves", changed(name, i, *halves)
