"""The command as people call it: results, errors, exit codes, JSON. Usage: test_command.py CONVOY SOURCE_FOLDER"""
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


class Run(Case):
    def setUp(self):
        super().setUp()
        self.x = npy(self.path("x.npy"), (4, 4), range(16))
        self.w = npy(self.path("w.npy"), (2, 2), [1] * 4)

    def run_values(self, *words):
        self.good("run", "--device", "cpu", "-o", self.path("y.npy"), *words)
        return read_npy(self.path("y.npy"))

    def test_valid_and_same(self):
        shape, y = self.run_values("--x", self.x, "--w", self.w)
        self.assertEqual(shape, (3, 3))
        self.assertEqual(y, [10, 14, 18, 26, 30, 34, 42, 46, 50])
        self.assertEqual(self.run_values("--x", self.x, "--w", self.w, "--padding", "valid"), (shape, y))
        shape, y = self.run_values("--x", self.x, "--w", self.w, "--padding", "same")
        self.assertEqual(shape, (4, 4))
        self.assertEqual((y[0], y[-1]), (10, 15))

    def test_four_dimensions(self):
        x = npy(self.path("x4.npy"), (2, 2, 1, 3), range(12))
        w = npy(self.path("w4.npy"), (2, 1, 1, 2), [1, 10, 1, -1])
        bias = npy(self.path("b.npy"), "(2,)", [0.5, 100])
        shape, y = self.run_values("--x", x, "--w", w, "--bias", bias, "--groups", 2)
        self.assertEqual(shape, (2, 2, 1, 2))
        self.assertEqual(y, [10.5, 21.5, 99, 99, 76.5, 87.5, 99, 99])

    def test_stride_dilation_padding(self):
        x = npy(self.path("x4.npy"), (1, 1, 5, 12), [1] * 60)
        w = npy(self.path("w4.npy"), (1, 1, 2, 3), [1] * 6)
        self.assertEqual(self.run_values("--x", x, "--w", w, "--dilation", "1x4", "--stride", "1x2")[0], (1, 1, 4, 2))
        shape, y = self.run_values("--x", x, "--w", w, "--padding", "1,0,0,2")
        self.assertEqual(shape, (1, 1, 5, 12))
        self.assertEqual((y[0], y[-1], y[12]), (3, 2, 6))

    def test_every_engine_and_contract(self):
        for name in [e["engine"] for e in self.lines("engines", "--device", "cpu") if not e["vendor"]]:
            self.assertAlmostEqual(self.run_values("--x", self.x, "--w", self.w, "--engine", name)[1][4], 30.0, places=4, msg=name)

    def test_json_and_stdin(self):
        with open(self.x, "rb") as file:
            line = json.loads(self.good("run", "--x", "/dev/stdin", "--w", self.w, "-o", self.path("y.npy"), "--json", "--device", "cpu",
                                        stdin=file))
        self.assertEqual(line["problem"], "n1c1h4k1r2")
        self.assertEqual(line["device"], "cpu")

    def test_output_is_replaced_whole(self):
        with open(self.path("y.npy"), "w", encoding="ascii") as file:
            file.write("old")
        self.bad("run", "--x", self.x, "--w", self.w, "-o", self.path("y.npy"), says="cannot be written", limit=100)
        with open(self.path("y.npy"), encoding="ascii") as file:
            self.assertEqual(file.read(), "old")
        self.assertEqual(self.run_values("--x", self.x, "--w", self.w)[0], (3, 3))

    def test_bad_arrays(self):
        y = self.path("y.npy")
        files = {
            "double.npy": ("<f8", "False", (2, 2), 8, "astype(numpy.float32)"),
            "fortran.npy": ("<f4", "True", (2, 2), 4, "ascontiguousarray"),
            "short.npy": ("<f4", "False", (3, 2), 4, "truncated"),
            "rank3.npy": ("<f4", "False", (2, 2, 1), 4, "(K, C/G, R, S)"),
            "rank5.npy": ("<f4", "False", (1, 1, 1, 2, 2), 4, "dimensions"),
        }
        for name, (descr, order, shape, count, says) in files.items():
            self.bad("run", "--x", self.x, "--w", npy(self.path(name), shape, [1] * count, descr, order), "-o", y, says=[name, says])
        wide = npy(self.path("wide.npy"), (5, 5), [1] * 25)
        self.bad("run", "--x", self.x, "--w", wide, "-o", y, says=["effective kernel is 5", "padded image 4"])
        deep = npy(self.path("deep.npy"), (1, 3, 2, 2), [1] * 12)
        self.bad("run", "--x", self.x, "--w", deep, "-o", y, says=["deep.npy", "(1, 3, 2, 2)", "1/1"])
        self.bad("run", "--x", self.x, "--w", self.w, "--bias", self.w, "-o", y, says=["--bias", "(K,)"])
        self.bad("run", "--x", self.path("none.npy"), "--w", self.w, "-o", y, says=["none.npy", "No such file"])
        self.bad("run", "--x", self.at, "--w", self.w, "-o", y, says="folder")
        self.bad("run", "--x", CONVOY, "--w", self.w, "-o", y, says="does not begin as a .npy file")

    def test_bad_outputs(self):
        common = ("run", "--x", self.x, "--w", self.w)
        self.bad(*common, says="-o is missing")
        self.bad(*common, "-o", self.path("none/y.npy"), says=["none/y.npy", "No such file"])
        self.bad(*common, "-o", self.at, says="directory")
        self.bad(*common, "-o", "/dev/full", says="No space left")
        self.bad(*common, "-o", self.path("y.npy"), says="cannot be written", limit=100)
        self.assertTrue(os.path.exists("/dev/full"))

    def test_bad_options(self):
        common = ("run", "--x", self.x, "--w", self.w, "-o", self.path("y.npy"))
        for words, says in [(("--stride", "0"), "--stride"), (("--padding", "1,2"), "--padding"), (("--padding", "nan"), "--padding"),
                            (("--groups", "3"), "1/3"), (("--dilation", "9"), "effective kernel is 10"),
                            (("--padding", "same", "--stride", "2"), "stride 1"), (("--engine", "nosuch"), "'nosuch'"),
                            (("--engine", "ref:t8"), "t8"), (("--math", "tf32"), "exact, fp32 or match"), (("--math", "match", "--rtol", "0"), "rtol"),
                            (("--threads", "0"), "1 to 1024"), (("--device", "cuda:x"), "cuda:x"), (("--isa", "sse"), "sse"),
                            (("--workspace-limit", "-1"), "bytes"), (("--exclude", "nosuch"), "nosuch"), (("extra",), "extra"),
                            (("--padding", "9223372036854775807"), "pad_t")]:
            self.bad(*common, *words, says=says)


class Usage(Case):
    def test_version_is_quick(self):
        spent = []
        for _ in range(7):
            start = time.perf_counter()
            out = self.good("--version")
            spent.append(time.perf_counter() - start)
        self.assertRegex(out, r"^convoy \d+\.\d+\.\d+\n$")
        if "ASAN_OPTIONS" not in os.environ and "TSAN_OPTIONS" not in os.environ:
            self.assertLess(min(spent), 0.05)  # 10 ms is the aim; starting Python's child on a busy machine costs some

    def test_help(self):
        text = self.good("--help")
        for command in ["run", "verify", "bench", "tune", "explain", "engines", "info", "wisdom"]:
            self.assertIn(command, text)
            self.assertIn("--device", self.good(command, "--help"))
            self.assertEqual(self.good(command, "--help"), self.good(command, "-h"))
        self.assertIn("Exit codes: 0 fine, 1 a check failed, 2 bad usage or input.", text)

    def test_bad_usage(self):
        self.bad(says="a command is missing")
        self.bad("conv", says=["'conv'", "verify"])
        self.bad("verify", says="PROBLEM")
        self.bad("verify", "--nosuch", "A", says="--nosuch")
        self.bad("verify", "A", "--seed", says="--seed")
        self.bad("verify", "A", "--seed", "x", says="--seed")
        self.bad("verify", "A", "--phases", says="--phases")
        self.bad("bench", "n1c1h8r9", says=["effective kernel is 9", "padded image 8"])
        self.bad("bench", "n1c1h8r3k", says="character")
        self.bad("bench", "n1c99999999999h99999999999r3", says="expected")
        self.bad("verify", "n1c1000h1000000k1r3", "--device", "cpu", says="memory")
        self.bad("verify", "nosuchsuite", says=["nosuchsuite", "leaderboard"])
        self.bad("verify", self.path("none.txt"), says=["none.txt", "No such file"])
        self.bad("engines", "more", says="more")
        self.bad("wisdom", "burn", "--wisdom", self.path("w"), says=["burn", "clear"])
        self.bad("explain", "A", env={"CONVOY_THREADS": "many"}, says="CONVOY_THREADS")
        self.bad("explain", "A", "--device", "cpu", env={"CONVOY_ISA": "mmx"}, says="CONVOY_ISA")

    def test_output_that_does_not_arrive(self):
        for words in (("--version",), ("--help",), ("engines",), ("engines", "--json"), ("verify", "--help"), ("info", "--device", "cpu"),
                      ("explain", "edges", "--device", "cpu"), ("verify", "n1c1h8k1r3", "--device", "cpu")):
            with open("/dev/full", "w", encoding="ascii") as full:
                done = convoy(*words, stdout=full)
            self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), (words, done.stderr))
            self.assertIn("standard output", done.stderr)
            reader, writer = os.pipe()
            os.close(reader)
            done = convoy(*words, stdout=writer)
            os.close(writer)
            self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), (words, done.stderr))

    def test_suites(self):
        names = os.listdir(os.path.join(SOURCE, "bench", "suites"))
        for name in names:
            by_name = self.good("explain", name[:-4], "--device", "cpu")
            self.assertEqual(by_name, self.good("explain", os.path.join(SOURCE, "bench", "suites", name), "--device", "cpu"))
        self.assertIn("n1c128h256k128r32", self.good("explain", "D", "--device", "cpu"))
        with open(self.path("own.txt"), "w", encoding="ascii") as file:
            file.write("# own\n\n  n1c1h8r3  # three\r\n_bad\n")
        self.bad("explain", self.path("own.txt"), says=["own.txt, line 4"])
        with open(self.path("none.txt"), "w", encoding="ascii") as file:
            file.write("# nothing\n")
        self.bad("explain", self.path("none.txt"), says="no problem")


class Reports(Case):
    def test_verify(self):
        for words in ((), ("--with-bias",), ("--prepared",), ("--workspace-limit", "0"), ("--isa", "scalar"), ("--threads", "1"),
                      ("--math", "exact"), ("--math", "match"), ("--math", "match", "--rtol", "1e-3", "--atol", "1e-3")):
            done = convoy("verify", "n2c3h17w15k4r5_pad1", "n1c2h30k2r7_padsame_gc", "--device", "cpu", "--json", *words)
            if done.returncode == 2 and "no engine accepts" in done.stderr:
                continue  # a build without an exact engine
            self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
            for line in map(json.loads, done.stdout.splitlines()):
                self.assertTrue(line["ok"], line)
                self.assertLessEqual(line["worst"], line["bound"])
                self.assertTrue(line["all_outputs"])
                for key in ("problem", "engine", "candidate", "where", "command", "max_abs_err", "rel_rms_err", "check", "bits"):
                    self.assertIn(key, line)
                if words == ("--math", "exact"):
                    self.assertEqual(line["bits"], "equal")

    def test_empty_problems(self):
        for problem in ("n0c1h8r3", "n1c0h8k2r3", "n1c1h8k0r3"):
            for command in ("verify", "explain", "bench"):
                self.assertTrue(self.lines(command, problem, "--device", "cpu", *(["--with-bias"] if command == "verify" else [])))

    def test_verify_samples_what_is_large(self):
        lines = self.lines("verify", "n1c32h128k64r7", "--device", "cpu")
        self.assertFalse(lines[0]["all_outputs"])
        self.assertGreaterEqual(lines[0]["checked"], 4096)
        self.assertIn("projection over k", lines[0]["check"])

    def test_verify_command_repeats_itself(self):
        line = self.lines("verify", "n1c2h20k2r5", "--device", "cpu", "--seed", "7")[-1]
        again = self.lines(*line["command"].split()[1:])
        self.assertEqual([line], again)

    def test_bench(self):
        lines = self.lines("bench", "n1c4h32k4r7", "--device", "cpu", "--time", "0.01", "--phases")
        self.assertEqual([line["chosen"] for line in lines].count(True), 1)
        for line in lines:
            for key in ("problem", "engine", "candidate", "math", "weights", "device", "threads", "median_ms", "p10_ms", "p90_ms",
                        "direct_gflop_per_s", "workspace_bytes", "max_abs_err", "rel_rms_err", "chosen", "phases"):
                self.assertIn(key, line)
            self.assertLessEqual(line["p10_ms"], line["median_ms"])
            self.assertLessEqual(line["median_ms"], line["p90_ms"])
            self.assertGreater(line["median_ms"], 0)
            for phase in line["phases"]:
                self.assertEqual(set(phase), {"name", "ms", "bytes", "flop", "floor_share"})
        self.assertEqual(self.lines("bench", "n1c4h32k4r7", "--device", "cpu", "--time", "0.01", "--prepared")[0]["weights"], "prepared")
        self.assertGreaterEqual(len(self.lines("bench", "n1c4h32k4r7", "--device", "cpu", "--time", "0.01", "--sweep")), len(lines))

    def test_explain_agrees_with_run(self):
        lines = self.lines("explain", "n1c4h32k4r7", "--device", "cpu")
        self.assertEqual([line["verdict"] for line in lines].count("chosen"), 1)
        for line in lines:
            self.assertIn("reason" if line["verdict"] == "declined" else "predicted_ms", line)
        named = self.lines("explain", "n1c4h32k4r7", "--engine", "ref", "--device", "cpu")
        self.assertEqual([line["engine"] for line in named if line["verdict"] == "chosen"], ["ref"])
        self.assertEqual({line["reason"] for line in named if line["verdict"] == "declined"}, {"another engine was named"} - {""}
                         if len(named) > 1 else set())

    def test_info_and_engines(self):
        info = self.lines("info", "--device", "cpu", "--threads", "1", "--isa", "scalar")[0]
        self.assertEqual((info["device"], info["threads"], info["isa"], info["wisdom"]), ("cpu", 1, "scalar", "off"))
        self.assertIn("ref", [line["engine"] for line in self.lines("engines")])
        self.assertIn("threads: 1\n", self.good("info", "--device", "cpu", env={"CONVOY_THREADS": "1"}))

    def test_no_gpu(self):
        if not os.path.exists("/dev/nvidiactl"):
            self.bad("info", "--device", "cuda", says="cuda")
            self.assertEqual(self.lines("info")[0]["device"], "cpu")


class Results(Case):
    def tool(self, name, *words, code=0):
        done = subprocess.run([sys.executable, os.path.join(SOURCE, "bench", name), *map(str, words)], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=200, check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout

    def test_record_and_table(self):
        common = ("n1c4h32k4r7", "--device", "cpu")
        for name, words, holds in (("bench", ("bench", *common, "--time", "0.01", "--phases"), "GFLOP/s of the direct sum"),
                                   ("verify", ("verify", *common), "| ok |"), ("compare", ("tune", "--compare", *common), "worst ratio")):
            file = self.path(name + ".json")
            self.tool("record.py", file, CONVOY, *words)
            with open(file, encoding="utf-8") as source:
                result = json.load(source)
            self.assertEqual(result["command"], " ".join(["convoy", *words]))
            self.assertEqual(result["machine"]["device"], "cpu")
            text = self.tool("table.py", file)
            self.assertIn(holds, text)
            self.assertIn("| n1c4h32k4r7 |", text)
        doc = self.path("doc.md")
        with open(doc, "w", encoding="utf-8") as out:
            out.write(f"before\n<!-- table: {self.path('verify.json')} -->\n<!-- end of table -->\nafter\n")
        self.tool("table.py", "--check", "--docs", doc, code=1)
        self.tool("table.py", "--docs", doc)
        self.tool("table.py", "--check", "--docs", doc)
        with open(doc, encoding="utf-8") as source:
            text = source.read()
        self.assertTrue(text.startswith("before\n") and text.endswith("after\n") and "| ok |" in text)

    def test_tables_of_appended_runs(self):
        file, doc = self.path("runs.json"), self.path("doc.md")
        common = ("--exclude", "onednn,direct", "--device", "cpu", "--time", "0.01")
        self.tool("record.py", file, CONVOY, "bench", "n1c4h32k4r7", "n2c4h32k4r7", *common, "--threads", "1")
        self.tool("record.py", "--append", file, CONVOY, "bench", "n1c4h32k4r7", "n2c4h32k4r7", *common, "--threads", "2")
        with open(file, encoding="utf-8") as source:
            result = json.load(source)
        self.assertEqual(len(result["lines"]), 4)
        self.assertIn("--threads 1; convoy bench", result["command"])
        for kind, holds in (("threads", "| one thread, ms |"), ("line", "| +0 % |"), ("auto", "At most 1.1 times the best of the engines")):
            with open(doc, "w", encoding="utf-8") as out:
                out.write(f"<!-- {kind}: {file} -->\n<!-- end of table -->\n")
            self.tool("table.py", "--docs", doc)
            with open(doc, encoding="utf-8") as source:
                text = source.read()
            self.assertIn("n2c4h32k4r7", text)
            self.assertIn(holds, text.replace("-0 %", "+0 %"))

    def test_record_keeps_no_failure(self):
        self.tool("record.py", self.path("bad.json"), CONVOY, "bench", "nosuch", code=1)
        self.assertEqual(os.listdir(self.at), [])

    def test_peers(self):
        if not any(name.startswith("convoy-peer-") for name in os.listdir(os.path.dirname(CONVOY))):
            self.bad("bench", "A", "--peers", "--device", "cpu", says=["convoy-peer-*", "CONVOY_PEERS=ON"])
            self.skipTest("no peer was built")
        lines = self.lines("bench", "n1c4h16k4r5", "--device", "cpu", "--time", "0.01", "--peers")
        peers = [line for line in lines if line.get("peer")]
        self.assertEqual({line["weights"] for line in peers}, {"fresh", "prepared"})
        for line in peers:
            self.assertLess(line["rel_rms_err"], 5e-5)


class Wisdom(Case):
    def test_tune_remembers(self):
        file = self.path("deep/er/wisdom")
        words = ("tune", "n1c4h24k4r5", "--budget", "0.2", "--device", "cpu", "--wisdom", file)
        first, second = self.lines(*words)[0], self.lines(*words)[0]
        self.assertEqual((first["source"], second["source"]), ("timed", "known"))
        self.assertEqual(first["candidate"], second["candidate"])
        shown = self.lines("wisdom", "show", "--wisdom", file)
        self.assertEqual(len(shown), 1)
        self.assertIn("n1c4h24k4r5", shown[0]["key"])
        explained = self.lines("explain", "n1c4h24k4r5", "--device", "cpu", "--wisdom", file)
        chosen = [line for line in explained if line["verdict"] == "chosen"][0]
        self.assertEqual((chosen["engine"], chosen["candidate"]), (first["engine"], first["candidate"]))
        self.assertIn("measured_ms", chosen)
        other = self.path("other")
        self.good("wisdom", "merge", file, "--wisdom", other)
        self.assertEqual(self.lines("wisdom", "show", "--wisdom", other), shown)
        self.good("wisdom", "clear", "--wisdom", other)
        self.assertEqual(self.lines("wisdom", "show", "--wisdom", other), [])

    def test_place(self):
        cache = {"CONVOY_WISDOM": None, "XDG_CACHE_HOME": self.path("cache"), "HOME": self.at}
        words = ("tune", "n1c1h9k1r3", "--budget", "0.05", "--device", "cpu")
        self.good(*words, env=cache)
        self.assertTrue(os.path.isfile(self.path("cache/convoy/wisdom")))
        self.good(*words, env={**cache, "XDG_CACHE_HOME": "relative"}, cwd=self.at)
        self.assertTrue(os.path.isfile(self.path(".cache/convoy/wisdom")))
        nowhere = {"CONVOY_WISDOM": None}
        self.bad(*words, env=nowhere, says="wisdom is off")
        self.good("explain", "A", "--device", "cpu", env=nowhere)

    def test_compare(self):
        line = self.lines("tune", "n1c2h20k2r5", "--compare", "--device", "cpu")[0]
        self.assertGreaterEqual(line["ratio"], 1)
        self.assertLessEqual(line["best_ms"], line["estimate_ms"])
        self.assertGreaterEqual(line["choices"], line["timed"])

    def test_damage(self):
        file = self.path("wisdom")
        with open(file, "w", encoding="ascii") as out:
            out.write("not wisdom at all\n")
        done = convoy("verify", "n1c1h9k1r3", "--device", "cpu", "--wisdom", file)
        self.assertEqual(done.returncode, 0)
        self.assertEqual(done.stderr.count("\n"), 1)
        self.assertIn(file, done.stderr)
        self.bad("wisdom", "show", "--wisdom", self.path("none"), says="none")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
