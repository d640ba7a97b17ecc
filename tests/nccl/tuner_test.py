"""The door as a tuner and as an environment plugin of NCCL, struct by struct."""

import ctypes
import json
import os
import pathlib
import sys
import tempfile
import unittest

from support import BUILD, DOOR, run


def tuner_struct(*functions):
    """A layout of NCCL's, from its public headers."""
    fields = [("name", ctypes.c_char_p), *functions]
    return type("Tuner", (ctypes.Structure,), {"_fields_": fields})


P, I, Z, U = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t, ctypes.c_uint64
CALL = ctypes.CFUNCTYPE
BY_NUMBERS = CALL(I, Z, Z, P, ctypes.POINTER(P))  # nRanks, nNodes, logger, context
BY_ID = CALL(I, ctypes.POINTER(P), U, Z, Z, P, P, P)  # context, commId, nRanks, nNodes, logger, domains, constants
TABLE = ctypes.c_float * 3 * 7
TUNERS = {
    2: tuner_struct(("init", BY_NUMBERS), ("get", CALL(I, P, I, Z, I, I, I, P, P, P)), ("end", CALL(I, P))),
    3: tuner_struct(("init", BY_NUMBERS), ("get", CALL(I, P, I, Z, I, P, I, I, P)), ("end", CALL(I, P))),
    4: tuner_struct(("init", BY_NUMBERS), ("get", CALL(I, P, I, Z, I, P, I, I, I, P)), ("end", CALL(I, P))),
    5: tuner_struct(("init", BY_ID), ("get", CALL(I, P, I, Z, I, P, I, I, I, P)), ("end", CALL(I, P))),
    6: tuner_struct(("init", BY_ID), ("get", CALL(I, P, I, Z, I, P, I, I, I, P)), ("end", CALL(I, P)), ("chunk", P)),
    7: tuner_struct(("init", BY_ID), ("get", CALL(I, P, I, Z, I, P, I, I, I, P)), ("end", CALL(I, P)), ("chunk", P)),
}
TREE, RING = 0, 1
LL, LL128, SIMPLE = 0, 1, 2
BROADCAST, REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_REDUCE = range(5)


class Tuner(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="kolo-tuner-")
        cls.addClassCleanup(cls.folder.cleanup)
        cls.plugin = os.path.join(cls.folder.name, "tuned.kolo.so")
        table = os.path.join(cls.folder.name, "table.json")
        pathlib.Path(table).write_text(json.dumps({"kolo": "0.1.0", "entries": [
            {"collective": collective, "ranks": 4, "memory": "windows", "upToBytes": size, "algorithm": algorithm,
             "schedule": {"protocol": protocol}} for collective, size, algorithm, protocol in (
                 ("all_gather", None, "allPairsAllGather", "bulk"), ("reduce_scatter", None, "ringReduceScatter", "bulk"),
                 ("all_reduce", 1024, "ringAllReduce", "ll"), ("all_reduce", 4096, "ringAllReduce", "ll128"),
                 ("all_reduce", None, "ringAllReduce", "bulk"), ("broadcast", None, "binomialBroadcast", "bulk"))]}))
        done = run(BUILD / "bin/kolo", "compile", "--table", table, "-o", cls.plugin, LD_PRELOAD=None)
        assert done.returncode == 0, done.stderr

    def check(self, questions):
        """Questions are (version, function, size, ranks, nodes, unavailable, right). In a process that has opened the door as
        NCCL opens a tuner."""
        asked = [question[:-1] for question in questions]
        done = run(sys.executable, "-B", __file__, "ask-tuner", json.dumps(asked), LD_PRELOAD=None, KOLO_PLUGIN_PATH=self.plugin)
        self.assertEqual(done.returncode, 0, done.stderr)
        for question, answer in zip(questions, json.loads(done.stdout), strict=True):
            self.assertEqual(answer, question[-1], question)

    def test_what_the_selection_says_becomes_free_and_nothing_else_changes(self):
        self.check([(version, function, size, 4, 1, [], right) for version in TUNERS for function, size, right in (
            (ALL_REDUCE, 1024, [[RING, LL]]), (ALL_REDUCE, 1025, [[RING, LL128]]), (ALL_REDUCE, 1 << 30, [[RING, SIMPLE]]),
            (REDUCE_SCATTER, 8, [[RING, SIMPLE]]), (BROADCAST, 8, [[TREE, SIMPLE]]), (ALL_GATHER, 8, []), (REDUCE, 8, []),
            (5, 8, []), (-1, 8, []))])

    def test_what_is_unavailable_stays_so(self):
        self.check([(version, ALL_REDUCE, 1024, 4, 1, unavailable, right) for version in (3, 4, 5, 6, 7) for unavailable, right in (
            ([[RING, LL]], []), ([[TREE, LL], [RING, SIMPLE]], [[RING, LL]]))])

    def test_other_ranks_are_left_alone(self):
        self.check([(6, ALL_REDUCE, 1024, 5, 1, [], []), (6, ALL_REDUCE, 1024, 4, 2, [], [[RING, LL]])])

    def test_a_plugin_that_cannot_be_loaded_is_an_error(self):
        done = run(sys.executable, "-B", __file__, "ask-tuner", json.dumps([[6, 0, 8, 4, 1, []]]), LD_PRELOAD=None,
                   KOLO_PLUGIN_PATH="/nowhere.kolo.so")
        self.assertIn("kolo nccl: tuner: KOLO_PLUGIN_PATH: /nowhere.kolo.so", done.stderr)
        self.assertIn("(5, b'Kolo')", done.stderr)


class Environment(unittest.TestCase):
    """The layouts of NCCL's env_v1.h and env_v2.h. NCCL's headers that are installed have none of them."""
    TEST = """if True:
        import ctypes, os, sys
        text, code, number = ctypes.c_char_p, ctypes.c_int, ctypes.c_uint8
        for version, logger in (1, []), (2, [ctypes.c_void_p]):
            init = ctypes.CFUNCTYPE(code, number, number, number, text, *logger)
            fields = [("name", text), ("init", init), ("end", ctypes.CFUNCTYPE(code)), ("get", ctypes.CFUNCTYPE(text, text))]
            layout = type("Environment", (ctypes.Structure,), {"_fields_": fields})
            plugin = layout.in_dll(ctypes.CDLL(sys.argv[1], mode=os.RTLD_NOW | os.RTLD_LOCAL), f"ncclEnvPlugin_v{version}")
            print(plugin.name, plugin.init(2, 30, 7, b"", *(None for _ in logger)),
                  [plugin.get(name) for name in (b"NCCL_ALGO", b"NCCL_NOT_SET", b"NCCL_TUNER_PLUGIN")], plugin.end())
    """

    def test_it_answers_as_the_environment_and_names_kolo_as_the_tuner(self):
        for variable, tuner in ((None, DOOR), ("none", "none"), ("libother.so", "libother.so")):
            done = run(sys.executable, "-c", self.TEST, DOOR, LD_PRELOAD=None, NCCL_ALGO="ring", NCCL_TUNER_PLUGIN=variable)
            self.assertEqual(done.stdout, 2 * f"b'Kolo' 0 [b'ring', None, b'{tuner}'] 0\n", done.stderr)


def ask_tuner(version, function, size, ranks, nodes, unavailable):
    """The places of NCCL's table that a tuner makes free, in the layout of this version."""
    tuner = TUNERS[version].in_dll(ctypes.CDLL(DOOR, mode=os.RTLD_NOW | os.RTLD_LOCAL), f"ncclTunerPlugin_v{version}")
    context, channels = P(), I(-5)
    if version < 5:
        code = tuner.init(ranks, nodes, None, ctypes.byref(context))
    else:
        code = tuner.init(ctypes.byref(context), 7, ranks, nodes, None, None, None)
    assert (code, tuner.name) == (0, b"Kolo"), (code, tuner.name)
    assert version < 6 or tuner.chunk is None
    table, before = TABLE(), TABLE()
    for costs in (table, before):
        for row in range(7):
            for column in range(3):
                costs[row][column] = -1.0 if [row, column] in unavailable else 10.0 * row + column + 1
    if version == 2:
        algorithm, protocol = I(-3), I(-3)
        code = tuner.get(context, function, size, 0, 0, 1, ctypes.addressof(algorithm), ctypes.addressof(protocol),
                         ctypes.addressof(channels))
        free = [] if algorithm.value == -3 and protocol.value == -3 else [[algorithm.value, protocol.value]]
    else:
        rest = [0] if version > 3 else []
        code = tuner.get(context, function, size, 1, ctypes.addressof(table), 7, 3, *rest, ctypes.addressof(channels))
        free = [[row, column] for row in range(7) for column in range(3) if table[row][column] != before[row][column]]
        assert all(table[row][column] == 0.0 for row, column in free)
    assert (code, channels.value, tuner.end(context)) == (0, -5, 0)
    return free


if __name__ == "__main__" and sys.argv[1:2] == ["ask-tuner"]:
    print(json.dumps([ask_tuner(*question) for question in json.loads(sys.argv[2])]))
elif __name__ == "__main__":
    unittest.main(verbosity=2)
