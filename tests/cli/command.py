"""What the tests of the command share: calling it, .npy files, a test case with a folder of its own. A test is started as
TEST.py CONVOY SOURCE_FOLDER."""
import json
import os
import resource
import struct
import subprocess
import sys
import tempfile
import time
import unittest

CONVOY, SOURCE = sys.argv[1:3]

def convoy(*words, env=None, cwd=None, stdout=subprocess.PIPE, limit=None, stdin=None):
    """Runs the command; its environment names no wisdom and the CPU's own settings only."""
    base = {"PATH": os.environ.get("PATH", ""), "CONVOY_WISDOM": "off"}
    for name in ("ASAN_OPTIONS", "LSAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS", "LD_LIBRARY_PATH"):
        if name in os.environ:
            base[name] = os.environ[name]
    base.update(env or {})
    return subprocess.run([CONVOY, *map(str, words)], env={k: v for k, v in base.items() if v is not None}, cwd=cwd, stdout=stdout,
                          stderr=subprocess.PIPE, text=True, stdin=stdin, timeout=200,
                          preexec_fn=limit and (lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))))


def npy(path, shape, values, descr="<f4", order="False"):
    text = "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }" % (descr, order, shape)
    header = (text + " " * (-(len(text) + 11) % 64) + "\n").encode()
    with open(path, "wb") as out:
        out.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + struct.pack("<%df" % len(values), *values))
    return path


def read_npy(path):
    with open(path, "rb") as file:
        data = file.read()
    assert data[:8] == b"\x93NUMPY\x01\x00"
    (length,) = struct.unpack("<H", data[8:10])
    assert (10 + length) % 64 == 0
    header = eval(data[10:10 + length])  # pylint: disable=eval-used
    assert header["descr"] == "<f4" and header["fortran_order"] is False
    rest = data[10 + length:]
    return header["shape"], list(struct.unpack("<%df" % (len(rest) // 4), rest))


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.at = self.folder.name

    def tearDown(self):
        self.folder.cleanup()

    def path(self, name):
        return os.path.join(self.at, name)

    def good(self, *words, **options):
        done = convoy(*words, **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr, "")
        return done.stdout

    def lines(self, *words, **options):
        return [json.loads(line) for line in self.good(*words, "--json", **options).splitlines()]

    def bad(self, *words, says, **options):
        """Exit code 2, one line on standard error with these words, no other output, no file left."""
        before = sorted(os.listdir(self.at))
        done = convoy(*words, **options)
        self.assertEqual(done.returncode, 2, (words, done.stdout, done.stderr))
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertTrue(done.stderr.startswith("convoy"), done.stderr)
        for word in [says] if isinstance(says, str) else says:
            self.assertIn(word, done.stderr)
        self.assertFalse(done.stdout)
        self.assertEqual(sorted(os.listdir(self.at)), before)
