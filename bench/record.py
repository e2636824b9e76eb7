#!/usr/bin/env python3
"""Keeps a run of the command as a results file: bench/record.py [--append] OUT.json COMMAND...

    bench/record.py bench/results/cpu.json build/bin/convoy bench leaderboard --peers --device cpu

--append adds another run on the same machine to the file.

The file names the machine (convoy info), the date, the command, and holds the command's JSON lines:
{"machine": {...}, "date": "2026-01-31", "command": "convoy bench ...", "lines": [{...}, ...]}
bench/table.py makes tables and plots from such files."""
import datetime
import json
import os
import re
import shlex
import subprocess
import sys


def device_words(words):
    """The options that say where: convoy info must describe the same place."""
    kept = []
    for at, word in enumerate(words):
        if re.match(r"--(device|threads|isa)=", word):
            kept.append(word)
        elif word in ("--device", "--threads", "--isa"):
            kept += words[at:at + 2]
    return kept


def main():
    append = sys.argv[1:2] == ["--append"]
    if len(sys.argv) < 4 + append:
        sys.exit("bench/record.py: expected OUT.json and a command, such as build/bin/convoy bench A")
    out, convoy, words = sys.argv[1 + append], sys.argv[2 + append], sys.argv[3 + append:]
    machine = json.loads(subprocess.run([convoy, "info", "--json", *device_words(words)], check=True, capture_output=True, text=True).stdout)
    machine.pop("wisdom", None)
    done = subprocess.run([convoy, *words, "--json"], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"bench/record.py: the command ended with exit code {done.returncode}: nothing is kept")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    if "isa" in machine:
        for line in lines:
            line.setdefault("isa", machine["isa"])
    result = {"machine": machine, "date": datetime.date.today().isoformat(),
              "command": shlex.join([os.path.basename(convoy), *words]), "lines": lines}
    if append and os.path.exists(out):
        with open(out, encoding="utf-8") as file:
            old = json.load(file)
        if old["machine"].get("cpu") != machine.get("cpu") or old["machine"].get("gpu") != machine.get("gpu"):
            sys.exit(f"bench/record.py: {out} is from another machine: nothing is added")
        result = {"machine": old["machine"], "date": result["date"], "command": old["command"] + "; " + result["command"],
                  "lines": old["lines"] + lines}
        lines = result["lines"]
    os.makedirs(os.path.dirname(os.path.abspath(out)), exist_ok=True)
    with open(out + ".part", "w", encoding="utf-8") as file:
        head = json.dumps({key: result[key] for key in ("machine", "date", "command")}, indent=1)
        file.write(head[:-2] + ',\n "lines": [\n')
        file.write(",\n".join("  " + json.dumps(line) for line in lines) + "\n ]\n}\n")
    os.replace(out + ".part", out)
    print(f"{out}: {len(lines)} lines")


if __name__ == "__main__":
    main()
