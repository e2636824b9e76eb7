"""Results files, the tables made of them, and wisdom, through the command. Usage: test_records.py CONVOY SOURCE_FOLDER"""
import json
import os
import subprocess
import sys
import unittest

from command import CONVOY, SOURCE, Case, convoy


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
        listed = subprocess.run([CONVOY, "engines", "--json"], check=True, capture_output=True, text=True).stdout
        others = [name for name in (json.loads(line)["engine"] for line in listed.splitlines()) if name != "fft"]
        common = ("--exclude", ",".join(others), "--device", "cpu", "--time", "0.01")
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
        self.assertGreaterEqual(line["tuned_ratio"], 1)

    def test_compare_of_nothing(self):
        line = self.lines("tune", "n0c2h20k2r5", "--compare", "--device", "cpu")[0]
        self.assertEqual(line["tuned_choice"], line["best_choice"])

    def test_compare_under_a_budget(self):
        """Every engine's best is timed however short the time is."""
        line = self.lines("tune", "n1c2h20k2r5", "--compare", "--budget", "0.001", "--device", "cpu")[0]
        able = {one["engine"] for one in self.lines("explain", "n1c2h20k2r5", "--device", "cpu") if one["verdict"] != "declined"}
        self.assertEqual({one["choice"].split(":")[0] for one in line["all"]}, able)
        self.assertLess(line["timed"], line["choices"])

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
