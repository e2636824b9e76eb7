"""Runs every command that README.md and docs/ show. Usage: run_docs.py CONVOY SOURCE_FOLDER CMAKE BUILD_FOLDER

A command is a line of a code block that starts with a program of this machine or of this repository. It runs as it stands, in
an empty folder with the files that the documents speak of and Convoy installed in $HOME/convoy; convoy goes through a wrapper
that shortens timing and leaves the direct sums out (seconds a run on the reference problems). A `convoy ...` in a sentence
may lack its problem, so it runs with --help at its end, which still refuses unknown commands and options. Commands that are
not run here are run by whom ELSEWHERE says; one that is in neither place fails the test, so that a document cannot show what
nobody runs."""
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

CONVOY, SOURCE, CMAKE, BUILD = sys.argv[1:5]
# Programs that this machine may lack, and words that begin lines of other kinds although programs have these names.
PROGRAMS = ("make", "cmake", "ctest", "cpack", "pip", "python", "python3", "sudo", "apt", "nvcc", "git", "cc", "gcc", "ninja")
NO_PROGRAMS = ("w", "x", "y", "machine", "direct", "ref")

# What is not run here: its beginning, and who runs it.
ELSEWHERE = {
    "convoy COMMAND": "the synopsis",
    "convoy help COMMAND": "the synopsis",
    "make": ".ci/run does what these do; run_docs.py and the test consumer install",
    "sudo make install": "the test consumer installs",
    "cmake --preset": ".ci/run",
    "cmake -B build -DCONVOY_PEERS=ON": "the test bench.peers where the libraries are",
    "cpack": "the test docs.package",
    "pip install": "the test python.wheel",
    "python3 -m venv venv": "the test python.wheel",
    "venv/bin/": "the test python.wheel; python/tests/test_docs.py runs what is typed there",
    "export ": "done for all commands",
    "bench/record.py": "takes minutes; bench/results was made by it",
    "bench/peers/torch_": "needs PyTorch, and mostly an NVIDIA GPU",
    "bench/table.py --docs": "rewrites the documents; the check below reads them",
    "bench/pictures.sh": "needs matplotlib; python/tests/test_report.py draws every kind of figure",
    "build/bin/convoy bench A B C D --engine NAME": "NAME is the reader's",
    "build-dev/bin/convoy": "NAME is the reader's",
    "build/bin/convoy tune --compare": "takes minutes; tests/cli runs it on small problems",
    "python -m convoy": "the tests of the Python package",
    "tools/soak": "takes as long as it is told to",
    "build/bin/soak": "takes as long as it is told to; tests run it for seconds",
    "build/tests/": "a test of its own",
    "tools/format.sh": ".ci/run checks the format",
}
WRAPPER = """#!/bin/sh
case $1 in
bench) command=$1; shift; exec "{convoy}" $command --time=0.02 --exclude={slow} "$@" ;;
tune) command=$1; shift; exec "{convoy}" $command --budget=2 --exclude={vendors} "$@" ;;
verify) command=$1; shift; exec "{convoy}" $command --exclude={vendors} "$@" ;;
*) exec "{convoy}" "$@" ;;
esac
"""


def pages():
    found = [os.path.join(SOURCE, "README.md"), os.path.join(SOURCE, "CONTRIBUTING.md")]
    for folder, _, names in os.walk(os.path.join(SOURCE, "docs")):
        found += [os.path.join(folder, name) for name in sorted(names) if name.endswith(".md")]
    return found


def is_program(word):
    if word in NO_PROGRAMS or "=" in word:
        return False
    if "/" in word:
        return word.startswith(("bench/", "tools/", "build", "venv/", "./", ".ci/")) and " " not in word
    return word in PROGRAMS or word in ("convoy", "export") or shutil.which(word) is not None


def commands():
    """(file, line number, command) of every code block's lines, and of the sentences' `convoy ...`."""
    for page in pages():
        fence = None
        with open(page, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                place = os.path.relpath(page, SOURCE), number
                mark = re.match(r"```(\w*)", line)
                if mark:
                    fence = None if fence is not None else mark.group(1)
                    continue
                shell = fence in ("", "sh", "shell", "console") if fence is not None else re.match(r" {4}\S", line)
                text = line.strip()
                if shell and is_program(text.split(" ")[0]):
                    yield *place, re.sub(r"\s+# .*", "", text)
                elif fence is None and not shell and not re.match(r"(<!--|[A-Z][^`]*; \d{4}-)", line):
                    for span in re.findall(r"`(convoy [a-z][^`|]*)`", line):
                        yield *place, span + " --help"


def npy(path, shape):
    import array
    import random
    import struct
    size = 1
    for side in shape:
        size *= side
    text = "{'descr': '<f4', 'fortran_order': False, 'shape': %s, }" % (shape,)
    header = (text + " " * (-(len(text) + 11) % 64) + "\n").encode()
    values = array.array("f", (random.gauss(0, 1) for _ in range(size)))
    with open(path, "wb") as out:
        out.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + values.tobytes())


def main():
    faults, ran, seen = 0, 0, set()
    with tempfile.TemporaryDirectory() as folder:
        home, wrappers = os.path.join(folder, "home"), os.path.join(folder, "wrappers")
        subprocess.run([CMAKE, "--install", BUILD, "--prefix", os.path.join(home, "convoy")], check=True, stdout=subprocess.DEVNULL)
        npy(os.path.join(folder, "image.npy"), (96, 120))
        npy(os.path.join(folder, "kernel.npy"), (31, 31))
        npy(os.path.join(folder, "x.npy"), (2, 3, 40, 40))
        npy(os.path.join(folder, "w.npy"), (4, 3, 11, 11))
        listed = subprocess.run([CONVOY, "engines", "--json"], check=True, capture_output=True, text=True).stdout
        engines = [json.loads(line) for line in listed.splitlines()]
        slow, vendors = (",".join(e["engine"] for e in engines if wanted(e)) for wanted in
                         (lambda e: not e["transform"], lambda e: e["vendor"]))
        for place in (os.path.join(folder, "build/bin/convoy"), os.path.join(wrappers, "convoy")):
            os.makedirs(os.path.dirname(place))
            with open(place, "w", encoding="utf-8") as out:
                out.write(WRAPPER.format(convoy=CONVOY, slow=slow, vendors=vendors or "ref"))
            os.chmod(place, 0o755)
        for part in ("bench", "docs", "examples", "README.md"):
            os.symlink(os.path.join(SOURCE, part), os.path.join(folder, part))
        pc = subprocess.run(["find", home, "-name", "convoy.pc"], check=True, capture_output=True, text=True).stdout.strip()
        env = dict(os.environ, PATH=wrappers + ":" + os.environ["PATH"], HOME=home, CONVOY_WISDOM=os.path.join(folder, "wisdom"),
                   PKG_CONFIG_PATH=os.path.dirname(pc), PYTHONPATH=os.path.join(SOURCE, "python"))
        for page, number, text in commands():
            if any(text.startswith(start) for start in ELSEWHERE):
                continue
            words = shlex.split(text)
            if words[0] not in ("convoy", "build/bin/convoy", "bench/table.py", "cc", "./first"):
                print("%s:%d: nobody runs: %s" % (page, number, text))
                faults += 1
                continue
            if text in seen and text.endswith("--help"):
                continue
            seen.add(text)
            done = subprocess.run(["sh", "-c", text], cwd=folder, env=env, capture_output=True, text=True, timeout=120, check=False)
            ran += 1
            if done.returncode:
                print("%s:%d: exit %d: %s\n%s" % (page, number, done.returncode, text, done.stderr[-400:]))
                faults += 1
    check = subprocess.run([sys.executable, os.path.join(SOURCE, "bench/table.py"), "--check", "--docs", *pages()], check=False)
    faults += check.returncode != 0
    print("%d commands run, %d faults" % (ran, faults))
    return bool(faults) or not ran


sys.exit(main())
