"""kolo compile --table, and run and bench --collective: a table is packed, and decides what runs."""
import json
import unittest

from tool import ToolTest, proofs


def entry(memory, up_to_bytes, algorithm, **schedule):
    made = {"collective": "all_gather", "ranks": 2, "memory": memory, "upToBytes": up_to_bytes, "algorithm": algorithm}
    return {**made, "schedule": schedule} if schedule else made


SMALL = [entry("windows", 4096, "allPairsAllGather", protocol="published"), entry("windows", None, "ringAllGather"),
         entry("ordinary", None, "allPairsAllGather")]


def mesh_entry(up_to_bytes, algorithm, **mesh):
    return {"collective": "all_gather", "mesh": mesh, "memory": "windows", "upToBytes": up_to_bytes, "algorithm": algorithm}


MESHES = [{**entry("windows", None, "ringAllGather"), "ranks": 4}, mesh_entry(1024, "bruckAllGather", node=2, gpu=2),
          mesh_entry(None, "railAllGather", node=2, gpu=2)]


class Tables(ToolTest):
    def table(self, entries):
        return self.write("table.json", json.dumps({"entries": entries}))

    def compiled(self):
        self.succeeds("compile", "--table", self.table(SMALL), "-o", "x.so")
        return json.loads(self.succeeds("inspect", "x.so", "--json"))


class Lanes(Tables):
    def test_a_table_gives_them_to_the_selection(self):
        few, many = {**SMALL[0], "lanes": 2}, {**SMALL[1], "lanes": 24}
        self.succeeds("compile", "--table", self.table([few, many, SMALL[2]]), "-o", "x.so")
        self.assertEqual([entry.get("lanes") for entry in json.loads(self.succeeds("inspect", "x.so", "--json"))["selection"]],
                         [2, 24, None])
        self.assertRegex(self.succeeds("inspect", "x.so"), r"allPairsAllGather\.published, 2 lanes on devices\n")
        for wrong in (0, -1, 65, "2", 1.5):
            self.refuses(2, "compile", "--table", self.table([{**SMALL[0], "lanes": wrong}, *SMALL[1:]]), "-o", "y.so",
                         says=["entries[0].lanes", "from 1 to 64"])


class Compile(Tables):
    def test_packs_what_the_table_names(self):
        manifest = self.compiled()
        names = [(program["name"], program["meshes"]) for program in manifest["programs"]]
        self.assertEqual(names, [("allPairsAllGather.published", [[2]]), ("ringAllGather", [[2]]), ("allPairsAllGather", [[2]])])
        for program in manifest["programs"]:
            self.assertEqual(proofs(program), [{"mesh": [2], "on": [2], "represented": False}])
        self.assertEqual([list(row.values()) for row in manifest["selection"]],
                         [["all_gather", 2, "windows", 4096, "allPairsAllGather.published"],
                          ["all_gather", 2, "windows", None, "ringAllGather"],
                          ["all_gather", 2, "ordinary", None, "allPairsAllGather"]])
        self.assertEqual(manifest["programs"][0]["shared"], [], "published inputs are all that is read, nobody's own memory")

    def test_every_part_of_a_schedule_counts(self):
        schedule = {"pipeline": 4, "synchronisation": "handshake", "transfers": "pull", "entry": "credits"}
        self.succeeds("compile", "-o", "x.so", "--table",
                      self.table([entry("windows", 64, "ringAllGather", **schedule), entry("windows", None, "ringAllGather")]))
        programs = json.loads(self.succeeds("inspect", "x.so", "--json"))["programs"]
        self.assertEqual([program["name"] for program in programs],
                         ["ringAllGather.pipeline4.handshake.pull.credits", "ringAllGather"])
        self.assertEqual([program["enters"] for program in programs], [False, True])

    def test_the_default_table_is_there_and_covers_two_to_sixteen_ranks(self):
        self.succeeds("compile", "--table", "default")
        selection = json.loads(self.succeeds("inspect", "default.so", "--json"))["selection"]
        collectives = ["all_gather", "reduce_scatter", "all_reduce", "broadcast", "reduce", "gather", "scatter", "all_to_all", "scan",
                       "exscan"]
        covered = {(row["collective"], row["ranks"], row["memory"]) for row in selection}
        self.assertEqual(covered, {(collective, ranks, memory) for collective in collectives for ranks in range(2, 17)
                                   for memory in ("windows", "ordinary")})
        for collective in collectives:
            for ranks in range(2, 17):
                for size in ("4K", "1M") if ranks in (3, 4, 5) else ("4K",):
                    self.succeeds("run", "default.so", "--collective", collective, "--mesh", f"rank={ranks}", "--bytes", size,
                                  *(["--ranks-as", "threads"] if ranks > 4 else []))

    def test_entries_may_be_for_a_mesh(self):
        rows = [*MESHES, mesh_entry(None, "railAllGather", node=131072, gpu=8)]
        self.succeeds("compile", "--table", self.table(rows), "-o", "x.so")
        manifest = json.loads(self.succeeds("inspect", "x.so", "--json"))
        self.assertEqual([(program["name"], program["mesh"], program["meshes"]) for program in manifest["programs"]],
                         [("ringAllGather", ["rank"], [[4]]), ("bruckAllGather", ["rank"], [[4]]),
                          ("railAllGather", ["node", "gpu"], [[2, 2], [131072, 8]])])
        self.assertEqual([row.get("ranks", row.get("mesh")) for row in manifest["selection"]],
                         [4, {"node": 2, "gpu": 2}, {"node": 2, "gpu": 2}, {"node": 131072, "gpu": 8}])
        self.assertEqual(list(manifest["selection"][1]["mesh"]), ["node", "gpu"])
        self.assertRegex(self.succeeds("inspect", "x.so"), r"all_gather +node=2,gpu=2  windows +1024  bruckAllGather\n")

    def test_bad_tables_are_refused_with_file_and_field(self):
        def refused(entries, *says):
            self.refuses(2, "compile", "-o", "x.so", "--table", self.table(entries), says=["--table", "table.json", *says])
            self.assertEqual(self.listing(), ["table.json"])

        def changed(**fields):
            return [{**SMALL[0], **fields}, *SMALL[1:]]

        for field in ("collective", "ranks", "memory", "upToBytes", "algorithm"):
            refused([{key: value for key, value in SMALL[0].items() if key != field}], "entries[0]." + field, "missing")
        refused(changed(collective="gossip"), "entries[0].collective", "'gossip'")
        refused(changed(collective="broadcast"), "entries[0].algorithm", "no broadcast")
        refused(changed(ranks=0), "entries[0].ranks", "1 to 1048576")
        refused(changed(mesh={"rank": 2}), "entries[0].ranks", "mesh")
        for mesh, says in (([2], "object"), ({}, "object"), ({"node": 0, "gpu": 2}, "1 to 1048576"),
                           ({"node": "2", "gpu": 2}, '"2"'), ({"node": 1048576, "gpu": 2}, "1048576 ranks"),
                           (dict.fromkeys("abcde", 1), "4 dimensions"), ({"": 2}, "name")):
            refused([{**MESHES[2], "mesh": mesh}], "entries[0].mesh", says)
        refused([mesh_entry(None, "railAllGather", module=2, die=2)], "entries[0].algorithm", "node,gpu", "module=2,die=2")
        refused([mesh_entry(None, "railAllGather", gpu=2, node=2)], "entries[0].algorithm", "node,gpu", "gpu=2,node=2")
        refused([MESHES[1], MESHES[0]], "entries[0].upToBytes", "larger sizes")
        refused([MESHES[2], MESHES[0]], "entries[1]", "out of order")
        refused(changed(ranks="two"), "entries[0].ranks", "two")
        refused(changed(memory="tape"), "entries[0].memory", "'tape'")
        refused(changed(upToBytes=-1), "entries[0].upToBytes", "-1")
        refused(changed(upToBytes=None), "entries[1].upToBytes", "not above")
        refused(changed(algorithm="allPearsAllGather"), "entries[0].algorithm", "did you mean allPairsAllGather?")
        refused(changed(algorithm="railAllGather"), "entries[0].algorithm", "dimension")
        refused(changed(algorithm="nodeLocalAllGather"), "entries[0].algorithm", "all ranks")
        refused(changed(schedule={"protocol": "smoke"}), "entries[0].schedule", "protocol", "smoke")
        refused(changed(schedule={"colour": "red"}), "entries[0].schedule", "'colour'")
        refused(changed(schedule={"pipeline": 0}), "entries[0].schedule", "pipeline", "0")
        refused(changed(schedule={"pipeline": 2, "protocol": "published"}), "entries[0].schedule", "published")
        refused(changed(schedule=1), "entries[0].schedule", "object")
        refused(changed(uptoBytes=1), "entries[0].uptoBytes")
        refused([SMALL[2], *SMALL[:2]], "entries[1]", "out of order")
        refused(SMALL[:1], "entries[0].upToBytes", "larger sizes")
        refused([1], "entries[0]", "object")
        refused([], "entries")
        for text in ("not json", "[]", "{}"):
            self.write("table.json", text)
            self.refuses(2, "compile", "--table", "table.json", says=["--table", "table.json"])
        self.refuses(2, "compile", "--table", "absent.json", says=["--table", "absent.json"])

    def test_earlier_names_of_protocols_are_read(self):
        manifests = []
        for protocol in ("slots", "published"):
            rows = [entry(memory, None, "allPairsAllGather", protocol=protocol) for memory in ("windows", "ordinary")]
            self.succeeds("compile", "--table", self.table(rows), "-o", "x.so")
            manifests.append(json.loads(self.succeeds("inspect", "x.so", "--json")))
        self.assertEqual(*manifests)
        self.assertEqual(manifests[0]["programs"][0]["name"], "allPairsAllGather.published")

    def test_what_the_compiler_refuses_is_said(self):
        published = self.table([entry("windows", None, "ringAllGather", protocol="published")])
        found = self.mistakes("compile", "--table", published, "-o", "x.so")
        self.assertIn("from which nothing is sent here", found[0][2])
        odd = self.table([{**entry("windows", None, "recursiveDoublingAllGather"), "ranks": 3}])
        self.assertIn("power of two", self.mistakes("compile", "--table", odd, "-o", "x.so")[0][2])
        self.assertEqual(self.listing(), ["table.json"])

    def test_flags_that_say_what_a_table_says(self):
        for flags in (["--mesh", "rank=2"], ["--protocol", "published"], ["--pipeline", "2"], ["--program", "x"]):
            self.refuses(2, "compile", "--table", "default", *flags, says=["--table", flags[0]])
        self.refuses(2, "compile", "ringAllGather", "--table", "default", says=["algorithm", "--table"])
        self.refuses(2, "compile", "--table", "default", "--target", "cpu,cuda:sm_90", says=["published", "host alone"])
        self.refuses(2, "compile", "--mesh", "rank=2", says=["algorithm", "--table"])


class Run(Tables):
    def test_takes_what_the_table_says_at_both_sides_of_a_boundary(self):
        self.compiled()
        for size, memory, program in (("8", "windows", "allPairsAllGather.published"), ("4K", "windows", "allPairsAllGather.published"),
                                      ("4104", "windows", "ringAllGather"), ("8M", "windows", "ringAllGather"),
                                      ("8", "ordinary", "allPairsAllGather"), ("8M", "ordinary", "allPairsAllGather")):
            said = self.succeeds("run", "x.so", "--collective", "all_gather", "--mesh", "rank=2", "--bytes", size, "--memory", memory)
            self.assertIn(f"the plugin selects {program}\n", said)
            self.assertIn("every byte is right", said)

    def test_takes_what_the_table_says_for_the_mesh(self):
        self.succeeds("compile", "--table", self.table(MESHES), "-o", "x.so")
        run = ["run", "x.so", "--collective", "all_gather", "--bytes"]
        for mesh, size, program in (("rank=4", "1K", "ringAllGather"), ("node=2,gpu=2", "1K", "bruckAllGather"),
                                    ("node=2,gpu=2", "1040", "railAllGather")):
            said = self.succeeds(*run, size, "--mesh", mesh)
            self.assertIn(f"the plugin selects {program}\n", said)
            self.assertIn("every byte is right", said)
        self.refuses(2, *run, "1K", "--mesh", "gpu=2,node=2", says=["--mesh", "rank=4", "gpu=2,node=2"])
        self.refuses(2, *run, "1K", "--mesh", "node=4,gpu=2", says=["--collective", "8 ranks", "node=4,gpu=2"])

    def test_bench_names_the_program_of_every_size(self):
        self.compiled()
        bench = ["bench", "x.so", "--collective", "all_gather", "--mesh", "rank=2", "-b", "1K", "-e", "64K", "-f", "64", "-n", "3"]
        result = json.loads(self.succeeds(*bench, "--json", "-"))
        self.assertEqual(result["collective"], "all_gather")
        self.assertEqual([row["program"] for row in result["rows"]], ["allPairsAllGather.published", "ringAllGather"])
        rows = self.succeeds(*bench, "--csv", "-").splitlines()
        self.assertEqual([row.rsplit(",", 1)[1] for row in rows], ["program", "allPairsAllGather.published", "ringAllGather"])
        self.assertRegex(self.succeeds(*bench), r"allPairsAllGather\.published\n.*  ringAllGather\n\Z")

    def test_refusals(self):
        self.compiled()
        run = ["run", "x.so", "--mesh", "rank=2"]
        self.refuses(2, *run, says=["--program", "allPairsAllGather.published"])
        self.refuses(2, *run, "--collective", "gossip", says=["--collective", "'gossip'"])
        self.refuses(2, *run, "--collective", "all_reduce", says=["--collective", "x.so", "all_reduce", "2 ranks"])
        self.refuses(2, "run", "x.so", "--mesh", "rank=4", "--collective", "all_gather", says=["--collective", "4 ranks"])
        self.refuses(2, *run, "--collective", "all_gather", "--program", "ringAllGather", says=["--collective", "--program"])
        self.refuses(2, "run", "x.so", "--mesh", "gpu=2", "--collective", "all_gather", says=["--mesh", "gpu=2"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
