"""Runs every command that README.md and docs/ show. Usage: run_docs.py CONVOY SOURCE_FOLDER

A command is a line of a code block that starts with one of PROGRAMS. `convoy` lines run as they stand, in an empty folder
with the files that the documents speak of, through a wrapper that shortens timing and leaves the direct sums out (seconds a
run on the reference problems). Lines of other programs are run by whom ELSEWHERE says; one that is in neither place fails
the test, so that a document cannot show what nobody runs."""
import os
import re
import shlex
import subprocess
import sys
import tempfile

CONVOY, SOURCE = sys.argv[1:3]
PROGRAMS = ("convoy", "build/bin/convoy", "make", "cmake", "ctest", "cpack", "pip", "python", "python3", "bench/", "tools/", "sudo", "apt")

# What is not run here: its beginning, and who runs it.
ELSEWHERE = {
    "convoy COMMAND": "the synopsis",
    "make": ".ci/run does what these do",
    "sudo make install": "the test consumer installs",
    "cmake --preset": ".ci/run",
    "cmake -B build -DCONVOY_PEERS=ON": "the test bench.peers where the libraries are",
    "cpack": "the test docs.package",
    "pip install": "the test python.wheel",
    "bench/record.py": "takes minutes; bench/results was made by it",
    "bench/peers/torch_gpu.py": "needs an NVIDIA GPU and PyTorch",
    "bench/table.py --docs": "rewrites the documents",
    "bench/pictures.sh": "needs matplotlib; python/tests/test_report.py draws every kind of figure",
    "build/bin/convoy bench A B C D --engine NAME": "NAME is the reader's",
    "build/bin/convoy tune --compare": "takes minutes; tests/cli runs it on small problems",
    "python -m convoy": "the tests of the Python package",
    "tools/soak": "takes as long as it is told to",
}

WRAPPER = """#!/bin/sh
case $1 in
bench) command=$1; shift; exec "{convoy}" $command --time=0.02 --exclude=onednn,direct "$@" ;;
tune) command=$1; shift; exec "{convoy}" $command --budget=2 --exclude=onednn "$@" ;;
verify) command=$1; shift; exec "{convoy}" $command --exclude=onednn "$@" ;;
*) exec "{convoy}" "$@" ;;
esac
"""


def commands():
    """(file, line number, command) of every code block's lines."""
    pages = [os.path.join(SOURCE, "README.md"), os.path.join(SOURCE, "CONTRIBUTING.md")]
    for folder, _, names in os.walk(os.path.join(SOURCE, "docs")):
        pages += [os.path.join(folder, name) for name in sorted(names) if name.endswith(".md")]
    for page in pages:
        fence = None
        with open(page, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                mark = re.match(r"```(\w*)", line)
                if mark:
                    fence = None if fence is not None else mark.group(1)
                    continue
                shell = fence in ("", "sh", "shell", "console") if fence is not None else line.startswith("    ")
                text = line.strip()
                if shell and text.startswith(PROGRAMS) and re.match(r"\S+(\s|$)", text):
                    word = text.split()[0]
                    if word in PROGRAMS or word.startswith(("bench/", "tools/")):
                        yield os.path.relpath(page, SOURCE), number, re.sub(r"\s+# .*", "", text)


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
    faults = ran = 0
    with tempfile.TemporaryDirectory() as folder:
        npy(os.path.join(folder, "image.npy"), (96, 120))
        npy(os.path.join(folder, "kernel.npy"), (31, 31))
        npy(os.path.join(folder, "x.npy"), (2, 3, 40, 40))
        npy(os.path.join(folder, "w.npy"), (4, 3, 11, 11))
        npy(os.path.join(folder, "bias.npy"), (4,))
        os.makedirs(os.path.join(folder, "build/bin"))
        for place in ("build/bin/convoy", "convoy"):
            with open(os.path.join(folder, place), "w", encoding="utf-8") as out:
                out.write(WRAPPER.format(convoy=CONVOY))
            os.chmod(os.path.join(folder, place), 0o755)
        for part in ("bench", "docs", "README.md"):
            os.symlink(os.path.join(SOURCE, part), os.path.join(folder, part))
        env = dict(os.environ, PATH=folder + ":" + os.environ["PATH"], HOME=folder, CONVOY_WISDOM=os.path.join(folder, "wisdom"),
                   PYTHONPATH=os.path.join(SOURCE, "python"))
        for page, number, text in commands():
            if any(text.startswith(start) for start in ELSEWHERE):
                continue
            words = shlex.split(text)
            if words[0] not in ("convoy", "build/bin/convoy", "bench/table.py"):
                print("%s:%d: nobody runs: %s" % (page, number, text))
                faults += 1
                continue
            done = subprocess.run(["sh", "-c", text], cwd=folder, env=env, capture_output=True, text=True, timeout=120, check=False)
            ran += 1
            if done.returncode:
                print("%s:%d: exit %d: %s\n%s" % (page, number, done.returncode, text, done.stderr[-400:]))
                faults += 1
    print("%d commands run, %d faults" % (ran, faults))
    return bool(faults) or not ran


sys.exit(main())
