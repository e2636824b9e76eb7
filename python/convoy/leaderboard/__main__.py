"""python -m convoy.leaderboard --gpu H100 [--math match|fp32|exact] -o submission.py
python -m convoy.leaderboard check submission.py [--rules] [--tests] [--seed N]"""

import argparse
import sys
from pathlib import Path

from . import rules
from .generate import GPUS, MATHS, generate


def _check(arguments):
    parser = argparse.ArgumentParser(prog="python -m convoy.leaderboard check", description="Checks a submission: its rules on any "
                                     "machine, then its results and times by the board's protocol on the GPU of this one.")
    parser.add_argument("file")
    parser.add_argument("--rules", action="store_true", help="only the rules, without running it")
    parser.add_argument("--tests", action="store_true", help="the five tests, without the benchmarks")
    parser.add_argument("--seed", type=int, default=None, help="of the first draw (default: another one each time)")
    options = parser.parse_args(arguments)
    try:
        data = Path(options.file).read_bytes()
    except OSError as error:
        parser.error(f"{options.file}: {error.strerror}")
    faults = rules.faults(data)
    for fault in faults:
        print(f"{options.file}: {fault}", file=sys.stderr)
    if faults or options.rules:
        return int(bool(faults))
    from .check import check

    return check(options.file, options.seed, options.tests)


def _generate(arguments):
    parser = argparse.ArgumentParser(prog="python -m convoy.leaderboard", description="Writes a self-contained submission for the "
                                     "public conv2d_v2 board; 'check FILE' instead of options checks one.")
    parser.add_argument("--gpu", required=True, choices=sorted(GPUS))
    parser.add_argument("--math", choices=MATHS, help="default: match on H100 and L4, fp32 on A100 and B200")
    parser.add_argument("-o", "--output", required=True)
    options = parser.parse_args(arguments)
    try:
        text = generate(options.gpu, options.math)
    except (ValueError, FileNotFoundError) as error:
        parser.error(str(error))
    faults = rules.faults(text.encode())
    if faults:
        parser.exit(1, "".join(f"the generated file breaks a rule: {f}\n" for f in faults))
    try:
        Path(options.output).write_text(text, encoding="utf-8")
    except OSError as error:
        parser.error(f"{options.output}: {error.strerror}")
    print(f"{options.output}: {len(text.encode())} bytes for {options.gpu}, {options.math or GPUS[options.gpu].math}")
    return 0


def main(arguments=None):
    arguments = sys.argv[1:] if arguments is None else arguments
    return _check(arguments[1:]) if arguments[:1] == ["check"] else _generate(arguments)


if __name__ == "__main__":
    sys.exit(main())
