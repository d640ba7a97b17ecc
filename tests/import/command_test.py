"""The commands take files of MSCCL and MSCCL++: what they prove, run and predict, and how they refuse."""
import json
import os
import re
import resource
import subprocess
import tempfile
import unittest

import plan_samples
import replay
import samples
import support

MACHINE = "frontier"
RACY = os.path.join(os.path.dirname(__file__), os.pardir, "cli", "files", "racy.mlir")


class Commands(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = directory.name

    def write(self, name, text):
        path = os.path.join(self.directory, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def succeeds(self, *arguments):
        run = support.kolo(*arguments)
        self.assertEqual(run.returncode, 0, run.stderr + run.stdout)
        return run.stdout

    def refuses(self, path, *words, code=1, command="check"):
        run = support.kolo(command, path)
        self.assertEqual(run.returncode, code, run.stderr + run.stdout)
        for word in words:
            self.assertIn(word, run.stderr)
        return run.stderr

    def files(self):
        for name, text in samples.all_().items():
            yield name, self.write(name + ".xml", text)
        for name, text in plan_samples.all_().items():
            yield name, self.write(name + ".json", text)

    def test_every_property_of_each_sample_is_proved_and_its_channel_form_too(self):
        for name, path in self.files():
            with self.subTest(name):
                said = self.succeeds("check", path)
                self.assertEqual(len(re.findall(r"^V(?:\d|1[01]) .* proved", said, re.M)), 11, said)
                made = os.path.join(self.directory, name + ".mlir")
                self.succeeds("import", path, "-o", made)
                self.assertEqual(len(re.findall(r"^V(?:\d|1[01]) .* proved", self.succeeds("check", made), re.M)), 11)

    def test_statements_are_lines_of_the_file(self):
        path = self.write("ring.xml", samples.ringAllReduce())
        text = self.succeeds("import", path)
        lines = {int(line) for line in re.findall(r'ring\.xml":(\d+):1', text)}
        steps = {number for number, line in enumerate(samples.ringAllReduce().splitlines(), 1) if "<step" in line}
        self.assertEqual(lines - {1}, steps)

    def test_run_checks_every_byte(self):
        for name, path in self.files():
            if name in ("ringLL", "allPairsSimple", "put", "pws", "semaphores", "memoryRing"):
                continue  # the same steps again
            with self.subTest(name):
                with open(path, encoding="ascii") as file:
                    ranks = f"rank={len(json.load(file)['gpus'])}" if path.endswith(".json") else "rank=4"
                for flags in ([], ["--in-place", "--lanes", "2"]):
                    said = self.succeeds("run", path, "--mesh", ranks, "--count", "1003", "--iterations", "1", *flags)
                    self.assertIn("every byte is right", said)

    def test_bench_compile_and_simulate_take_the_file(self):
        path = self.write("ring.xml", samples.ringAllReduce())
        self.assertIn("65536", self.succeeds("bench", path, "--mesh", "rank=4", "-b", "64K", "-e", "64K", "-n", "2", "-w", "1"))
        plugin = os.path.join(self.directory, "ring.so")
        self.succeeds("compile", path, "-o", plugin)
        self.assertIn("every byte is right", self.succeeds("run", plugin, "--mesh", "rank=4", "--bytes", "64K", "--iterations", "1"))
        said = self.succeeds("simulate", path, "ringAllReduce", "--machine", MACHINE, "--mesh", "rank=4", "--bytes", "1M")
        self.assertRegex(said, r"ring\.xml:\d+|ring ")
        run = support.kolo("simulate", path, "--machine", MACHINE, "--mesh", "rank=8", "--bytes", "1M")
        self.assertEqual(run.returncode, 2)
        self.assertIn("is for 4 ranks, and rank=8 has 8", run.stderr)
        run = support.kolo("cost", path, "--machine", MACHINE, "--mesh", "rank=4", "--bytes", "1M")
        self.assertEqual(run.returncode, 2)
        self.assertIn("kolo simulate", run.stderr)

    def test_a_race_names_both_lines(self):
        """A block waits twice for one peer, and not for another one."""
        text = samples.allPairsAllReduce(protocol="Simple")
        wait = re.search(r'type="nop".* depid="(\d+)".*\n.* depid="(\d+)"', text)
        text = text[:wait.start(1)] + wait[2] + text[wait.end(1):]
        self.assertRegex(str(replay.mistake(text)), "race")
        said = self.refuses(self.write("race.xml", text), "V2 no data race", "nothing orders two accesses")
        self.assertRegex(said, r"race\.xml:\d+:1: error: V2")
        self.assertRegex(said, r"race\.xml:\d+:1: note: the other access")

    def refutation(self, path):
        """The object of the schedule; it must have the shape of a refuted program of Kolo's own."""
        run = support.kolo("check", path, "--json")
        self.assertEqual((run.returncode, run.stderr), (1, ""))
        own = json.loads(support.kolo("check", RACY, "--json").stdout)[-1]
        [entry] = json.loads(run.stdout)
        self.assertEqual(list(entry), list(own))
        self.assertEqual(list(entry["refutation"]), list(own["refutation"]))
        self.assertEqual({number: value["title"] for number, value in entry["properties"].items()},
                         {number: value["title"] for number, value in own["properties"].items()})
        found = entry["refutation"]
        self.assertEqual(entry["properties"][found["property"]], {"title": own["properties"][found["property"]]["title"], "state": "refuted"})
        with open(path, encoding="ascii") as file:
            numLines = len(file.readlines())
        for place in [found, *found["steps"], *([found["other"]] if found["other"] else [])]:
            self.assertEqual(place["file"], path)
            self.assertIn(place["line"], range(1, numLines + 1))
        for step in found["steps"]:
            self.assertEqual(list(step), list(own["refutation"]["steps"][0]))
            self.assertIn(step["rank"], found["ranks"])
        text = support.kolo("check", path).stderr
        self.assertIn(f"{path}:{found['line']}:1: error: {found['property']} ", text.splitlines()[0])
        return entry

    def test_a_refuted_schedule_as_json_is_that_of_a_refuted_program(self):
        text = samples.allPairsAllReduce(protocol="Simple")
        wait = re.search(r'type="nop".* depid="(\d+)".*\n.* depid="(\d+)"', text)
        entry = self.refutation(self.write("race.xml", text[:wait.start(1)] + wait[2] + text[wait.end(1):]))
        self.assertEqual((entry["program"], entry["mesh"], entry["transport"], entry["refutation"]["property"]),
                         ("allpairs", "rank=4", "RCCL", "V2"))
        race = entry["refutation"]
        self.assertEqual({step["line"] for step in race["steps"]}, {race["line"], race["other"]["line"]})
        self.assertIn(race["chunk"], race["message"])
        self.assertEqual(entry["properties"]["V4"]["state"], "not decided")

        def without(name):
            return lambda rank, ops: [op for op in ops if op["name"] != name]
        entry = self.refutation(self.write("silent.json", samples.plan(operations=without("signal"))))
        self.assertEqual((entry["program"], entry["transport"], entry["refutation"]["property"]), ("exchange", "MSCCL++", "V4"))
        self.assertEqual(entry["refutation"]["ranks"], [0, 1])
        self.assertIn("silent.json:", entry["properties"]["V5"]["note"])
        for name, wrong, word in (("signal", "V5", "signalled 0 times"), ("rres", "V1", "lacks"), ("nop", "V7", "nothing orders")):
            with self.subTest(name):
                entry = self.refutation(self.write("wrong.json", samples.plan(operations=without(name))))
                self.assertEqual(entry["properties"][wrong]["state"], "refuted")
                self.assertIn(word, json.dumps(entry))
        entry = self.refutation(self.write("long.xml", samples.ringAllReduce().replace('cnt="1"', 'cnt="9"')))
        self.assertEqual((entry["refutation"]["property"], len(entry["refutation"]["steps"])), ("V6", 1))
        short = samples.allGatherInPlace(per=2).replace('type="r" srcbuf="o" srcoff="0" dstbuf="o" dstoff="0" cnt="2"',
                                                        'type="r" srcbuf="o" srcoff="0" dstbuf="o" dstoff="0" cnt="1"', 1)
        entry = self.refutation(self.write("short.xml", short))
        self.assertEqual(entry["refutation"]["property"], "V6")
        self.assertEqual(len(entry["refutation"]["ranks"]), 2)

    def test_json_of_a_file_that_is_refused_is_one_line_and_no_json(self):
        os.mkdir(os.path.join(self.directory, "folder.xml"))
        for name, text, code in (("absent.xml", None, 2), ("folder.xml", None, 2), ("absent.json", None, 2),
                                 ("text.xml", "no XML", 1), ("half.json", samples.plan()[:-9], 1),
                                 ("half.xml", samples.ringAllReduce()[:-9], 1)):
            with self.subTest(name):
                path = os.path.join(self.directory, name) if text is None else self.write(name, text)
                run = support.kolo("check", path, "--json")
                self.assertEqual((run.returncode, run.stdout, len(run.stderr.splitlines())), (code, "", 1), run.stderr)
                self.assertIn(name, run.stderr)

    def test_two_messages_at_once_need_two_slots(self):
        """A connection of Simple holds two messages. Three before the first receive wait for ever."""
        ranks = []
        for number in range(2):
            rank = samples.Rank(number)
            local, block = rank.block(), rank.block(1 - number, 1 - number)
            for chunk in range(3):
                rank.step(local, "cpy", ("i", 3 * number + chunk), ("o", 3 * number + chunk))
            for chunk in range(3):
                rank.step(block, "s", ("i", 3 * (1 - number) + chunk), ("o", 0))
            for chunk in range(3):
                rank.step(block, "r", ("i", 0), ("o", 3 * (1 - number) + chunk))
            ranks.append(rank)
        text = samples.text("exchange", "alltoall", 6, (6, 6), ranks)
        self.assertEqual(replay.mistake(text), "a deadlock")
        self.refuses(self.write("slots.xml", text), "V4 no deadlock", "since 2 messages wait there", "the largest call needs 3")
        self.succeeds("check", self.write("ll.xml", text.replace('"Simple"', '"LL"')))

    def test_an_export_comes_back_and_is_written_again_the_same(self):
        for algorithm in ("ringAllGather", "twoShotAllReduce", "ringReduceScatter", "directAllToAll", "recursiveDoublingAllReduce"):
            for flags in ([], ["--lanes", "2"], ["--profile", "rccl-6.0"], ["--in-place", "--max-bytes", "1M"]):
                with self.subTest(algorithm, flags=flags):
                    profile = [] if "--profile" in flags else ["--profile", "rccl-6.1"]
                    path = os.path.join(self.directory, "export.xml")
                    run = support.kolo("export", algorithm, "--mesh", "rank=4", "--format", "msccl-xml", *profile, *flags, "-o", path)
                    self.assertEqual(run.returncode, 0, run.stderr)
                    with open(path, encoding="ascii") as file:
                        text = file.read()
                    self.assertEqual(self.succeeds("import", path, "--format", "msccl-xml"), text)
                    self.assertEqual(support.answers([path]), ["right"])
                    self.assertIn("proved", self.succeeds("check", path))

    def test_what_is_no_file_of_msccl(self):
        text = samples.ringAllReduce()

        def wrong(changed, line, *words):
            self.assertNotEqual(changed, text)
            said = self.refuses(self.write("wrong.xml", changed), f"wrong.xml:{line}:1: error: ", *words)
            self.assertEqual(len(said.splitlines()), 1, said)
        first = next(number for number, each in enumerate(text.splitlines(), 1) if "<step" in each)
        wrong(text.replace('type="s"', 'type="send"', 1), first, "type is 'send'")
        wrong(text.replace('send="1"', 'send="4"', 1), 3, "there is no such rank among 4")
        wrong(text.replace('send="1"', 'send="0"', 1), 3, "the rank itself")
        wrong(text.replace('srcoff="0"', 'srcoff="x"', 1), first, "srcoff is 'x'")
        wrong(text.replace('srcoff="0"', 'srcoff="99999999999"', 1), first, "srcoff is")
        wrong(text.replace(' hasdep="0"', "", 1), first, "has no attribute 'hasdep'")
        wrong(text.replace("<gpu id=\"1\"", "<gpu id=\"0\""), 13, "the id 0, too: line 2")
        wrong(text.replace('coll="allreduce"', 'coll="broadcast"'), 1, "RCCL looks at no root")
        wrong(text.replace('proto="Simple"', 'proto="Slow"'), 1, "proto is 'Slow'")
        wrong(text.replace("</gpu>", "", 1), 46, "is no XML")
        wrong(text.replace("<gpu", "<cpu", 1).replace("</gpu>", "</cpu>", 1), 2, "where only <gpu> may be")
        wrong(text.replace('depid="-1" deps="-1"', 'depid="7" deps="0"', 1), first, "waits for block 7 of rank 0, which has 1")
        wrong(text.replace(' s="1"', ' s="5"', 1), first + 1, "s is 5")
        wrong(text.replace('ngpus="4"', 'ngpus="5"'), 1, "4 elements <gpu>")
        bomb = '<?xml version="1.0"?>\n<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>\n' + text
        wrong(bomb, 2, "entities are not expanded")
        self.refuses(os.path.join(self.directory, "absent.xml"), "there is no file", code=2)
        self.refuses(self.write("empty.xml", ""), "is no XML")

    def test_waits_in_a_circle_are_a_deadlock(self):
        rank = [samples.Rank(number) for number in range(2)]
        for each in rank:
            for block in range(2):
                each.block()
                each.step(block, "cpy", ("i", block), ("o", block), wait=(1 - block, 0), tells=1)
        text = samples.text("circle", "allreduce", 2, (2, 2), rank)
        self.refuses(self.write("circle.xml", text), "V4 no deadlock", "waits at line 4 for another one")

    def test_large_files_take_bounded_memory(self):
        def limited(path):
            return subprocess.run([support.JUDGE, path], capture_output=True, text=True, timeout=120,
                                  preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30)))
        large = self.write("large.xml", "<algo>\n" + "<gpu/>\n" * 15_000_000)
        self.assertIn("has more than 64 MiB", limited(large).stdout)
        os.remove(large)
        deep = limited(self.write("deep.xml", "<algo>" * 1_000_000))
        self.assertEqual(deep.returncode, 0, deep.stderr[-500:])
        self.assertIn("is no XML", deep.stdout)
        nested = limited(self.write("deep.json", "[" * 1_000_000))
        self.assertEqual(nested.returncode, 0, nested.stderr[-500:])
        self.assertIn("more than 32 levels", nested.stdout)
        many = limited(self.write("many.json", '{"gpus": [' + "0," * 10_000_000 + "0]}"))
        self.assertIn("values, and no executor reads so many", many.stdout)

    def test_plans_are_judged_with_their_lines(self):
        def without(name, count=None):
            def change(rank, ops):
                places = [at for at, op in enumerate(ops) if op["name"] == name][:count]
                return [op for at, op in enumerate(ops) if at not in places]
            return change
        path = self.write("plan.json", samples.plan(operations=without("wait")))
        self.refuses(path, "V5 signals and waits balance")
        self.refuses(self.write("nop.json", samples.plan(operations=without("nop"))), "V7 safe back to back", "nop.json:")
        # Without its first meeting, a rank writes into the other's memory before that one has entered the call.
        def late(rank, ops):
            return ops[4:]
        self.refuses(self.write("late.json", samples.plan(operations=late)), "V7 safe back to back")

        def deadlock(rank, ops):
            return ops if rank else [op for op in ops if op["name"] != "signal"]
        self.refuses(self.write("dead.json", samples.plan(operations=deadlock)), "V4 no deadlock", "waits at line", "memory channel 0")

    def changed(self, name, text, change):
        """A plan, of which every operation went through `change`: what comes back is there in its place."""
        root = json.loads(text)
        for gpu in root["gpus"]:
            for block in gpu["threadblocks"]:
                block["ops"] = [new for op in block["ops"] for new in change(op, block)]
        return self.write(name, json.dumps(root, indent=1))

    def test_a_call_can_end_before_a_proxy_has_read_its_source(self):
        for form in ("put", "pws"):
            def unflushed(op, block):
                return [] if op["name"] == "flush" else [op]
            said = self.refuses(self.changed("unflushed.json", plan_samples.portAllGather(form), unflushed), "V7 safe back to back",
                                "the proxy's port channel", "reads it in call 1", "the application writes it before call 2")
            self.assertRegex(said, r"unflushed\.json:\d+:1: error: ")
            # The executor flushes no channel if the operation names no destination.
            def unnamed(op, block):
                return [{**op, "dst_buff": []} if op["name"] == "flush" else op]
            self.refuses(self.changed("unnamed.json", plan_samples.portAllGather(form), unnamed), "V7 safe back to back")

    def test_packets_of_a_proxy_are_copied_as_they_are(self):
        def early(op, block):
            return [] if op["name"] == "nop" else [op]
        self.refuses(self.changed("early.json", plan_samples.portPackets(), early), "V2 no data race", "the proxy's port channel")
        def late(op, block):
            return [] if op["name"] == "cpkt" else [op]
        self.refuses(self.changed("late.json", plan_samples.portPackets(), late), "V4 no deadlock", "waits at line", "for packets")

    def test_who_reads_packets_that_are_written_twice_may_have_read_the_first_ones(self):
        for kind in ("memory", "port"):
            def twice(op, block):
                return [op, op] if op["name"] == "rppkt" else [op]
            self.refuses(self.changed("twice.json", plan_samples.packetRing(kind), twice), "V2 no data race", "of the scratch memory")

    def test_what_a_plan_leaves_to_timing_is_refused(self):
        def twice(op, block):
            return [op] if block["id"] == 0 or op["name"] == "barrier" else [op, {"name": "signal", "channel_type": "port", "channel_ids": [0]}]
        root = json.loads(plan_samples.twoBlockAllReduce(True))
        for gpu in root["gpus"]:
            gpu["threadblocks"][0]["ops"].append({"name": "signal", "channel_type": "port", "channel_ids": [0]})
        self.refuses(self.changed("two.json", json.dumps(root), twice), "block 0 uses port channel 0, too: whose operations come first")
        def elsewhere(op, block):
            return [{**op, "src_buff": [{"type": "o", "index": 0, "size": 1}]} if op["name"] == "upkt" else op]
        self.refuses(self.changed("elsewhere.json", plan_samples.portPackets(), elsewhere), "'upkt' reads packets elsewhere")

    def test_what_is_no_plan(self):
        def operation(**fields):
            return samples.plan(operations=lambda rank, ops: [*ops, {"name": "nop", **fields}])
        cases = [(operation(name="glres"), "'glres' is done by a switch"), (operation(name="teleport"), "is no operation"),
                 (operation(name="pipeline"), "is not known from the plan"),
                 (operation(name="put", channel_type="memory", src_buff=[{"type": "i", "index": 0, "size": 1}],
                            dst_buff=[{"buffer_id": 3, "index": 0, "size": 1}]), "'buffer_id' is 3"),
                 (operation(name="wait", channel_ids=[4], channel_type="memory"), "from 0 to 0"),
                 (operation(name="copy", src_buff=[{"type": "i", "index": 0, "size": 9}], dst_buff=[{"type": "o", "index": 0, "size": 9}]),
                  "V6 in bounds"),
                 (samples.plan({"collective": "broadcast"}), "'collective' is 'broadcast'"), (samples.plan()[:-9], "is no JSON"),
                 (samples.plan({"gpus": []}), "'gpus' is empty"), (samples.plan({"inplace": 3}), "'inplace' has another type"),
                 ("[]", "an object is missing")]
        for text, words in cases:
            with self.subTest(words):
                said = self.refuses(self.write("wrong.json", text), words)
                self.assertRegex(said, r"^\S+wrong\.json:\d+:1: error: ")


if __name__ == "__main__":
    unittest.main()
