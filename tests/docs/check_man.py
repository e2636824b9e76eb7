"""The manual page names every option that the command has, and no other; docs/command-line.md has them all too, and every key of
the JSON output. Usage: check_man.py CONVOY MANUAL_PAGE SOURCE_FOLDER"""
import glob
import os
import re
import subprocess
import sys

convoy, page, source = sys.argv[1:4]
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

with open(os.path.join(source, "docs/command-line.md"), encoding="utf-8") as file:
    guide = file.read()
faults += ["docs/command-line.md lacks --" + name for name in sorted(said - {"help", "usage"}) if not re.search(r"--%s\b" % name, guide)]
keys = set()
for name in glob.glob(os.path.join(source, "cli/*.c")):
    with open(name, encoding="utf-8") as file:
        keys |= set(re.findall(r'(?:cJSON_Add\w+ToObject|json_real)\(\w+,\s*"(\w+)"', file.read()))
faults += ["docs/command-line.md lacks the JSON key " + key for key in sorted(keys) if "`%s`" % key not in guide]
try:
    lint = subprocess.run(["groff", "-man", "-ww", "-z", page], capture_output=True, text=True, check=False)
    faults += lint.stderr.splitlines()
except FileNotFoundError:
    pass
print("\n".join(faults) or "%d options, %d commands, %d keys" % (len(said), len(commands), len(keys)))
sys.exit(bool(faults))
