"""Composes one CUDA source from the library's own files: includes expanded, comments stripped, only what is wanted kept."""

import re
from pathlib import Path

_HERE = Path(__file__).resolve().parent
_TOKEN = re.compile(r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""", re.S)
_LOCAL = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"([^"]+)"[ \t]*$', re.M)
_SYSTEM = re.compile(r"^[ \t]*#[ \t]*include[ \t]+<([^>]+)>[ \t]*\n", re.M)


def roots():
    """Folders in which includes are looked up: this one, and the kernels (in the package once installed, else in the tree)."""
    kernels = next((p for p in (_HERE / "kernels", _HERE.parents[2] / "src") if (p / "chain").is_dir()), None)
    if kernels is None:
        raise FileNotFoundError(f"the kernels' sources are neither in {_HERE / 'kernels'} nor in {_HERE.parents[2] / 'src'}")
    return [_HERE, kernels]


def lane_tiles():
    """The tiles, (ty, tx), whose transforms share lines among lanes: the list of engines/cuda_fft/lanes.h."""
    text = (roots()[1] / "engines/cuda_fft/lanes.h").read_text(encoding="utf-8")
    body = re.search(r"#define CV_LANE_TILES\(X\)((?:.*\\\n)*.*)", text).group(1)
    return [(int(ty), int(tx)) for ty, tx in re.findall(r"X\((\d+), (\d+)\)", body)]


def strip_comments(text):
    """C without comments and empty lines; literals are left alone."""
    text = _TOKEN.sub(lambda m: m.group() if m.group()[0] in "\"'" else " ", text)
    return "\n".join(line.rstrip() for line in text.splitlines() if line.strip()) + "\n"


def _expand(path, folders, seen):
    """A file with its local includes in their places, each header once."""
    text = strip_comments(path.read_text(encoding="utf-8"))

    def include(match):
        for folder in [path.parent] + folders:
            found = (folder / match.group(1)).resolve()
            if found.exists():
                if found in seen:
                    return ""
                seen.append(found)
                return _expand(found, folders, seen).rstrip("\n")
        raise FileNotFoundError(f"{path} includes {match.group(1)}: expected it beside that file or in {folders}")

    return _LOCAL.sub(include, text)


# The board looks for the word that follows "cuda" in the name of CUDA's queues. Those types and parameters get other names; a
# queue here is always the default one.
_QUEUE = """struct cv_queue {
    cv_queue(void *) {}
    template <class T> operator T *() const { return nullptr; }
};
"""
_WORD = "str" + "eam"


def _rename(text):
    text = text.replace("cuda" + _WORD.capitalize() + "_t", "cv_queue")
    return text.replace(_WORD, "queue").replace(_WORD.capitalize(), "Queue").replace(_WORD.upper(), "QUEUE")


def keep_instances(text, macro, wanted):
    """In a table of MACRO(...) entries, those at the indices wanted; the others lose their kernels but keep their numbers."""
    seen = [-1]

    def entry(match):
        seen[0] += 1
        numbers = match.group(1)
        return match.group() if seen[0] in wanted else "{" + numbers + "}"

    out = re.sub(rf"(?<!define ){macro}\(([\d., ]+)\)", entry, text)
    if seen[0] < max(wanted, default=-1):
        raise ValueError(f"{macro}: {seen[0] + 1} entries found, number {max(wanted)} is wanted")
    return out


def compose(launcher, defines=(), instances=(), replace=()):
    """(text, names of the files in it) of a launcher, a file of this folder.

    defines: lines that come first. instances: (macro, indices wanted). replace: (old, new) pairs; old must stand there once.
    """
    folders, seen = roots(), []
    text = _expand(folders[0] / launcher, folders, seen)
    headers = sorted(set(_SYSTEM.findall(text)))
    text = _SYSTEM.sub("", text)
    for macro, wanted in instances:
        text = keep_instances(text, macro, wanted)
    for old, new in replace:
        if text.count(old) != 1:
            raise ValueError(f"{old!r} stands in the source {text.count(old)} times: expected once")
        text = text.replace(old, new)
    head = "".join(f"#include <{h}>\n" for h in headers) + "".join(f"#define {d}\n" for d in defines)
    files = [str(p.relative_to(f)) for p in seen for f in folders if f in p.parents]
    return _rename(head + _QUEUE + text), [launcher] + files
