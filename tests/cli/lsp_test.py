"""kolo-lsp-server: an editor opens a file with a mistake, and is shown it."""
import json
import os
import subprocess
import unittest

from tool import FILES

SERVER = os.environ["KOLO_LSP_SERVER"]
URI = "file:///test.mlir"


class Session:
    def __init__(self):
        self.process = subprocess.Popen([SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

    def send(self, method, params, **fields):
        body = json.dumps({"jsonrpc": "2.0", "method": method, "params": params, **fields}).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self.process.stdin.flush()

    def receive(self):
        length = 0
        while (line := self.process.stdout.readline().strip()):
            name, value = line.split(b":")
            if name.lower() == b"content-length":
                length = int(value)
        return json.loads(self.process.stdout.read(length))

    def diagnostics(self, text):
        """Of a file with this text that an editor opens."""
        self.send("textDocument/didOpen", {"textDocument": {"uri": URI, "languageId": "mlir", "version": 1, "text": text}})
        message = self.receive()
        assert message["method"] == "textDocument/publishDiagnostics", message
        return message["params"]["diagnostics"]


class Editor(unittest.TestCase):
    def setUp(self):
        self.session = Session()
        self.session.send("initialize", {"processId": None, "rootUri": None, "capabilities": {}, "trace": "off"}, id=0)
        self.assertIn("capabilities", self.session.receive()["result"])
        self.session.send("initialized", {})

    def tearDown(self):
        self.session.send("shutdown", None, id=1)
        self.session.receive()
        self.session.send("exit", None)
        self.session.process.communicate(timeout=60)
        self.assertEqual(self.session.process.returncode, 0)

    def read(self, name):
        with open(os.path.join(FILES, name)) as file:
            return file.read()

    def test_a_mistake_is_shown_at_its_line(self):
        text = self.read("channel.mlir").replace("kolo.chan.put", "kolo.chan.putt", 1)
        [diagnostic] = self.session.diagnostics(text)
        line = next(number for number, line in enumerate(text.splitlines()) if "kolo.chan.putt" in line)
        self.assertEqual(diagnostic["range"]["start"]["line"], line)
        self.assertIn("kolo.chan.putt", diagnostic["message"])

    def test_both_phases_are_known(self):
        for name in ("choreography.mlir", "channel.mlir"):
            self.assertEqual(self.session.diagnostics(self.read(name)), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
