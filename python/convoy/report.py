"""python -m convoy.report RESULTS ... -o report.html: one self-contained page of plots from lines of the command's --json.

RESULTS are files of JSON lines (bench, tune, tune --compare, verify), or bench/results files (an object whose "lines" are such
lines). What they hold decides what is drawn: times; time against kernel size with the crossover; time against tile side with the
chosen one marked (tune --compare, bench --sweep); phases against their floors and a roofline (bench --phases); scaling with batch
and image; errors beside the serial chain's; workspace. Needs matplotlib."""

import argparse
import html
import os
import sys
import tempfile

from . import _plots as plots
from . import _results as results

_STYLE = """body{font:16px/1.5 system-ui,sans-serif;margin:0 auto;max-width:60rem;padding:1rem;color:#222;background:#fff}
h1{font-size:1.6rem;margin:.5rem 0}h2{font-size:1.2rem;margin:2rem 0 .2rem}p{margin:.3rem 0}figure{margin:.5rem 0}
svg{width:100%;height:auto;display:block}.narrow{display:none}nav a{margin-right:.8rem;white-space:nowrap}
@media(max-width:600px){.wide{display:none}.narrow{display:block}}
table{border-collapse:collapse;font-size:.8rem}td,th{border:1px solid #ccc;padding:.15rem .45rem;text-align:right;white-space:nowrap}
td:nth-child(-n+3),th:nth-child(-n+3){text-align:left}.scroll{overflow-x:auto}code{overflow-wrap:anywhere;font-size:.85em}
summary{cursor:pointer;margin:1rem 0 .5rem}"""

_COLUMNS = (("problem", "problem"), ("engine", "engine"), ("candidate", "candidate"), ("median_ms", "median, ms"), ("p10_ms", "p10, ms"),
            ("p90_ms", "p90, ms"), ("direct_gflop_per_s", "GFLOP/s of the direct sum"), ("rel_rms_err", "rms error / rms of y"),
            ("max_abs_err", "worst error"), ("workspace_bytes", "workspace, bytes"))


def page(rows, facts):
    """The report as HTML text."""
    wide, narrow = plots.Page(rows), plots.Page(rows, narrow=True)
    parts, links = [], []
    for title, words, draw in plots.FIGURES:
        drawn = []
        for kind, where in (("wide", wide), ("narrow", narrow)):
            fig = draw(where)
            if fig is not None:
                drawn.append(f"<div class={kind}>{plots.svg(fig, kind + title)}</div>")
                where.plt.close(fig)
        if drawn:
            anchor = title.lower().replace(" ", "-")
            links.append(f"<a href='#{anchor}'>{html.escape(title)}</a>")
            parts.append(f"<h2 id='{anchor}'>{html.escape(title)}</h2><p>{html.escape(words)}</p><figure>{''.join(drawn)}</figure>")
    about = "".join(f"<p>{html.escape(', '.join(str(f[k]) for k in ('machine', 'date', 'file') if f.get(k)))}</p>"
                    + (f"<details><summary>Command</summary><code>{html.escape(str(f['command']))}</code></details>" if f.get("command") else "")
                    for f in facts)
    return ("<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width,initial-scale=1'>"
            f"<title>Convoy: results</title><style>{_STYLE}</style><h1>Convoy: results</h1>{about}<nav>{' '.join(links)}</nav>"
            f"{''.join(parts)}{_table(results.timed(rows))}</html>\n")


def _table(rows):
    if not rows:
        return ""
    body = "".join("<tr>" + "".join(f"<td>{html.escape(_cell(results.series_of(r) if key == 'engine' else r.get(key)))}</td>"
                                    for key, _ in _COLUMNS) + "</tr>" for r in rows)
    head = "".join(f"<th>{name}</th>" for _, name in _COLUMNS)
    return f"<details><summary>All {len(rows)} lines</summary><div class=scroll><table><tr>{head}</tr>{body}</table></div></details>"


def figure(rows, title, narrow=False):
    """One figure as SVG text."""
    where = plots.Page(rows, narrow)
    for name, _, draw in plots.FIGURES:
        fig = draw(where) if name == title else None
        if fig is not None:
            return plots.svg(fig, title) + "\n"
    drawn = [name for name, _, draw in plots.FIGURES if draw(where) is not None]
    raise ValueError(f"--figure is {title!r}: expected one that the results have data for: {', '.join(drawn)}")


def _cell(v):
    return "" if v is None else f"{v:.4g}" if isinstance(v, float) else str(v)


def _write(text, path):
    """A file is replaced as a whole or left as it is; what is no plain file, such as /dev/stdout, is written to."""
    if os.path.islink(path) or os.path.exists(path) and not os.path.isfile(path):
        with open(path, "w", encoding="utf-8", errors="xmlcharrefreplace") as f:
            f.write(text)
        return
    folder = os.path.dirname(os.path.abspath(path))
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", errors="xmlcharrefreplace", dir=folder, delete=False) as f:
        try:
            f.write(text)
            f.flush()
            os.chmod(f.name, 0o644)
            os.replace(f.name, path)
        except BaseException:
            os.unlink(f.name)
            raise


def main(argv=None):
    parser = argparse.ArgumentParser(prog="python -m convoy.report", description=__doc__.split("\n\n")[0])
    parser.add_argument("results", nargs="+")
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--figure", metavar="TITLE", help="this figure alone, as SVG: " + ", ".join(f[0] for f in plots.FIGURES))
    a = parser.parse_args(argv)
    try:
        rows, facts = results.read(a.results)
        text = page(rows, facts) if a.figure is None else figure(rows, a.figure)
        _write(text, a.output)
    except ImportError:
        print("convoy.report: matplotlib is missing: expected it installed (pip install matplotlib)", file=sys.stderr)
        return 2
    except (OSError, ValueError) as error:
        print(f"convoy.report: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
