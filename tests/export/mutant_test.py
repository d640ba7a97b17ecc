"""The reader and the replay catch what is wrong: every mutant of an export that is right is refused, with the reason."""
import re
import unittest

import kolo
from reader import Refused

STEP = re.compile(r'( +<step .*?/>\n)')


def value(step, name):
    return re.search(rf' {name}="([^"]*)"', step)[1]


def change(step, **changes):
    for name, text in changes.items():
        step = re.sub(rf' {name}="[^"]*"', f' {name}="{text}"', step)
    return step


class Mutants(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.texts = {name: cls.export(name) for name in ("twoShotAllReduce", "ringAllReduce", "ringAllGather", "directAllToAll")}

    @staticmethod
    def export(name):
        code, text, error = kolo.export(name, "rank=4")
        if code:
            raise AssertionError(error)
        return text

    def refusal(self, text, **options):
        """What is wrong with the text; None if nothing is."""
        try:
            for seed in range(2):
                kolo.replay(text, seed=seed, **options)
        except Refused as refused:
            return str(refused)
        return None

    def assertRefused(self, text, words, **options):
        reason = self.refusal(text, **options)
        self.assertIsNotNone(reason, f"a mutant is taken, expected: {words}")
        self.assertRegex(reason, words)

    def mutants(self, mutate):
        """(text, the step before) for every step that `mutate` changes."""
        for text in self.texts.values():
            for match in STEP.finditer(text):
                changed = mutate(match[1])
                if changed is not None and changed != match[1]:
                    yield text[:match.start()] + changed + text[match.end():], match[1]

    def test_the_originals_are_right(self):
        for name, text in self.texts.items():
            self.assertIsNone(self.refusal(text), name)

    def test_a_wait_that_is_removed(self):
        def mutate(step):
            if value(step, "depid") == "-1" or value(step, "type") == "nop":
                return None
            return change(step, depid=-1, deps=-1)
        missed, total = [], 0
        for text, step in self.mutants(mutate):
            total += 1
            if self.refusal(text) is None:
                missed.append(step.strip())
        self.assertGreater(total, 50)
        # A message that comes back from a peer can order two accesses too: then the wait is one too many.
        self.assertLess(len(missed), total / 3, missed)

    def test_a_send_without_its_receive_and_the_reverse(self):
        def without(kind):
            def mutate(step):
                if value(step, "type") != kind:
                    return None
                return change(step, type="cpy", srcbuf="i", srcoff=0, dstbuf="i", dstoff=0, cnt=1)
            return mutate
        for kind in "sr":
            for text, _ in self.mutants(without(kind)):
                self.assertRefused(text, r"^channel \d+: \d sends .*, \d receives")

    def test_a_wrong_chunk(self):
        def shifted(kinds, name):
            def mutate(step):
                if value(step, "type") not in kinds or value(step, "cnt") != "1":
                    return None
                return change(step, **{name: (int(value(step, name)) + 1) % 3})
            return mutate
        for kinds, name in (("s", "srcoff"), ("r", "dstoff"), (("re",), "srcoff"), (("re",), "dstoff")):
            for text, step in self.mutants(shifted(kinds, name)):
                self.assertRefused(text, "wrong result|race|leaves the buffer|changes its input|tells nobody|fuses|deadlock")

    def test_a_wrong_buffer(self):
        def mutate(step):
            return change(step, dstbuf="o") if value(step, "type") == "r" and value(step, "dstbuf") == "s" else None
        for text, _ in self.mutants(mutate):
            self.assertRefused(text, "wrong result|race|leaves the buffer")

    def test_a_step_that_nobody_is_told_of(self):
        for text, _ in self.mutants(lambda step: change(step, hasdep=0)):
            self.assertRefused(text, "tells nobody that it is complete|fuses")

    def test_what_the_reader_of_rccl_does_not_take(self):
        text = self.texts["twoShotAllReduce"]
        first = STEP.search(text)[1]
        block = re.search(r' +<tb id="0".*?</tb>\n', text, re.S)[0]

        def steps(count):
            return "".join(change(first, s=number, hasdep=0) for number in range(count))

        def replaced(old, new):
            self.assertIn(old, text)
            return text.replace(old, new, 1)
        cases = [
            ('<?xml version="1.0"?>\n' + text, "is no tag"),
            (text.replace("  <gpu", "\t<gpu"), "tabs"),
            (replaced("<gpu id", "<gpu  id"), "is no tag"),
            (replaced('id="0"', "id='0'"), "is no tag"),
            (replaced("<gpu", "<gpu\n"), "is no tag"),
            (replaced(' hasdep="1"', ""), "has the attributes"),
            (replaced(' hasdep="1"', ' hasdep="1" more="1"'), "has the attributes"),
            (replaced("</algo>\n", ""), "not complete"),
            (replaced('proto="Simple"', 'proto="simple"'), "proto"),
            (replaced('coll="allreduce"', 'coll="all_reduce"'), "coll"),
            (replaced('outofplace="1"', 'outofplace="0"'), "for no call"),
            (replaced('gpu id="1"', 'gpu id="2"'), "gpus are not"),
            (replaced('tb id="1"', 'tb id="70"'), "ids of blocks"),
            (replaced('send="1"', 'send="0"'), "peer 0"),
            (replaced('send="1"', 'send="4"'), "peer 4"),
            (replaced('chan="0"', 'chan="1"'), "chan 1"),
            (replaced('nchannels="1"', 'nchannels="129"'), "nchannels"),
            (replaced('cnt="1"', 'cnt="72"'), "cnt 72"),
            (replaced('type="re"', 'type="rrc"'), "rrc is not run by rccl-6.1"),
            (replaced('type="cpy"', 'type="copy"'), "copy is not run"),
            (replaced(' s="0"', ' s="5"'), "step 5 is number 0"),
            (text.replace(first, steps(65), 1), "65 steps"),
            (text.replace(block, "".join(block.replace('id="0"', f'id="{number}"') for number in range(65)), 1), "thread blocks"),
            (text.replace(first, change(first, srcoff=4), 1), "leaves the buffer"),
            (replaced('depid="0" deps="0"', 'depid="0" deps="7"'), "tells nobody"),
            (replaced('depid="0" deps="0"', 'depid="0" deps="-1"'), "depid and deps"),
            (replaced('chan="0">\n      <step s="0" type="s"', 'chan="0">\n      <step s="0" type="r"'), "receives from nobody"),
        ]
        for changed, words in cases:
            with self.subTest(words=words):
                self.assertNotEqual(changed, text)
                self.assertRefused(changed, words)
        many = text.replace('<tb id="2" send="2"', '<tb id="2" send="1"', 1)
        self.assertRefused(many, "two blocks on one end of a connection")

    def test_a_program_that_needs_more_messages_than_a_connection_holds(self):
        """Two ranks send three chunks each before they receive."""
        def gpu(rank):
            step = ('      <step s="{}" type="{}" srcbuf="i" srcoff="{}" dstbuf="o" dstoff="{}" cnt="1" depid="-1" deps="-1" '
                    'hasdep="0"/>\n')
            copy = "".join(step.format(i, "cpy", 3 * rank + i, 3 * rank + i) for i in range(3))
            body = "".join(step.format(i, "s", 3 * (1 - rank) + i, 3 * rank + i) for i in range(3))
            body += "".join(step.format(3 + i, "r", 3 * rank + i, 3 * (1 - rank) + i) for i in range(3))
            return (f'  <gpu id="{rank}" i_chunks="6" o_chunks="6" s_chunks="0">\n'
                    f'    <tb id="0" send="-1" recv="-1" chan="0">\n{copy}    </tb>\n'
                    f'    <tb id="1" send="{1 - rank}" recv="{1 - rank}" chan="0">\n{body}    </tb>\n  </gpu>\n')
        text = ('<algo name="exchange" proto="Simple" nchannels="1" nchunksperloop="6" ngpus="2" coll="alltoall" inplace="0" '
                f'outofplace="1" minBytes="0" maxBytes="0">\n{gpu(0)}{gpu(1)}</algo>\n')
        self.assertRefused(text, "^deadlock: rank 0 block 1 step 2, rank 1 block 1 step 2|^deadlock: rank 1 block 1 step 2")
        self.assertIsNone(self.refusal(text, slots=3))
        self.assertIsNone(self.refusal(text.replace('proto="Simple"', 'proto="LL"')))

    def test_ll_does_not_tell_that_a_send_has_read_its_source(self):
        text = self.texts["ringAllReduce"].replace('proto="Simple"', 'proto="LL"')
        self.assertRefused(text, "race: .* writes")


if __name__ == "__main__":
    unittest.main(verbosity=2)
