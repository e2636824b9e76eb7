"""The manual page names every option that the command has, and no other. Usage: check_man.py CONVOY MANUAL_PAGE"""
import re
import subprocess
import sys

convoy, page = sys.argv[1:3]
commands = "run verify bench tune explain engines info wisdom".split()
option = re.compile(r"--([a-z][a-z-]+|[a-z](?==))")

said = set()
for command in commands:
    text = subprocess.run([convoy, command, "--help"], check=True, capture_output=True, text=True).stdout
    said |= set(option.findall("\n".join(line for line in text.splitlines() if line.startswith("  "))))

with open(page, encoding="utf-8") as file:
    text = file.read()
manual = text.replace("\\-", "-")
written = set(option.findall(manual))

faults = ["the manual page lacks --" + name for name in sorted(said - written)]
faults += ["the manual page has --%s, which no command knows" % name for name in sorted(written - said - {"version"})]
faults += ["the manual page lacks the command " + name for name in commands if not re.search(r"^\.BR? \"?%s\b" % name, manual, re.M)]
faults += ["the manual page lacks " + name for name in ("CONVOY_THREADS", "CONVOY_ISA", "CONVOY_WISDOM", "CONVOY_LOG") if name not in manual]
try:
    lint = subprocess.run(["groff", "-man", "-ww", "-z", page], capture_output=True, text=True, check=False)
    faults += lint.stderr.splitlines()
except FileNotFoundError:
    pass
print("\n".join(faults) or "%d options, %d commands" % (len(said), len(commands)))
sys.exit(bool(faults))
