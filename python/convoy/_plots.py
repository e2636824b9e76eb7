"""The report's figures. Each is drawn for a page's width and again, narrower, for a phone's; letters keep their size."""

import io
import math
import textwrap

from . import _results as results

# Okabe and Ito's colours, which people with any kind of colour vision tell apart; other people's libraries are grey.
_COLOURS = {"fft": "#0072B2", "cuda_fft": "#0072B2", "direct": "#D55E00", "cuda_igemm": "#D55E00", "match": "#AA4499",
            "cufft": "#009E73", "onednn": "#009E73", "cudnn": "#B8860B"}
_GREYS, _MARKS = ("#222222", "#666666", "#8c8c8c", "#444444", "#a6a6a6"), "osD^vP*X"


class Page:
    """What all figures of one report share: matplotlib, the rows, and a look for every series."""

    def __init__(self, rows, narrow=False):
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt

        plt.rcParams.update({"svg.fonttype": "none", "figure.constrained_layout.use": True, "font.size": 8, "axes.titlesize": 9,
                             "axes.titleweight": "bold", "axes.titlelocation": "left", "axes.spines.top": False,
                             "axes.spines.right": False, "axes.grid": True, "grid.color": "#dddddd", "grid.linewidth": 0.6,
                             "axes.axisbelow": True, "legend.frameon": False, "legend.fontsize": 8})
        self.plt, self.rows, self.narrow, self.looks = plt, rows, narrow, {}
        self.width = 4.2 if narrow else 9
        for row in results.timed(rows) + [r for r in rows if r.get("bound")]:
            self.look(results.series_of(row), bool(row.get("peer")))

    def look(self, name, peer=False):
        """Colour and marker of a series; one with prepared weights has its engine's, hollow."""
        if name not in self.looks:
            base = name.split(",")[0].split(":")[0] if not peer else name.removesuffix(", prepared")
            taken = [n for n in self.looks if "prepared" not in n]
            if base != name and base in self.looks:
                look = dict(self.looks[base])
            else:
                greys = sum(self.looks[n]["peer"] for n in taken)
                colour = _GREYS[greys % len(_GREYS)] if peer else _COLOURS.get(base, "#56B4E9")
                look = dict(color=colour, marker=_MARKS[len(taken) % len(_MARKS)], peer=peer)
            look["hollow"] = name.endswith(", prepared")
            self.looks[name] = look
        return self.looks[name]

    def style(self, name, size=5):
        look = self.look(name)
        return dict(color=look["color"], marker=look["marker"], ms=size, mec=look["color"],
                    mfc="white" if look["hollow"] else look["color"])

    def panels(self, count, height, columns=1, **more):
        """A grid of axes, one column on a phone. height: inches of every panel, or of each."""
        columns = 1 if self.narrow else min(columns, count)
        lines = -(-count // columns)
        heights = height[columns - 1::columns] + height[len(height) // columns * columns:][-1:] if isinstance(height, list) else [height] * lines
        fig, axes = self.plt.subplots(lines, columns, figsize=(self.width, sum(heights)), height_ratios=heights, squeeze=False, **more)
        for ax in axes.flat[count:]:
            ax.set_visible(False)
        return fig, list(axes.flat[:count])

    def legend(self, fig, axes, extra=()):
        """One legend above all panels, without doubles."""
        seen = {}
        for ax in axes:
            for handle, label in zip(*ax.get_legend_handles_labels()):
                seen.setdefault(label, handle)
        for handle, label in extra:
            seen.setdefault(label, handle)
        names = list(seen)
        if self.narrow:
            names = ["\n".join(textwrap.wrap(n, 26)) for n in names]
        fig.legend(seen.values(), names, loc="outside upper left", ncols=(2 if self.narrow else 4), handletextpad=0.4,
                   columnspacing=1.2)


def _number(value, _=None):
    """Tick labels and values in figures as people write them: 0.05, 1, 200, 10,000."""
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value >= 1e-3 else f"{value:.0e}".replace("e-0", "e-")


def _log_ticks(axis, low, high, most=7):
    """A logarithmic axis that covers low..high with ticks as close as `most` of them allow."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    span = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 2)
    for steps in ((1, 1.5, 2, 3, 5, 7), (1, 2, 5), (1, 3), (1,)):
        ticks = [s * 10.0**e for e in span for s in steps if low <= s * 10.0**e <= high]
        if len(ticks) <= most:
            break
    axis.set_major_locator(FixedLocator(ticks[:: -(-len(ticks) // most)] if len(ticks) > most else ticks))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(_number))


def _log(ax, which, values, room=1.3, most=7):
    low, high = min(values) / room, max(values) * room
    getattr(ax, f"set_{which}scale")("log")
    getattr(ax, f"set_{which}lim")(low, high)
    _log_ticks(getattr(ax, f"{which}axis"), low, high, most)


def _dots(page, rows, value, xlabel, ratio=None):
    """A line a problem, a mark a series. ratio(problem's rows) gives the words at the right edge. Problems that are only there as
    points of a curve are left to that."""
    best = {key: row for key, row in results.best_rows(rows).items() if value(row)}
    curves = results.on_curves_only(best)
    best = {(p, n): row for (p, n), row in best.items() if p not in curves}
    if not best:
        return None
    problems = list(dict.fromkeys(p for p, _ in best))
    fig, (ax,) = page.panels(1, 0.27 * len(problems) + 1.25)
    for name in dict.fromkeys(n for _, n in best):
        at = [(value(row), problems.index(p)) for (p, n), row in best.items() if n == name]
        ax.plot([x for x, _ in at], [y for _, y in at], ls="none", label=name, zorder=3, **page.style(name))
    for y, problem in enumerate(problems):
        here = [value(row) for (p, _), row in best.items() if p == problem]
        ax.plot([min(here), max(here)], [y, y], color="#bbbbbb", lw=1, zorder=2)
        text = ratio({n: row for (p, n), row in best.items() if p == problem}) if ratio else None
        if text:
            ax.text(1.01, y, text, transform=ax.get_yaxis_transform(), va="center", fontsize=8)
    _log(ax, "x", [value(row) for row in best.values()], most=5 if page.narrow else 8)
    ax.set_yticks(range(len(problems)), [p if not page.narrow else "\n".join(textwrap.wrap(p.replace("_", " _"), 18)).replace(" _", "_")
                                         for p in problems])
    ax.set_ylim(len(problems) - 0.5, -0.5)
    ax.set_xlabel("\n".join(textwrap.wrap(xlabel, 44)) if page.narrow else xlabel)
    page.legend(fig, [ax])
    return fig


def time(page):
    def ratio(here):
        fresh = {n: r["median_ms"] for n, r in here.items() if "prepared" not in n}
        ours = [ms for n, ms in fresh.items() if not page.look(n)["peer"] and not here[n].get("vendor")]
        theirs = [ms for n, ms in fresh.items() if page.look(n)["peer"]]
        return f"{min(theirs) / min(ours):.2g}\u00d7" if ours and theirs else None

    peers = any(r.get("peer") for r in page.rows)
    return _dots(page, results.timed(page.rows), lambda r: r["median_ms"],
                 "median time, ms" + ("; right: best peer / best of Convoy's own" if peers else ""), ratio)


def error(page):
    def ratio(here):
        chain = [r["rel_rms_err"] for n, r in here.items() if results.is_chain(n)]
        ours = [r["rel_rms_err"] for n, r in here.items() if results.is_transform(n)]
        return f"{min(chain) / min(ours):.2g}\u00d7" if chain and ours else None

    rows = [dict(r, median_ms=r.get("median_ms") or 1) for r in page.rows if r.get("rel_rms_err")]
    return _dots(page, rows, lambda r: r["rel_rms_err"], "rms error against FP64 / rms of y; right: serial chain / transform", ratio)


def workspace(page):
    return _dots(page, results.timed(page.rows), lambda r: r.get("workspace_bytes", 0) / 2**20, "workspace, MiB")


def _curves(page, families, xlabel, ylabel, log_x=True, after=None):
    if not families:
        return None
    fig, axes = page.panels(len(families), 2.9, 2)
    for ax, (family, series) in zip(axes, families.items()):
        for name, points in series.items():
            ax.plot([x for x, _ in points], [y for _, y in points], lw=1.3, ls=":" if page.look(name)["hollow"] else "-", label=name,
                    **page.style(name, 4))
        xs = sorted({x for p in series.values() for x, _ in p})
        _log(ax, "y", [y for p in series.values() for _, y in p])
        if log_x:
            _log(ax, "x", xs, 1.1, 6)
        ax.set_title(family)
        ax.set_xlabel(xlabel)
        ax.set_ylabel(ylabel)
        if after:
            after(ax, series, xs)
    page.legend(fig, axes)
    return fig


def kernel_size(page):
    def ticks(ax, series, xs):
        kept = [x for i, x in enumerate(xs) if i == 0 or i == len(xs) - 1 or x in (5, 8, 9, 11, 16, 17, 31, 32)]
        ax.set_xticks(kept, [str(x) for x in kept])
        at = results.crossover(series)
        if at is not None:
            words = f"transforms ahead\nfrom R = {at}" if at > xs[0] else "transforms ahead\nat every size"
            ax.axvline(at, color="#222222", ls="--", lw=1)
            ax.annotate(words, (at, 0.98), xycoords=("data", "axes fraction"), xytext=(4, 0), textcoords="offset points", va="top")

    families = results.against(results.timed(page.rows), results.by_kernel, lambda r: r["median_ms"])
    return _curves(page, families, "kernel size R = S", "median time, ms", after=ticks)


def kernel_error(page):
    families = results.against(results.timed(page.rows), results.by_kernel, lambda r: None if r.get("peer") else r.get("rel_rms_err"))
    families = {f: {n: p for n, p in s.items() if "prepared" not in n} for f, s in families.items()}
    return _curves(page, {f: s for f, s in families.items() if len(s) > 1}, "kernel size R = S", "rms error / rms of y",
                   after=lambda ax, series, xs: ax.set_xticks([xs[0], 8, 16, 32, xs[-1]], [str(v) for v in (xs[0], 8, 16, 32, xs[-1])]))


def _scaling(page, place, xlabel):
    """Time over what is proportional to it, with the straight line that is nearest by relative error."""
    import numpy as np

    def line(ax, series, xs):
        for name, points in series.items():
            x, y = np.array(points).T
            slope, constant = np.polyfit(x, y, 1, w=1 / y)
            dense = np.geomspace(x[0], x[-1], 50)
            ax.plot(dense, slope * dense + constant, color=page.look(name)["color"], lw=1, ls="--", label="nearest straight line", zorder=1)
            off = abs(y / (slope * x + constant) - 1).max()
            ax.text(0.98, 0.05, f"{name}: within {100 * off:.0f} % of the line", transform=ax.transAxes, ha="right")

    return _curves(page, results.against(results.timed(page.rows), place, lambda r: r["median_ms"]), xlabel, "median time, ms", after=line)


def batch(page):
    return _scaling(page, results.by_batch, "batch N")


def image_size(page):
    return _scaling(page, results.by_image, "image H W, million pixels")


def _tile_axes(ax, here):
    """Fitted to the candidates with tiles, those ten times slower than the best left out."""
    from matplotlib.ticker import MaxNLocator

    tiled = [r for r in here if r["side"]]
    fastest = min(r["ms"] for r in tiled)
    _log(ax, "y", [fastest, min(max(r["ms"] for r in tiled), 10 * fastest)], 1.35, 5)
    sides = [r["side"] for r in tiled]
    ax.set_xlim(min(sides) - 4, max(sides) + 4)
    ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))


def _untiled(page, ax, name, rows, beyond):
    """An engine without tiles: a line across, or, after `beyond` lines of such words, a word about what lies beyond the edge. True then."""
    best, (low, high) = min(rows, key=lambda r: r["ms"]), ax.get_ylim()
    if low < best["ms"] < high:
        ax.axhline(best["ms"], color=page.look(name)["color"], ls="-.", lw=1, label=f"{name}, its best")
    else:
        words = f"{name}: {_number(best['ms'])} ms" + (", quickest" if best["quickest"] else "") + (", chosen" if best["chosen"] else "")
        ax.text(0.98, 0.97 - 0.09 * beyond, words, transform=ax.transAxes, ha="right", va="top", fontsize=7,
                color=page.look(name)["color"])
    return not low < best["ms"] < high


def tile_side(page):
    sweeps = results.sweeps(page.rows)
    if not sweeps:
        return None
    fig, axes = page.panels(len(sweeps), 2.5, 3 if len(sweeps) > 4 else 2)
    for ax, (problem, here) in zip(axes, sweeps):
        for name in dict.fromkeys(r["series"] for r in here if r["side"]):
            own = sorted((r["side"], r["ms"]) for r in here if r["series"] == name and r["side"])
            best = {side: min(ms for s, ms in own if s == side) for side, _ in own}
            ax.plot(list(best), list(best.values()), color=page.look(name)["color"], lw=1, zorder=2)
            ax.plot([side for side, _ in own], [ms for _, ms in own], ls="none", label=name, **page.style(name, 3))
        _tile_axes(ax, here)
        beyond = 0
        for name in dict.fromkeys(r["series"] for r in here if not r["side"]):
            beyond += _untiled(page, ax, name, [r for r in here if r["series"] == name and not r["side"]], beyond)
        low, high = ax.get_ylim()
        for what, label, style in (("quickest", "quickest", dict(marker="o", ms=10, mfc="none", mec="#222222", mew=1.2)),
                                   ("tuned", "taken by tune", dict(marker="d", ms=8, mfc="none", mec="#AA4499", mew=1.4)),
                                   ("chosen", "chosen by the cost model", dict(marker="*", ms=11, color="#F0C000", mec="#222222", mew=0.8))):
            at = [(r["side"] or ax.get_xlim()[1], r["ms"]) for r in here if r[what] and low < r["ms"] < high]
            if at:
                ax.plot(*zip(*at), ls="none", label=label, zorder=4, clip_on=False, **style)
        ax.set_title(problem, fontsize=8)
        ax.set_xlabel("tile side T (geometric mean)")
        ax.set_ylabel("ms")
    page.legend(fig, axes)
    return fig


def _floors(row, phase):
    """A phase's shares of the two floors: time at the measured copy rate, and at the measured rate of multiply-adds, over its own."""
    if not row.get("copy_gb_per_s") or not row.get("fma_gflop_per_s"):
        return phase.get("floor_share", 0), 0
    return phase["bytes"] / row["copy_gb_per_s"] / 1e6 / phase["ms"], phase["flop"] / row["fma_gflop_per_s"] / 1e6 / phase["ms"]


def phases(page):
    shown = [r for r in results.best_rows(results.timed(page.rows)).values() if sum(p["ms"] > 0 for p in r.get("phases") or ()) > 1]
    if not shown:
        return None
    shown.sort(key=lambda r: len(r["phases"]))
    furthest = max(share for r in shown for p in r["phases"] if p["ms"] > 0 for share in _floors(r, p))
    fig, axes = page.panels(len(shown), [0.75 + 0.24 * len(r["phases"]) for r in shown], 2)
    for ax, row in zip(axes, shown):
        parts = [p for p in row["phases"] if p["ms"] > 0]
        whole = sum(p["ms"] for p in parts)
        shares = [_floors(row, p) for p in parts]
        places = range(len(parts))
        ax.barh([y - 0.19 for y in places], [100 * s[0] for s in shares], 0.34, color="#0072B2", label="memory traffic")
        ax.barh([y + 0.19 for y in places], [100 * s[1] for s in shares], 0.34, color="#E69F00", label="arithmetic")
        for y, part, share in zip(places, parts, shares):
            ax.text(100 * max(share) + 2.5, y, f"{_number(part['ms'])} ms, {100 * part['ms'] / whole:.0f} %", va="center", fontsize=7,
                    bbox=dict(fc="white", ec="none", pad=0.6))
        ax.axvline(100, color="#222222", lw=0.8, zorder=0)
        ax.set_yticks(places, [p["name"] for p in parts])
        ax.set_ylim(len(parts) - 0.4, -0.6)
        ax.set_xlim(0, 100 * max(1, furthest) + 55)
        ax.set_xticks(range(0, 101 if page.narrow else 151, 50))
        ax.set_title(f"{row['problem']}  {results.series_of(row)}", fontsize=8)
        ax.set_xlabel("floor / time taken, %")
    page.legend(fig, axes)
    return fig


def roofline(page):
    """Phases that count both bytes and operations, and direct engines' runs, under the machine's measured ceilings."""
    points, ceilings = {}, []
    for row in results.best_rows(results.timed(page.rows)).values():
        if not row.get("copy_gb_per_s") or not row.get("fma_gflop_per_s"):
            continue
        here = [(p["name"], p["flop"], p["bytes"], p["ms"]) for p in row.get("phases") or () if p["flop"] and p["bytes"] > 1e4]
        s = results.sizes(row["problem"])
        if results.is_chain(row.get("engine", "?")) and row.get("direct_gflop_per_s") and s:
            flop = row["direct_gflop_per_s"] * row["median_ms"] * 1e6
            depth = s["c"] if not s["rest"].endswith("_gc") else 1
            out = flop / (2 * depth * s["r"] * s["s"])
            here = [(row.get("engine", "?"), flop, 4 * (s["n"] * s["c"] * s["h"] * s["w"] + s["k"] * depth * s["r"] * s["s"] + out), row["median_ms"])]
        for name, flop, moved, ms in here:
            points.setdefault(f"{row.get('engine', '?')}: {name}" if name != row.get("engine", "?") else name, []).append((flop / moved, flop / ms / 1e6))
        if here:
            ceilings.append((row["copy_gb_per_s"], row["fma_gflop_per_s"]))
    if not points:
        return None
    copy, peak = (max(c) for c in zip(*ceilings))
    fig, (ax,) = page.panels(1, 3.8 if not page.narrow else 4.2)
    xs = [x for p in points.values() for x, _ in p] + [peak / copy]
    ys = [y for p in points.values() for _, y in p] + [peak]
    _log(ax, "x", xs, 2)
    _log(ax, "y", ys, 1.7)
    low, high = ax.get_xlim()
    ax.plot([low, peak / copy, high], [low * copy, peak, peak], color="#222222", lw=1.2)
    ax.text(high, peak * 1.05, f"FMA pipes, measured: {peak:,.0f} GFLOP/s ", ha="right", va="bottom")
    ax.text(0.02, 0.97, f"slope: copy, measured: {copy:,.0f} GB/s", transform=ax.transAxes, va="top")
    palette = iter(("#0072B2", "#56B4E9", "#009E73", "#D55E00", "#AA4499", "#B8860B", "#666666", "#222222", "#E69F00") * 4)
    for i, (name, at) in enumerate(points.items()):
        ax.plot([x for x, _ in at], [y for _, y in at], _MARKS[i % len(_MARKS)], ms=6, color=next(palette), label=name)
    ax.set_xlabel("operations a byte that must be moved, FLOP/B")
    ax.set_ylabel("GFLOP/s")
    page.legend(fig, [ax])
    return fig


# What a report shows, in its order: title, a sentence about it, and the function that draws it or finds nothing to draw.
FIGURES = (
    ("Time", "Less is better. Libraries that Convoy is measured against are grey; hollow marks had their weights transformed ahead.", time),
    ("Kernel size", "One size of image and channels, kernels from small to large.", kernel_size),
    ("Tile side", "Each mark is a candidate of the tuner; the line joins the best of each side. Candidates ten times slower than the best "
     "are cut off.", tile_side),
    ("Phases", "How much of each phase's time its two floors explain: bytes that it must move at the rate of a copy, operations at the rate "
     "of the FMA pipes. Above 100 %: data came from a cache, or tensor cores did the sums.", phases),
    ("Roofline", "Phases, and runs of direct sums, under the highest ceilings measured in these runs. A direct sum's operations include the taps "
     "that lie in the padding, which cost nothing.", roofline),
    ("Batch", "", batch),
    ("Image size", "", image_size),
    ("Error", "direct and cuda_igemm compute the serial FP32 chain: their error is that of a plain loop.", error),
    ("Error against kernel size", "", kernel_error),
    ("Workspace", "Bytes that the caller lends to a call.", workspace),
)


def svg(fig, salt):
    """A figure as SVG text, the same each time; salt keeps the ids of two figures on a page apart."""
    import matplotlib

    out = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": salt}):
        fig.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    text = out.getvalue()
    return text[text.index("<svg"):]
