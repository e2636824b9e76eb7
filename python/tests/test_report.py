import json
import re

import pytest

pytest.importorskip("matplotlib")

from convoy import _plots, _results as results, report  # noqa: E402


def _lines():
    for r in (4, 8, 16):
        for engine, ms in (("direct", r * r / 10), ("fft", 5.0)):
            yield dict(problem=f"n4c64h128k64r{r}", engine=engine, candidate="ty32tx32" if engine == "fft" else "", median_ms=ms,
                       p10_ms=ms, p90_ms=ms, direct_gflop_per_s=100.0, rel_rms_err=2e-7, workspace_bytes=1 << 20, chosen=engine == "fft",
                       phases=[dict(name="forward", ms=1.0, floor_share=0.6), dict(name="product", ms=2.0, floor_share=0.7)])
    for side in (20, 24, 48, 64):
        yield dict(problem="n4c64h128k64r8", engine="fft", candidate=f"ty{side}tx{side}", median_ms=4.0 + side / 10, chosen=False)
    for n in (1, 2):
        yield dict(problem=f"n{n}c64h128k64r8", engine="fft", candidate="ty32tx32", median_ms=1.3 * n, copy_gb_per_s=30, fma_gflop_per_s=200,
                   phases=[dict(name=name, ms=0.5 * n, bytes=1e6, flop=1e8, floor_share=0.5) for name in ("forward", "product")])
    yield dict(problem="n4c64h128k64r16", engine="a library", peer=True, weights="fresh", median_ms=9.0, rel_rms_err=1e-6)
    choices = [dict(choice=f"fft:ty{t}tx{t}", predicted_ms=1.0, ms=2.0 + abs(t - 48) / 10) for t in (16, 24, 32, 48, 64, 96)]
    yield dict(problem="n1c32h128k32r15", estimate_choice="fft:ty32tx32", best_choice="fft:ty48tx48", tuned_choice="fft:ty48tx48",
               all=choices + [dict(choice="direct", predicted_ms=60.0, ms=70.0)])
    yield dict(problem="n1c2h9k2r3", engine="direct", ok=True, worst=1e-7, bound=1e-6, rel_rms_err=1e-7)


def test_page_is_self_contained(tmp_path):
    source, page = tmp_path / "r.json", tmp_path / "r.html"
    source.write_text("\n".join(json.dumps(line) for line in _lines()))
    assert report.main([str(source), "-o", str(page)]) == 0
    text = page.read_text()
    for title, _, _ in _plots.FIGURES:
        if title != "Image size":
            assert f">{title}</h2>" in text, title
    assert "transforms ahead" in text and "from R = 8" in text
    assert "chosen by the cost model" in text and "direct: 70 ms" in text and "taken by tune" in text
    assert re.search(r"fft: within \d+ % of the line", text)
    assert "<img" not in text and "<script" not in text and "n4c64h128k64r8" in text and not re.search(r"(href|src)=['\"]?http", text)
    ids = re.findall(r'<clipPath id="([^"]+)"', text)
    assert len(set(ids)) == len(ids) > 10


def test_what_varies():
    same = results.sizes("n1c8h64k8r31_pad15")
    assert same["rest"] == "_padsame" and results.sizes("n1c8h64k8r4_pad1,2,1,2")["rest"] == "_padsame"
    assert results.sizes("n1c8h64k8r31_pad14_gc")["rest"] == "_pad14_gc"
    assert results.by_kernel(same) == (31, "n1c8h64k8, padded to the same size")
    assert results.sizes("no problem") is None
    direct, fft = [(3, 1.0), (5, 2.0), (7, 4.0), (9, 8.0)], [(3, 2.0), (5, 1.5), (7, 5.0), (9, 5.0)]
    assert results.crossover({"direct": direct, "fft": fft}) == 9
    assert results.crossover({"direct": direct, "fft": fft, "fftw_openblas": [(9, 0.1)]}) == 9
    assert results.crossover({"direct": direct, "fft": [(r, 2 * ms) for r, ms in direct]}) is None
    assert results.crossover({"fft": fft}) is None


def test_results_file(tmp_path):
    source, page = tmp_path / "r.json", tmp_path / "r.html"
    source.write_text(json.dumps({"machine": {"cpu": "a processor"}, "date": "2020-02-02", "command": "convoy bench A", "lines": list(_lines())}))
    assert report.main([str(source), "-o", str(page)]) == 0
    text = page.read_text()
    assert "a processor" in text and "2020-02-02" in text and "convoy bench A" in text and ">Time</h2>" in text


def test_one_figure(tmp_path, capsys):
    source, picture = tmp_path / "r.json", tmp_path / "r.svg"
    source.write_text("\n".join(json.dumps(line) for line in _lines()))
    assert report.main([str(source), "-o", str(picture), "--figure", "Time"]) == 0
    assert picture.read_text().startswith("<svg")
    assert report.main([str(source), "-o", str(picture), "--figure", "Weather"]) == 2
    assert "Kernel size" in capsys.readouterr().err


@pytest.mark.parametrize("content, words", [("", "expected the output of convoy bench"), ("{", "line 1"), ("[1]", "expected a JSON object")])
def test_bad_files(tmp_path, capsys, content, words):
    source = tmp_path / "bad.json"
    source.write_text(content)
    assert report.main([str(source), "-o", str(tmp_path / "out.html")]) == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "out.html").exists()
    assert report.main([str(tmp_path / "absent"), "-o", str(tmp_path / "out.html")]) == 2


def test_odd_results_are_told_not_drawn(tmp_path, capsys):
    """Every value of every line replaced, one at a time, by what does not belong there: a page or one line of words, no traceback."""
    source, page = tmp_path / "r.json", tmp_path / "r.html"
    lines = [next(_lines()), list(_lines())[-2]]
    odd = [None, -1, float("nan"), 10**400, "\ud800", [], {}, [1], True]
    tried = 0
    for at, line in enumerate(lines):
        for key in line:
            for value in odd:
                changed = [dict(each, **{key: value}) if i == at else each for i, each in enumerate(lines)]
                source.write_text("\n".join(json.dumps(each) for each in changed))
                try:
                    rows, facts = results.read([str(source)])
                except ValueError as error:
                    assert str(source) in str(error)
                    continue
                tried += 1
                if tried % 9 == 0:
                    report.page(rows, facts)
    assert tried > 20
    for content in (b"", b"{", b'{"problem": "n1c1h8k1r3", "median_ms": 1', b"\xff\xfe", b"[]", b"[" * 100000, b'{"lines": [1]}',
                    b'{"machine": 3, "lines": []}', b"{\n\n}\n"):
        source.write_bytes(content)
        assert report.main([str(source), "-o", str(page)]) == 2
        assert "convoy.report: " in capsys.readouterr().err
    assert not page.exists() and list(tmp_path.iterdir()) == [source]


def test_output_that_is_no_plain_file(tmp_path, capsys):
    source, target, link = tmp_path / "r.json", tmp_path / "there.html", tmp_path / "link.html"
    source.write_text("\n".join(json.dumps(line) for line in _lines()))
    target.write_text("")
    link.symlink_to(target)
    assert report.main([str(source), "-o", str(link)]) == 0
    assert link.is_symlink() and target.read_text().startswith("<!doctype html>")
    assert report.main([str(source), "-o", str(tmp_path)]) == 2  # a folder
    assert sorted(tmp_path.iterdir()) == [link, source, target]
