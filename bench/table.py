#!/usr/bin/env python3
"""Markdown tables from results files (bench/record.py makes those). bench/pictures.sh draws the pictures.

    bench/table.py RESULT.json...                 the table, on standard output
    bench/table.py --docs README.md docs/*.md     rewrites, in these files, what stands between a line
                                                  <!-- table: bench/results/NAME.json --> and <!-- end of table -->
                                                  (summary instead of table: the times alone; brief: Convoy and the
                                                  best peer, without the command; peers: every library's
                                                  ratio, files separated by commas; auto: what auto takes
                                                  against the best; line: time against size; threads: one against two;
                                                  isa: AVX2 against AVX-512)
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


def brief_table(lines):
    """Convoy's own quickest engine beside the quickest peer."""
    best, rows = bench_rows(lines), []
    for problem in unique(line["problem"] for line in lines):
        here = [line for (p, _, _), line in best.items() if p == problem]

        def quickest(weights, peer):
            found = [l for l in here if l["weights"] == weights and bool(l.get("peer")) == peer and not l.get("vendor")]
            return min(found, key=lambda l: l["median_ms"], default=None)

        own, ahead, peer = quickest("fresh", False), quickest("prepared", False), quickest("fresh", True)
        if own and peer:
            rows.append([problem, f"{number(own['median_ms'])} ({own['engine']})", number(ahead["median_ms"]) if ahead else "-",
                         f"{number(peer['median_ms'])} ({peer['engine']})", f"{peer['median_ms'] / own['median_ms']:.2g}"])
    return markdown(["problem", "Convoy, ms", "with prepared weights, ms", "best peer, ms", "times as long"], rows)


def peers_table(paths):
    """Each library of some files against Convoy's quickest fp32 engine, over the problems that both did."""
    rows = []
    for path in paths:
        result = load(os.path.join(ROOT, path))
        best = bench_rows(result["lines"])
        own = {}
        for (problem, weights, _), line in best.items():
            if weights == "fresh" and not line.get("peer") and not line.get("vendor") and line.get("math", "fp32") == "fp32":
                own[problem] = min(own.get(problem, line["median_ms"]), line["median_ms"])
        for engine in unique(name for (_, _, name), line in best.items() if line.get("peer") or line.get("vendor")):
            ratios = [line["median_ms"] / own[problem] for (problem, weights, name), line in best.items()
                      if name == engine and weights == "fresh" and problem in own]
            if ratios:
                spread = unique(number(ratio, 2) for ratio in (min(ratios), max(ratios)))
                rows.append([engine.split(" (")[0], caption(result).split(",")[0].split(";")[0], str(len(ratios)), " to ".join(spread),
                             f"[{os.path.basename(path)}](../{path})"])
    return markdown(["library", "machine", "problems", "times as long as Convoy", "results"], rows)


def phase_table(lines):
    rows = [[line["problem"], line["engine"], phase["name"], number(phase["ms"]), number(phase["bytes"] / 1e6), number(phase["flop"] / 1e9),
             f"{100 * phase['floor_share']:.0f} %"] for line in lines for phase in line.get("phases", [])]
    return markdown(["problem", "engine", "phase", "ms", "MB", "GFLOP", "of the larger floor"], rows)


def compare_table(lines):
    """The cost model's choice and, where it was looked at, tune's against the quickest of all that was timed."""
    tuned = "tuned_choice" in lines[0]
    rows = [[line["problem"], line["estimate_choice"], number(line["estimate_ms"]), line["best_choice"], number(line["best_ms"]),
             f"{line['ratio']:.2f}"] + ([line["tuned_choice"], f"{line['tuned_ratio']:.2f}"] if tuned else []) +
            [f"{line['timed']} of {line['choices']}"] for line in lines]
    text = markdown(["problem", "the cost model takes", "ms", "the quickest", "ms", "ratio"] + (["tune takes", "ratio"] if tuned else []) +
                    ["timed"], rows)
    for name, key, goal in (("The cost model", "ratio", 1.2), ("tune", "tuned_ratio", 1.05)):
        ratios = [line[key] for line in lines if key in line]
        if ratios:
            text += (f"\n\n{name}: within {goal} of the quickest on {sum(r <= goal for r in ratios)} of {len(ratios)} problems; "
                     f"worst ratio {max(ratios):.2f}.")
    return text


def verify_table(lines):
    rows = [[line["problem"], line["engine"], line["candidate"] or "-", "ok" if line["ok"] else "MISS", f"{line['worst']:.1e}", f"{line['bound']:.1e}",
             line["where"], f"{line['rel_rms_err']:.1e}", line["bits"]] for line in lines]
    return markdown(["problem", "engine", "candidate", "", "worst", "bound", "where", "rms / rms of y", "bits"], rows)


def auto_table(lines):
    """What auto takes beside the best of Convoy's engines, vendors included, and the best peer."""
    best, rows, worst = bench_rows(lines), [], {"engines": [], "peers": []}
    for problem in unique(line["problem"] for line in lines):
        here = [line for (p, weights, _), line in best.items() if p == problem and weights == "fresh"]
        own = [line for line in here if line.get("chosen")]
        engines, peers = [l for l in here if not l.get("peer")], [l for l in here if l.get("peer")]
        if not own:
            continue
        quickest, row = min(engines, key=lambda l: l["median_ms"]), own[0]
        cells = [problem, f"{row['engine']}:{row['candidate']}", number(row["median_ms"]), engine_name(quickest),
                 f"{row['median_ms'] / quickest['median_ms']:.2f}"]
        worst["engines"].append(row["median_ms"] / quickest["median_ms"])
        if peers:
            peer = min(peers, key=lambda l: l["median_ms"])
            cells += [f"{peer['engine']}, {number(peer['median_ms'])}", f"{row['median_ms'] / peer['median_ms']:.2f}"]
            worst["peers"].append(row["median_ms"] / peer["median_ms"])
        rows.append(cells + ["-"] * (7 - len(cells)))
    text = markdown(["problem", "auto takes", "ms", "best engine", "auto / best engine", "best peer, ms", "auto / best peer"], rows)
    for name, ratios in worst.items():
        if ratios:
            text += f"\n\nAt most 1.1 times the best of the {name}: {sum(r <= 1.1 for r in ratios)} of {len(ratios)} problems; worst {max(ratios):.2f}."
    return text


def size_of(problem):
    """(the problem without n, h and w; N * H * W)."""
    value = {key: int(digits) for key, digits in re.findall(r"([nchwkrs])(\d+)", problem.split("_")[0])}
    return re.sub(r"[nhw]\d+", "", problem), value.get("n", 1) * value["h"] * value.get("w", value["h"])


def line_table(lines):
    """Times against N * H * W, with the straight line that is nearest to them by relative error."""
    rows, series = [], {}
    for line in bench_rows(lines).values():
        series.setdefault(size_of(line["problem"])[0], []).append((size_of(line["problem"])[1], line))
    for points in series.values():
        points.sort(key=lambda point: point[0])
        weight = [1 / line["median_ms"] ** 2 for _, line in points]
        sums = [sum(w * f(x, line["median_ms"]) for w, (x, line) in zip(weight, points))
                for f in (lambda x, y: 1, lambda x, y: x, lambda x, y: x * x, lambda x, y: y, lambda x, y: x * y)]
        slope = (sums[0] * sums[4] - sums[1] * sums[3]) / (sums[0] * sums[2] - sums[1] ** 2)
        constant = (sums[3] - slope * sums[1]) / sums[0]
        for x, line in points:
            there = constant + slope * x
            rows.append([line["problem"], f"{line['engine']}:{line['candidate']}", number(x / 1e6), number(line["median_ms"]), number(there),
                         f"{100 * (line['median_ms'] / there - 1):+.0f} %"])
    return markdown(["problem", "engine", "N * H * W, millions", "ms", "straight line, ms", "off"], rows)


def pairs_table(lines, key, names):
    """The same problems with two values of a key: times, and the first one's over the second one's."""
    rows = []
    for problem in unique(line["problem"] for line in lines):
        best = {}
        for line in lines:
            if line["problem"] == problem and (line[key] not in best or line["median_ms"] < best[line[key]]):
                best[line[key]] = line["median_ms"]
        if all(value in best for value in names):
            first, second = (best[value] for value in names)
            rows.append([problem, number(first), number(second), f"{first / second:.2f}"])
    return markdown(["problem"] + [f"{text}, ms" for text in names.values()] + ["ratio"], rows)


def table(path, kind="table"):
    if kind == "peers":
        return peers_table(path.split(",")) + "\n"
    result = load(path)
    lines = result["lines"]
    if not lines:
        sys.exit(f"{path}: it has no lines")
    if kind == "brief":
        return caption(result).split("; `")[0] + "\n\n" + brief_table(lines) + "\n"
    if kind in ("auto", "line"):
        body = {"auto": auto_table, "line": line_table}[kind](lines)
    elif kind == "threads":
        body = pairs_table(lines, "threads", {1: "one thread", 2: "two threads"})
    elif kind == "isa":
        body = pairs_table(lines, "isa", {"avx2": "AVX2", "avx512": "AVX-512"})
    elif "best_choice" in lines[0]:
        body = compare_table(lines)
    elif "bound" in lines[0]:
        body = verify_table(lines)
    else:
        body = bench_table(lines)
        if kind == "summary":
            body = body.split("\n\n")[0]
        elif any("phases" in line for line in lines):
            body += "\n\n" + phase_table(lines)
    return caption(result) + "\n\n" + body + "\n"


def update(path, check):
    """Replaces a document's tables; true when it was, or would be, changed."""
    with open(path, encoding="utf-8") as file:
        old = file.read()
    pattern = re.compile(r"(<!-- (table|summary|brief|peers|auto|line|threads|isa): (\S+) -->\n).*?(<!-- end of table -->)", re.S)
    new = pattern.sub(lambda m: m[1] + "\n" + table(m[3] if m[2] == "peers" else os.path.join(ROOT, m[3]), m[2]) + "\n" + m[4], old)
    if new != old and not check:
        with open(path, "w", encoding="utf-8") as file:
            file.write(new)
    return new != old


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
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
        print(table(path))


if __name__ == "__main__":
    try:
        main()
    except BrokenPipeError:  # whoever read has seen enough
        sys.stderr.close()
        sys.exit(1)
