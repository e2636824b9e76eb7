"""Lines of `convoy ... --json` for the report: read, told apart, and grouped by what varies between them."""

import json
import os
import re

_PROBLEM = re.compile(r"n(\d+)c(\d+)h(\d+)(?:w(\d+))?(?:k(\d+))?r(\d+)(?:s(\d+))?(.*)")
_PADS = re.compile(r"_pad(\d+(?:[x,]\d+)*)")
_TILE = re.compile(r"ty(\d+)tx(\d+)")


_TEXTS = ("problem", "engine", "candidate", "weights", "estimate_choice", "best_choice", "tuned_choice", "choice", "name")
_NUMBERS = ("median_ms", "p10_ms", "p90_ms", "direct_gflop_per_s", "rel_rms_err", "max_abs_err", "workspace_bytes", "bound", "copy_gb_per_s",
            "fma_gflop_per_s", "ms", "bytes", "flop", "floor_share")
_PARTS = {"all": ("choice", "ms"), "phases": ("name", "ms")}  # lists of objects, and what each object must have


def _checked(row, where, needs=()):
    """The row as a figure may rely on it; what is null is left out. ValueError naming the place and the field otherwise."""
    if not isinstance(row, dict):
        raise ValueError(f"{where}: expected a JSON object")
    row = {k: v for k, v in row.items() if v is not None}
    for key in needs + (("estimate_choice", "best_choice") if row.get("all") else ()):
        if key not in row:
            raise ValueError(f"{where}: {key} is missing")
    for key, value in row.items():
        if key in _TEXTS and (not isinstance(value, str) or not value.isprintable()):  # lone halves of surrogates are not
            raise ValueError(f"{where}: {key} is not a string of printable characters")
        if key in _NUMBERS and (type(value) not in (int, float) or not 0 <= value < 1e30):
            raise ValueError(f"{where}: {key} is not a number from 0 to 1e30")
        if key in _PARTS:
            if not isinstance(value, list):
                raise ValueError(f"{where}: {key} is not a list")
            row[key] = [dict({"bytes": 0, "flop": 0}, **_checked(one, f"{where}, {key}", _PARTS[key])) for one in value]
    return row


def read(paths):
    """(rows, facts about the runs) of all files; ValueError naming the file and line otherwise. A row's `source` is its file."""
    rows, facts = [], []
    for path in paths:
        try:
            with open(path, encoding="utf-8") as f:
                text = f.read()
        except UnicodeDecodeError as error:
            raise ValueError(f"{path}: byte {error.start} is no UTF-8: expected JSON") from None
        try:
            whole = json.loads(text)
        except (ValueError, RecursionError):
            whole = None
        if isinstance(whole, dict) and isinstance(whole.get("lines"), list):
            machine = whole.get("machine") if isinstance(whole.get("machine"), dict) else {}
            facts.append({"file": os.path.basename(path), "machine": machine.get("gpu") or _processor(machine),
                          "date": whole.get("date"), "command": whole.get("command")})
            rows += [dict(_checked(line, f"{path}, line {i} of lines"), source=path) for i, line in enumerate(whole["lines"], 1)]
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise ValueError(f"{path}, line {number}: {getattr(error, 'msg', error)}: expected one JSON object a line") from None
            rows.append(dict(_checked(row, f"{path}, line {number}"), source=path))
        facts.append({"file": os.path.basename(path)})
    rows = [r for r in rows if r.get("problem") and (r.get("median_ms") or r.get("all") or r.get("bound"))]
    if not rows:
        raise ValueError(f"{', '.join(map(str, paths))}: no line has problem and median_ms: "
                         "expected the output of convoy bench, tune or verify with --json")
    return rows, facts


def _processor(machine):
    parts = [machine.get("cpu"), machine.get("isa"), machine.get("threads") and f"{machine['threads']} threads"]
    return ", ".join(str(p) for p in parts if p) or None


def timed(rows):
    return [r for r in rows if r.get("median_ms")]


def sweeps(rows):
    """(problem, its timed candidates) of `bench --sweep` and `tune --compare` where more than four have a tile. A candidate is a dict
    of series, side (None without a tile), ms, and whether it is chosen (by the cost model), tuned (tune's choice), the quickest."""
    found = {}
    for r in rows:
        here = found.setdefault((r["source"], r["problem"]), [])
        if r.get("all"):
            for one in r["all"]:
                engine, _, candidate = one["choice"].partition(":")
                here.append(dict(series=engine, side=_side(candidate), ms=one["ms"], chosen=one["choice"] == r["estimate_choice"],
                                 tuned=one["choice"] == r.get("tuned_choice"), quickest=one["choice"] == r["best_choice"]))
        elif r.get("median_ms") and r.get("weights") != "prepared" and not r.get("peer"):
            here.append(dict(series=series_of(r), side=_side(r.get("candidate")), ms=r["median_ms"], chosen=bool(r.get("chosen")),
                             tuned=False, quickest=False))
    return [(problem, here) for (_, problem), here in found.items() if sum(bool(one["side"]) for one in here) > 4]


def _side(candidate):
    m = _TILE.search(candidate or "")
    return (int(m[1]) * int(m[2])) ** 0.5 if m else None


def series_of(row):
    """A row's name in a legend."""
    return (row.get("engine") or "?") + (", prepared" if row.get("weights") == "prepared" else "")


def sizes(problem):
    """A problem string's numbers and, as `rest`, its suffixes, with padding that keeps the image's size written _padsame."""
    m = _PROBLEM.fullmatch(problem)
    if not m:
        return None
    n, c, h, w, k, r, s = (int(v) if v else None for v in m.groups()[:7])
    w, k, s = w or h, k or c, s or r

    def same(pads):
        p = [int(v) for v in re.split("[x,]", pads[1])]
        top, bottom, left, right = p * 4 if len(p) == 1 else [p[0], p[0], p[1], p[1]] if len(p) == 2 else p
        return "_padsame" if (top + bottom, left + right) == (r - 1, s - 1) else pads[0]

    return dict(n=n, c=c, h=h, w=w, k=k, r=r, s=s, rest=_PADS.sub(same, m[8]))


def best_rows(rows):
    """Of a sweep's rows for one problem and series the quickest."""
    best = {}
    for row in rows:
        key = (row["problem"], series_of(row))
        if key not in best or row["median_ms"] < best[key]["median_ms"]:
            best[key] = row
    return best


def against(rows, place, value):
    """family -> series -> sorted [(x, value)] where place(sizes) gives (x, family); families and series of one x are left out."""
    groups = {}
    for (problem, name), row in best_rows(rows).items():
        s = sizes(problem)
        x, family = place(s) if s else (None, None)
        if x is not None and value(row):
            groups.setdefault(family, {}).setdefault(name, {})[x] = value(row)
    groups = {f: {n: sorted(p.items()) for n, p in series.items() if len(p) > 2} for f, series in groups.items()}
    return {f: series for f, series in groups.items() if series}


def by_kernel(s):
    square = s["r"] == s["s"] and s["h"] == s["w"]
    deep = s["rest"].endswith("_gc")
    rest = s["rest"].replace("_padsame", ", padded to the same size").replace("_gc", ", depthwise")
    return (s["r"], f"n{s['n']}c{s['c']}h{s['h']}" + ("" if deep else f"k{s['k']}") + rest) if square else (None, None)


def by_batch(s):
    w = "" if s["w"] == s["h"] else f"w{s['w']}"
    return s["n"], f"c{s['c']}h{s['h']}{w}k{s['k']}r{s['r']}{s['rest']}"


def by_image(s):
    return s["h"] * s["w"] / 1e6, f"n{s['n']}c{s['c']}k{s['k']}r{s['r']}{s['rest']}"


def on_curves_only(best):
    """Problems that stand in a family of three or more which differ in one size, and have no more series than its poorest member."""
    families, series = {}, {}
    for problem, name in best:
        series.setdefault(problem, set()).add(name)
    for problem in series:
        s = sizes(problem)
        for place in (by_kernel, by_batch, by_image) if s else ():
            x, family = place(s)
            if x is not None:
                families.setdefault((place, family), []).append(problem)
    out = set()
    for members in families.values():
        least = min(len(series[p]) for p in members)
        out |= {p for p in members if len(members) > 2 and len(series[p]) == least}
    return out if len(out) < len(series) else set()


def is_transform(name):
    """Of Convoy's engines, those that go through the FFT."""
    return name.split(",")[0].split(":")[0] in ("fft", "cuda_fft", "cufft")


def is_chain(name):
    """Engines that compute the exact contract's serial sum."""
    return name in ("direct", "cuda_igemm")


def crossover(series):
    """The first x from which Convoy's quickest transform stays ahead of every direct sum of anybody's; None when it never does."""
    ours = [dict(p) for n, p in series.items() if is_transform(n) and "prepared" not in n]
    direct = [dict(p) for n, p in series.items() if "fft" not in n.lower() and "prepared" not in n]
    if not ours or not direct:
        return None
    first = None
    for x in sorted(set().union(*ours) & set().union(*direct)):
        ahead = min(c[x] for c in ours if x in c) < min(c[x] for c in direct if x in c)
        first = (x if first is None else first) if ahead else None
    return first
