"""The command under faults: odd files, closed streams, limits, kills, junk. Usage: test_faults.py CONVOY SOURCE_FOLDER"""
import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
import unittest

from command import CONVOY, Case, convoy, npy, read_npy

SANITIZED = any(name in os.environ for name in ("ASAN_OPTIONS", "TSAN_OPTIONS")) or b"__asan_init" in open(CONVOY, "rb").read()


class Output(Case):
    def setUp(self):
        super().setUp()
        self.x = npy(self.path("x.npy"), (4, 4), range(16))
        self.w = npy(self.path("w.npy"), (2, 2), [1] * 4)
        self.common = ("run", "--device", "cpu", "--x", self.x, "--w", self.w, "-o")

    def test_standard_output_holds_the_array_alone(self):
        for words in ((), ("--json",)):
            done = subprocess.run([CONVOY, *self.common, "/dev/stdout", *words], stdout=subprocess.PIPE, check=True)
            with open(self.path("piped.npy"), "wb") as out:
                out.write(done.stdout)
            self.assertEqual(read_npy(self.path("piped.npy"))[1][4], 30)
        with open(self.path("file.npy"), "wb") as out:
            subprocess.run([CONVOY, *self.common, "/dev/stdout"], stdout=out, check=True)
        self.assertEqual(read_npy(self.path("file.npy"))[1][4], 30)

    def test_mode_stays_and_protection_counts(self):
        y = self.path("y.npy")
        for mode in (0o600, 0o664):
            npy(y, (1, 1), [0])
            os.chmod(y, mode)
            self.good(*self.common, y)
            self.assertEqual(os.stat(y).st_mode & 0o777, mode)
        os.chmod(y, 0o444)
        self.bad(*self.common, y, says=["y.npy", "Permission denied"])
        self.assertEqual(read_npy(y)[0], (3, 3))

    def test_links(self):
        os.symlink("target.npy", self.path("link.npy"))
        self.good(*self.common, self.path("link.npy"))  # which leads nowhere at first
        self.assertTrue(os.path.islink(self.path("link.npy")))
        self.assertEqual(read_npy(self.path("target.npy"))[0], (3, 3))
        os.symlink("loop", self.path("loop"))
        self.bad(*self.common, self.path("loop"), says="symbolic links")
        os.symlink("none/y.npy", self.path("far"))
        self.bad(*self.common, self.path("far"), says="No such file")

    def test_names(self):
        for name in ("n" * 251 + ".npy", "y", ".npy", "-o", "%s%n", " "):
            self.good(*self.common[:-1], "--output=" + self.path(name))
            self.assertEqual(read_npy(self.path(name))[0], (3, 3))
        self.bad(*self.common, self.path("n" * 256), says="name too long")
        self.good(*self.common, "here.npy", cwd=self.at)
        raw = os.fsencode(self.at) + b"/\xff\xc3\xa9\xed\xa0\x80\"\n.npy"
        done = subprocess.run([CONVOY, *self.common, raw, "--json"], stdout=subprocess.PIPE, check=True)
        self.assertTrue(json.loads(done.stdout.decode("utf-8"))["output"].endswith("/\ufffd\u00e9\ufffd\ufffd\ufffd\"\n.npy"))

    def test_no_wide_problem_is_cut_short(self):
        big = 10**17
        problem = f"n1c1h5w1k1r1_st{big * 10}x{big * 10 + 1}_pad{big},{big + 1},{big + 2},{big + 3}"
        for line in self.lines("explain", problem, "--device", "cpu", "--exclude", "onednn"):
            self.assertEqual(line["problem"], problem)

    def test_closed_streams(self):
        """Files that the command opens must not get the numbers of the standard streams."""
        wisdom = self.path("junk")
        with open(wisdom, "w", encoding="ascii") as out:
            out.write("junk\n")
        for closed in ("<&-", ">&-", "2>&-", "<&- >&-", "<&- 2>&-", ">&- 2>&-", "<&- >&- 2>&-"):
            words = " ".join([CONVOY, *self.common, self.path("y.npy"), "--wisdom", wisdom, "--effort", "measure", closed])
            done = subprocess.run(["sh", "-c", words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
            self.assertEqual(done.returncode, 2 if ">&-" in closed.split() else 0, closed)
            self.assertEqual(read_npy(self.path("y.npy"))[0], (3, 3))
            with open(wisdom, encoding="ascii") as file:
                self.assertEqual(file.read(), "junk\n")


class Words(Case):
    def test_suites_that_are_no_text(self):
        self.bad("explain", "/dev/zero", says=["/dev/zero", "zero byte"])
        with open(self.path("long.txt"), "w", encoding="ascii") as out:
            out.write("n1c1h8r3\n" + "9" * 5000)
        self.bad("explain", self.path("long.txt"), says="line of more than")
        with open(self.path("comment.txt"), "w", encoding="ascii") as out:
            out.write("# " + "n1c1h8r3 " * 200 + "\n\tn1c1h8r3 # " + "A " * 700)
        self.assertEqual({line["problem"] for line in self.lines("explain", self.path("comment.txt"), "--device", "cpu")}, {"n1c1h8k1r3"})

    def test_nothing_before_an_error(self):
        for words in (("--exclude", ","), ("--engine", ""), ("--engine", "fft:"), ("--engine", "fft:ty32tx32way0v16 ")):
            self.bad("explain", "A", "--device", "cpu", *words, says="convoy explain")

    def test_junk_in_the_environment(self):
        junk = ["", " ", "-1", "0", "99999999999999999999", "x" * 5000, "a\nb", "/dev/null", "/", "*", "%s%n", "\xff"]
        for name in ("CONVOY_THREADS", "CONVOY_ISA", "CONVOY_WISDOM", "CONVOY_LOG", "CONVOY_PEERS", "XDG_CACHE_HOME", "HOME", "TERM",
                     "LANG", "LC_ALL", "COLUMNS", "ARGP_HELP_FMT", "VIRTUAL_ENV", "CONDA_PREFIX"):
            for value in junk:
                done = convoy("explain", "n1c4h24k4r5", "--device", "cpu", "--json", env={"CONVOY_WISDOM": None, name: value})
                self.assertIn(done.returncode, (0, 2), (name, value))
                self.assertLessEqual(done.stderr.count("\n"), 1, (name, value))
                self.assertEqual(done.returncode == 2, not done.stdout, (name, value))
                for line in done.stdout.splitlines():
                    json.loads(line)

    def test_a_comma_for_a_decimal_point(self):
        """Numbers are read and written alike in every locale; LC_ALL names one made here."""
        with open(self.path("source"), "w", encoding="ascii") as out:
            out.write('LC_NUMERIC\ndecimal_point ","\nthousands_sep "."\ngrouping 3;3\nEND LC_NUMERIC\n')
        try:
            subprocess.run(["localedef", "-c", "-i", self.path("source"), self.path("de_TEST")], capture_output=True, check=False)
        except FileNotFoundError:
            self.skipTest("this machine makes no locales")
        words = ("explain", "n1c4h64k4r9", "--device", "cpu", "--math", "match", "--rtol", "1.5e-3", "--exclude", "onednn")
        german = {"LC_ALL": "de_TEST", "LOCPATH": self.at}
        self.assertEqual(self.lines(*words, env=german), self.lines(*words))
        self.assertEqual(convoy(*words, env=german).stdout, convoy(*words).stdout)
        for line in self.lines("bench", "n1c1h16r3", "--device", "cpu", "--time", "0.05", env=german):
            self.assertIsInstance(line, dict)

    def test_anywhere(self):
        for folder in ("/", "/proc"):
            self.good("verify", "n1c1h9k1r3", "--device", "cpu", env={"HOME": None, "CONVOY_WISDOM": None, "PATH": None}, cwd=folder)


class Limits(Case):
    @unittest.skipIf(SANITIZED, "sanitizers reserve terabytes of addresses")
    def test_little_memory(self):
        """At every limit the work is done, or refused in one line; a vendor's library may end the process and stays out."""
        x = npy(self.path("x.npy"), (1, 8, 256, 256), [1] * (8 * 256 * 256))
        w = npy(self.path("w.npy"), (32, 8, 9, 9), [1] * (256 * 81))
        refused = 0
        for megabytes in (8, 10, 12, 14, 16, 20, 30, 60, 120):
            def limit(room=megabytes << 20):
                resource.setrlimit(resource.RLIMIT_AS, (room, room))
            for engine in ("fft", "direct"):
                done = subprocess.run([CONVOY, "run", "--device", "cpu", "--x", x, "--w", w, "-o", self.path("y.npy"), "--engine", engine],
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=limit, check=False)
                if done.returncode == 127 and "shared lib" in done.stderr:
                    continue  # the loader itself had no room
                if done.returncode == -signal.SIGSEGV and subprocess.run([CONVOY, "--version"], preexec_fn=limit, capture_output=True,
                                                                         check=False).returncode == -signal.SIGSEGV:
                    continue  # nor had NVIDIA's run-time, which is linked in and takes a megabyte unseen before main
                self.assertIn(done.returncode, (0, 2), (megabytes, engine, done.stderr))
                self.assertEqual(done.stderr.count("\n"), int(done.returncode == 2), done.stderr)
                refused += done.returncode == 2
                if done.returncode == 2:
                    self.assertIn("memory", done.stderr)
        self.assertGreater(refused, 0)

    def test_few_files(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_NOFILE, (5, 5))
        x, w = npy(self.path("x.npy"), (4, 4), range(16)), npy(self.path("w.npy"), (2, 2), [1] * 4)
        done = subprocess.run([CONVOY, "run", "--device", "cpu", "--x", x, "--w", w, "-o", self.path("y.npy")], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, preexec_fn=limit, check=False)
        self.assertIn(done.returncode, (0, 2), done.stderr)

    def test_full_disk_for_wisdom(self):
        done = convoy("tune", "n1c4h24k4r5", "--budget", "0.05", "--device", "cpu", "--wisdom", self.path("w"), limit=40)
        self.assertEqual((done.returncode, done.stderr.count("\n")), (0, 1), done.stderr)
        self.assertIn("could not be written", done.stderr)
        self.assertEqual(self.lines("wisdom", "show", "--wisdom", self.path("w")), [])
        self.assertEqual(os.listdir(self.at), ["w"])


def full_disks():
    """Words before a script that may mount, where this machine lets us: in a namespace of its own."""
    for words in (["unshare", "-rm"], ["unshare", "-m"]):
        try:
            if subprocess.run([*words, "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, check=False).returncode == 0:
                return words
        except FileNotFoundError:
            pass
    return None


class FullDisks(Case):
    """A disk of 64 KiB: what was there stays, whole, and nothing is left beside it."""

    def on_disk(self, script):
        words = full_disks()
        if not words:
            self.skipTest("this machine lets nobody mount")
        os.mkdir(self.path("disk"))
        script = f"set -e; mount -t tmpfs -o size=64k none {self.at}/disk; cd {self.at}/disk; {script}; echo; ls -A"
        done = subprocess.run([*words, "sh", "-c", script, "sh", CONVOY], cwd=self.at, capture_output=True, text=True, check=False,
                              env={**os.environ, "CONVOY_WISDOM": "off"})
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.split("\n"), done.stderr

    def test_outputs(self):
        npy(self.path("x.npy"), (200, 200), [1] * 40000)
        npy(self.path("small.npy"), (20, 20), [1] * 400)
        npy(self.path("w.npy"), (2, 2), [1] * 4)
        run = '"$1" run --device cpu --x ../%s.npy --w ../w.npy -o %s.npy >/dev/null'
        out, err = self.on_disk(f"{run % ('small', 'y')}; cp y.npy ../old.npy; ! {run % ('x', 'y')}; ! {run % ('x', 'new')}; "
                                "cmp y.npy ../old.npy")
        self.assertEqual(out, ["", "y.npy", ""])
        self.assertEqual((err.count("\n"), err.count("No space left")), (2, 2), err)

    def test_wisdom(self):
        tune = '"$1" tune %s --budget 0.05 --device cpu --wisdom w >/dev/null'
        out, err = self.on_disk(f"{tune % 'n1c1h8r3'}; cp w ../old; head -c 65536 /dev/zero >full 2>/dev/null || true; "
                                f"{tune % 'n1c1h9r3'}; cmp w ../old")
        self.assertEqual(out, ["", "full", "w", ""])
        self.assertEqual((err.count("\n"), err.count("could not be written")), (1, 1), err)


class Ends(Case):
    """Processes that are ended at any moment leave whole files, and no others."""

    def end(self, words, after, by):
        process = subprocess.Popen([CONVOY, *map(str, words)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(after)
        process.send_signal(by)
        process.wait()

    def span(self, words):
        start = time.perf_counter()
        self.good(*words)
        return time.perf_counter() - start

    def test_run(self):
        x = npy(self.path("x.npy"), (1, 1, 1500, 1500), [1] * 1500 * 1500)
        w = npy(self.path("w.npy"), (1, 1, 3, 3), [1] * 9)
        y = self.path("y.npy")
        words = ("run", "--device", "cpu", "--x", x, "--w", w, "-o", y)
        whole = self.span(words)
        size = os.path.getsize(y)
        draw = random.Random(5)
        for i in range(24):
            if i % 2:
                os.unlink(y)
            by = (signal.SIGKILL, signal.SIGINT, signal.SIGTERM)[i // 2 % 3]
            self.end(words, draw.uniform(0.3, 1.1) * whole, by)
            others = set(os.listdir(self.at)) - {"x.npy", "w.npy", "y.npy"}
            for name in others:  # SIGKILL between naming and renaming: nobody can tidy up, but the file is whole
                self.assertTrue(by == signal.SIGKILL and i % 2 == 0 and name.startswith(".convoy-"), (name, by, i))
                self.assertEqual(os.path.getsize(self.path(name)), size)
                os.unlink(self.path(name))
            if not os.path.exists(y):
                self.assertTrue(i % 2)
                self.good(*words)
            self.assertEqual(os.path.getsize(y), size)

    def test_tune(self):
        wisdom = self.path("wisdom")
        draw = random.Random(6)
        for i in range(16):
            words = ("tune", *(f"n1c1h{5 + 4 * i + j}k1r3" for j in range(4)), "--budget", "0.1", "--device", "cpu", "--wisdom", wisdom)
            self.end(words, draw.uniform(0.01, 0.2), (signal.SIGKILL, signal.SIGINT)[i % 2])
            if os.path.exists(wisdom):
                self.lines("wisdom", "show", "--wisdom", wisdom)  # which would warn of damage
        self.good("tune", "n1c1h4k1r2", "--budget", "0.05", "--device", "cpu", "--wisdom", wisdom)
        self.assertEqual(os.listdir(self.at), ["wisdom"])

    def test_eight_at_once(self):
        wisdom = self.path("deep/wisdom")
        all_of_them = [subprocess.Popen([CONVOY, "tune", *(f"n1c1h{4 + 3 * i + j}k1r2" for j in range(3)), "--budget", "0.1", "--device",
                                         "cpu", "--wisdom", wisdom], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for i in range(8)]
        for process in all_of_them:
            self.assertEqual((process.communicate()[1], process.returncode), (b"", 0))
        self.assertEqual(len({line["key"] for line in self.lines("wisdom", "show", "--wisdom", wisdom)}), 24)
        self.assertEqual(os.listdir(self.path("deep")), ["wisdom"])

    def test_wisdom_that_vanishes(self):
        folder = self.path("gone")
        os.mkdir(folder)
        process = subprocess.Popen([CONVOY, "tune", *(f"n1c1h{h}k1r3" for h in range(5, 25)), "--budget", "2", "--device", "cpu",
                                    "--wisdom", folder + "/w"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        process.stdout.readline()
        os.rename(folder, self.path("away"))
        out, err = process.communicate()
        self.assertEqual((process.returncode, err.count(b"\n"), out.count(b"\n")), (0, 1, 19), err)
        self.assertIn(b"gone/w", err)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
