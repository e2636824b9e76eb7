#!/usr/bin/env python3
"""Markdown tables and plots from results files (bench/record.py makes those).

    bench/table.py RESULT.json...                 the table, on standard output
    bench/table.py --plot OUT.svg RESULT.json     a bar chart of a bench run (needs matplotlib)
    bench/table.py --docs README.md docs/*.md     rewrites, in these files, what stands between a line
                                                  <!-- table: bench/results/NAME.json --> and <!-- end of table -->
                                                  (summary instead of table: the times alone)
    bench/table.py --check --docs FILE...         exit code 1 when that would change a file"""
import argparse
import json
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def number(value, digits=3):
    """Significant digits without exponents: 0.0662, 25.1, 7832."""
    if value is None:
        return "-"
    if value == 0:
        return "0"
    text = f"{value:.{digits}g}"
    return f"{float(text):.0f}" if "e" in text and abs(value) >= 1 else f"{float(text):f}".rstrip("0") if "e" in text else text


def unique(items):
    return list(dict.fromkeys(items))


def caption(result):
    machine = result["machine"]
    where = machine.get("gpu") or f"{machine.get('cpu', '?')}, {machine.get('isa', '?')}, {machine.get('threads', '?')} threads"
    return f"{where}; {result['date']}; `{result['command']}`"


def markdown(head, rows):
    out = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(out + ["| " + " | ".join(row) + " |" for row in rows])


def engine_name(line):
    return line["engine"] + (" (peer)" if line.get("peer") else " (vendor)" if line.get("vendor") else "")


def bench_rows(lines):
    """The quickest line for each problem, kind of weights and engine."""
    best = {}
    for line in lines:
        key = (line["problem"], line["weights"], engine_name(line))
        if key not in best or line["median_ms"] < best[key]["median_ms"]:
            best[key] = line
    return best


def bench_table(lines):
    best = bench_rows(lines)
    engines = unique(engine_name(line) for line in lines)
    peers = [name for name in engines if name.endswith("(peer)")]
    rows = []
    for problem, weights in unique((line["problem"], line["weights"]) for line in lines):
        row = [problem, weights]
        here = [line for line in best.values() if (line["problem"], line["weights"]) == (problem, weights)]
        ours = [line for line in here if not line.get("peer") and not line.get("vendor")]
        theirs = [line for line in here if line.get("peer")]
        if not ours:
            continue
        quickest = min(line["median_ms"] for line in here)
        for name in engines:
            line = best.get((problem, weights, name))
            text = number(line["median_ms"]) if line else "-"
            row.append(f"**{text}**" if line and line["median_ms"] == quickest else text)
        if peers:
            row.append(number(min(l["median_ms"] for l in ours) / min(l["median_ms"] for l in theirs), 2) if theirs else "-")
        rows.append(row)
    head = ["problem", "weights"] + [f"{name}, ms" for name in engines] + (["best of our own / best peer"] if peers else [])
    return markdown(head, rows) + "\n\n" + error_table(best)


def error_table(best):
    own = [line for line in best.values() if line.get("rel_rms_err") is not None and line["weights"] == "fresh"]
    rows = [[line["problem"], engine_name(line), line.get("candidate") or "-", number(line["direct_gflop_per_s"]),
             f"{line['max_abs_err']:.1e}", f"{line['rel_rms_err']:.1e}",
             f"{line['workspace_bytes'] / 2**20:.1f} MiB" if "workspace_bytes" in line else "-"] for line in own]
    return markdown(["problem", "engine", "candidate", "GFLOP/s of the direct sum", "worst error", "rms error / rms of y", "workspace"], rows)


def phase_table(lines):
    rows = [[line["problem"], line["engine"], phase["name"], number(phase["ms"]), number(phase["bytes"] / 1e6), number(phase["flop"] / 1e9),
             f"{100 * phase['floor_share']:.0f} %"] for line in lines for phase in line.get("phases", [])]
    return markdown(["problem", "engine", "phase", "ms", "MB", "GFLOP", "of the larger floor"], rows)


def compare_table(lines):
    rows = [[line["problem"], line["estimate_choice"], number(line["estimate_ms"]), line["best_choice"], number(line["best_ms"]),
             f"{line['ratio']:.2f}", f"{line['timed']} of {line['choices']}"] for line in lines]
    close = sum(line["ratio"] <= 1.3 for line in lines)
    return (markdown(["problem", "the cost model takes", "ms", "the quickest", "ms", "ratio", "timed"], rows) +
            f"\n\nWithin 1.3 of the quickest: {close} of {len(lines)} problems; worst ratio {max(line['ratio'] for line in lines):.2f}.")


def verify_table(lines):
    rows = [[line["problem"], line["engine"], line["candidate"] or "-", "ok" if line["ok"] else "MISS", f"{line['worst']:.1e}", f"{line['bound']:.1e}",
             line["where"], f"{line['rel_rms_err']:.1e}", line["bits"]] for line in lines]
    return markdown(["problem", "engine", "candidate", "", "worst", "bound", "where", "rms / rms of y", "bits"], rows)


def table(path, summary=False):
    result = load(path)
    lines = result["lines"]
    if not lines:
        sys.exit(f"{path}: it has no lines")
    if "best_choice" in lines[0]:
        body = compare_table(lines)
    elif "bound" in lines[0]:
        body = verify_table(lines)
    else:
        body = bench_table(lines)
        if summary:
            body = body.split("\n\n")[0]
        elif any("phases" in line for line in lines):
            body += "\n\n" + phase_table(lines)
    return caption(result) + "\n\n" + body + "\n"


def plot(path, out):
    try:
        import matplotlib  # pylint: disable=import-outside-toplevel
        matplotlib.use("Agg")
        from matplotlib import pyplot  # pylint: disable=import-outside-toplevel
    except ImportError:
        sys.exit("bench/table.py: --plot needs matplotlib (Debian: python3-matplotlib)")
    result = load(path)
    best = bench_rows(result["lines"])
    engines = unique(engine for (_, weights, engine) in best if weights == "fresh")
    problems = unique(problem for (problem, weights, _) in best if weights == "fresh")
    figure, axes = pyplot.subplots(figsize=(1.5 + 1.4 * len(problems), 4.2))
    width = 0.8 / len(engines)
    for i, engine in enumerate(engines):
        at = [(p, best[(problem, "fresh", engine)]["median_ms"]) for p, problem in enumerate(problems) if (problem, "fresh", engine) in best]
        axes.bar([p + (i - (len(engines) - 1) / 2) * width for p, _ in at], [ms for _, ms in at], width, label=engine)
    axes.set_yscale("log")
    axes.set_ylabel("median, ms (less is better)")
    axes.set_xticks(range(len(problems)), problems, rotation=20, ha="right", fontsize=8)
    axes.set_title(caption(result).replace("`", ""), fontsize=7)
    axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(out, metadata={"Date": None} if out.endswith(".svg") else None)


def update(path, check):
    """Replaces a document's tables; true when it was, or would be, changed."""
    with open(path, encoding="utf-8") as file:
        old = file.read()
    pattern = re.compile(r"(<!-- (table|summary): (\S+) -->\n).*?(<!-- end of table -->)", re.S)
    new = pattern.sub(lambda m: m[1] + "\n" + table(os.path.join(ROOT, m[3]), m[2] == "summary") + "\n" + m[4], old)
    if new != old and not check:
        with open(path, "w", encoding="utf-8") as file:
            file.write(new)
    return new != old


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plot", metavar="OUT")
    parser.add_argument("--docs", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("files", nargs="+")
    options = parser.parse_args()
    if options.docs:
        changed = [path for path in options.files if update(path, options.check)]
        for path in changed:
            print(f"{path}: {'its tables differ from the results' if options.check else 'rewritten'}")
        sys.exit(1 if options.check and changed else 0)
    for path in options.files:
        if options.plot:
            plot(path, options.plot)
        else:
            print(table(path))


if __name__ == "__main__":
    try:
        main()
    except BrokenPipeError:  # whoever read has seen enough
        sys.stderr.close()
        sys.exit(1)
