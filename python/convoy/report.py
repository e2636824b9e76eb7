"""python -m convoy.report RESULTS ... -o report.html: one self-contained page of plots from `convoy bench --json` lines.

RESULTS are files of JSON lines, or bench/results files (an object whose "lines" are such lines). What a file has decides what is
drawn: times, phases and their floors (bench --phases), time against tile side (bench --sweep), time against kernel size and
scaling (problems that differ in one size only), errors, workspace. Needs matplotlib.
"""

import argparse
import html
import io
import json
import os
import re
import sys
import tempfile
from collections import defaultdict

_PROBLEM = re.compile(r"n(\d+)c(\d+)h(\d+)(?:w(\d+))?(?:k(\d+))?r(\d+)(?:s(\d+))?(.*)")
_TILE = re.compile(r"ty(\d+)tx(\d+)")


def read(paths):
    """(rows, facts about the runs) of all files; ValueError naming the file and line otherwise."""
    rows, facts = [], []
    for path in paths:
        with open(path, encoding="utf-8") as f:
            text = f.read()
        try:
            whole = json.loads(text)
        except json.JSONDecodeError:
            whole = None
        if isinstance(whole, dict) and isinstance(whole.get("lines"), list):
            machine = whole.get("machine") or {}
            facts.append({"file": os.path.basename(path), "machine": machine.get("gpu") or machine.get("cpu"), "date": whole.get("date"),
                          "command": whole.get("command")})
            rows += whole["lines"]
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except json.JSONDecodeError as error:
                raise ValueError(f"{path}, line {number}: {error.msg}: expected one JSON object a line") from None
            if not isinstance(row, dict):
                raise ValueError(f"{path}, line {number}: expected a JSON object")
            rows.append(row)
        facts.append({"file": os.path.basename(path)})
    timed = [r for r in rows if r.get("problem") and r.get("median_ms")]
    if not timed:
        raise ValueError(f"{', '.join(map(str, paths))}: no line has problem and median_ms: expected the output of convoy bench --json")
    return timed, facts


def series_of(row):
    """The legend's name for a row: engine or peer, with what sets it apart."""
    name = row.get("engine") or row.get("peer") or "?"
    return name + (" (prepared)" if row.get("weights") == "prepared" else "")


def sizes(problem):
    m = _PROBLEM.fullmatch(problem)
    if not m:
        return None
    n, c, h, w, k, r, s = (int(v) if v else None for v in m.groups()[:7])
    return {"n": n, "c": c, "h": h, "w": w or h, "k": k or c, "r": r, "s": s or r, "rest": m.group(8)}


def best_rows(rows):
    """Of a sweep's rows for one problem and series the quickest."""
    best = {}
    for row in rows:
        key = (row["problem"], series_of(row))
        if key not in best or row["median_ms"] < best[key]["median_ms"]:
            best[key] = row
    return best


def _colours(plt, rows):
    """A colour for each series: engines get strong ones, peers and vendors' libraries shades of grey."""
    strong, grey = plt.get_cmap("tab10").colors, ("0.35", "0.5", "0.62", "0.72", "0.8")
    colours, count = {}, [0, 0]
    for row in rows:
        name, other = series_of(row), bool(row.get("peer") or row.get("vendor"))
        if name not in colours:
            colours[name] = (grey if other else strong)[count[other] % (5 if other else 10)]
            count[other] += 1
    return colours


def _bars(plt, best, value, title, xlabel):
    """One bar a series, under its problem's name; each is labelled, so that no legend is needed."""
    colours = _colours(plt, best.values())
    places, labels, bars, at = [], [], [], 0
    for problem in dict.fromkeys(p for p, _ in best):
        places.append(at), labels.append(problem)
        for (p, name), row in best.items():
            if p == problem and value(row):
                at += 1
                bars.append((at, value(row), colours[name]))
                places.append(at), labels.append(name)
        at += 1.6
    fig, ax = plt.subplots(figsize=(8, max(2.5, 0.19 * at + 1)))
    drawn = ax.barh([b[0] for b in bars], [b[1] for b in bars], 0.8, color=[b[2] for b in bars])
    ax.bar_label(drawn, [_cell(float(b[1])) if b[1] < 9999 else f"{b[1]:.0f}" for b in bars], fontsize=7, padding=2)
    ax.set_yticks(places, labels, fontsize=7)
    for tick in ax.get_yticklabels():
        if tick.get_text() not in colours:
            tick.set(fontweight="bold", fontsize=8)
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(at - 0.8, -0.9)
    ax.set_xscale("log")
    ax.set_xmargin(0.15)
    ax.set_xlabel(xlabel)
    ax.set_title(title, fontsize=11)
    ax.grid(axis="x", alpha=0.3)
    ax.set_axisbelow(True)
    return fig


def _phases(plt, rows):
    shown = [r for r in rows if r.get("phases") and len(r["phases"]) > 1]
    if not shown:
        return None
    labels, values, times = [], [], []
    for row in shown:
        for p in row["phases"]:
            labels.append(f"{row['problem']} {row['engine']}: {p['name']}")
            values.append(100 * p.get("floor_share", 0))
            times.append(p["ms"])
    fig, ax = plt.subplots(figsize=(8, 0.26 * len(labels) + 1.3))
    bars = ax.barh(range(len(labels)), values, color="tab:green")
    ax.bar_label(bars, [f"{v:.0f} %, {t:.3g} ms" for v, t in zip(values, times)], fontsize=7, padding=2)
    ax.set_yticks(range(len(labels)), labels, fontsize=7)
    ax.invert_yaxis()
    ax.axvline(100, color="k", lw=0.8)
    ax.set_xlim(0, max(115, max(values) * 1.2))
    ax.set_xlabel("share of the larger of the phase's two floors (arithmetic, bandwidth), %")
    ax.set_title("Phases against their floors", fontsize=11)
    return fig


def _lines(plt, groups, xlabel, title, mark=None):
    """groups: title -> series -> [(x, ms)]; one axes a group."""
    groups = {g: {s: sorted(set(p)) for s, p in v.items() if len(set(x for x, _ in p)) > 1} for g, v in groups.items()}
    groups = {g: v for g, v in groups.items() if v}
    if not groups:
        return None
    fig, axes = plt.subplots(len(groups), 1, figsize=(8, 3.4 * len(groups)), squeeze=False)
    for ax, (name, series) in zip(axes[:, 0], groups.items()):
        styles = iter(("o-", "s-", "^-", "D-", "v-", "o--", "s--", "^--", "D--", "v--") * 4)
        for label, points in series.items():
            line = ax.plot([x for x, _ in points], [y for _, y in points], next(styles), ms=4, label=label)[0]
            for x, y in (mark or {}).get((name, label), []):
                ax.plot([x], [y], "*", ms=14, color=line.get_color(), markeredgecolor="k", label=f"{label}: chosen")
        ax.set_yscale("log")
        ax.set_xlabel(xlabel)
        ax.set_ylabel("ms")
        ax.set_title(name, fontsize=10)
        ax.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1, 1))
        ax.grid(alpha=0.3)
    fig.suptitle(title, fontsize=11)
    return fig


def _against(plt, rows, field, xlabel, title, scale=lambda s: None):
    groups = defaultdict(lambda: defaultdict(list))
    for (problem, name), row in best_rows(rows).items():
        s = sizes(problem)
        if s is None:
            continue
        x, same = scale(s)
        if x is not None:
            groups[same][name].append((x, row["median_ms"]))
    fig = _lines(plt, groups, xlabel, title)
    if fig is not None and field == "r":
        for ax in fig.axes:
            _mark_crossover(ax)
    return fig


def _mark_crossover(ax):
    """The first size from which a transform engine beats every direct one."""
    curves = {line.get_label(): dict(zip(line.get_xdata(), line.get_ydata())) for line in ax.get_lines()}
    direct = [c for label, c in curves.items() if label.split(" ")[0] in ("direct", "cuda_igemm", "cudnn", "onednn")]
    spectral = [c for label, c in curves.items() if "fft" in label]
    if not direct or not spectral:
        return
    for x in sorted(set().union(*direct) & set().union(*spectral)):
        if min(c[x] for c in spectral if x in c) < min(c[x] for c in direct if x in c):
            ax.axvline(x, color="k", ls=":", lw=1)
            ax.text(x, ax.get_ylim()[1], f" transforms win from {x:g}", fontsize=8, va="top")
            return


def _sweep(plt, rows):
    groups, marks = defaultdict(lambda: defaultdict(list)), defaultdict(list)
    for row in rows:
        m = _TILE.search(row.get("candidate") or "")
        if m:
            side = (int(m.group(1)) * int(m.group(2))) ** 0.5
            groups[row["problem"]][series_of(row)].append((side, row["median_ms"]))
            if row.get("chosen"):
                marks[row["problem"], series_of(row)].append((side, row["median_ms"]))
    return _lines(plt, groups, "tile side (geometric mean of height and width)", "Time against tile side", marks)


def figures(rows):
    """(title, figure) pairs of everything that the rows have data for."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update({"svg.fonttype": "none", "figure.constrained_layout.use": True})
    best = best_rows(rows)
    side = lambda s: (s["r"], f"n{s['n']}c{s['c']}h{s['h']}k{s['k']}, kernel size varied") if s["r"] == s["s"] else (None, "")
    batch = lambda s: (s["n"], f"c{s['c']}h{s['h']}k{s['k']}r{s['r']}{s['rest']}, batch varied")
    area = lambda s: (s["h"] * s["w"] / 1e6, f"n{s['n']}c{s['c']}k{s['k']}r{s['r']}{s['rest']}, image varied")
    made = [
        ("Time", _bars(plt, best, lambda r: r["median_ms"], "Time, less is better", "median ms (log scale)")),
        ("Kernel size", _against(plt, rows, "r", "kernel size R = S", "Time against kernel size", side)),
        ("Tile side", _sweep(plt, rows)),
        ("Phases", _phases(plt, rows)),
        ("Batch", _against(plt, rows, "n", "batch N", "Time against batch", batch)),
        ("Image size", _against(plt, rows, "h", "image, million pixels", "Time against image size", area)),
    ]
    if any(r.get("rel_rms_err") for r in rows):
        made.append(("Error", _bars(plt, {k: r for k, r in best.items() if r.get("rel_rms_err")}, lambda r: r["rel_rms_err"],
                                    "Error against FP64 (direct engines: the serial FP32 chain's)", "rms error over y's rms (log scale)")))
    if any(r.get("workspace_bytes") for r in rows):
        made.append(("Workspace", _bars(plt, {k: r for k, r in best.items() if r.get("workspace_bytes")}, lambda r: r["workspace_bytes"] / 2**20,
                                        "Workspace", "MiB (log scale)")))
    pairs = [(title, fig) for title, fig in made if fig is not None]
    return pairs


def _svg(fig):
    out = io.StringIO()
    fig.savefig(out, format="svg")
    text = out.getvalue()
    return text[text.index("<svg"):]


_STYLE = """body{font:16px/1.5 system-ui,sans-serif;margin:0 auto;max-width:60rem;padding:1rem;color:#222;background:#fff}
svg{width:100%;min-width:40rem;height:auto}figure{margin:1.5rem 0;overflow-x:auto}table{border-collapse:collapse;font-size:.85rem}td,th{border:1px solid #ccc;padding:.2rem .5rem;
text-align:right}td:first-child,th:first-child{text-align:left}.wide{overflow-x:auto}code{overflow-wrap:anywhere}"""


def page(rows, facts):
    """The report as HTML text."""
    import matplotlib.pyplot as plt

    parts = []
    for title, fig in figures(rows):
        parts.append(f"<figure><h2>{html.escape(title)}</h2>{_svg(fig)}</figure>")
        plt.close(fig)
    about = "".join("<p>" + ", ".join(f"{html.escape(str(k))}: <code>{html.escape(str(v))}</code>" for k, v in f.items()) + "</p>" for f in facts)
    keys = ["problem", "engine", "candidate", "median_ms", "p10_ms", "p90_ms", "direct_gflop_per_s", "rel_rms_err", "workspace_bytes"]
    body = "".join("<tr>" + "".join(f"<td>{html.escape(_cell(r.get(k) if k != 'engine' else series_of(r)))}</td>" for k in keys) + "</tr>" for r in rows)
    table = f"<div class=wide><table><tr>{''.join(f'<th>{k}</th>' for k in keys)}</tr>{body}</table></div>"
    return (f"<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'><title>Convoy: results</title>"
            f"<style>{_STYLE}</style><h1>Convoy: results</h1>{about}<p>GFLOP/s count the direct sum's operations.</p>{''.join(parts)}<h2>All lines</h2>{table}</html>\n")


def figure(rows, title):
    """One figure as SVG text."""
    pairs = dict(figures(rows))
    if title not in pairs:
        raise ValueError(f"--figure is {title!r}: expected one that the results have data for: {', '.join(pairs)}")
    return _svg(pairs[title]) + "\n"


def _cell(v):
    return "" if v is None else f"{v:.4g}" if isinstance(v, float) else str(v)


def main(argv=None):
    parser = argparse.ArgumentParser(prog="python -m convoy.report", description=__doc__.split("\n\n")[0])
    parser.add_argument("results", nargs="+")
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--figure", metavar="TITLE", help="this figure alone, as SVG: Time, Phases, Tile side, ...")
    a = parser.parse_args(argv)
    try:
        rows, facts = read(a.results)
        text = page(rows, facts) if a.figure is None else figure(rows, a.figure)
        folder = os.path.dirname(os.path.abspath(a.output))
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=folder, delete=False) as f:
            f.write(text)
        os.chmod(f.name, 0o644)
        os.replace(f.name, a.output)
    except ImportError:
        print("convoy.report: matplotlib is missing: expected it installed (pip install matplotlib)", file=sys.stderr)
        return 2
    except (OSError, ValueError) as error:
        print(f"convoy.report: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
