"""The command as people call it: results, errors, exit codes, JSON. Usage: test_command.py CONVOY SOURCE_FOLDER"""
import json
import os
import sys
import time
import unittest

from command import CONVOY, SOURCE, Case, convoy, npy, read_npy


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
            self.assertEqual(self.good(command, "--help"), self.good("help", command))
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


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
