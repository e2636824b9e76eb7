import json

import pytest

pytest.importorskip("matplotlib")

from convoy import report  # noqa: E402


def _lines():
    for r in (4, 8, 16):
        for engine, ms in (("direct", r * r / 10), ("fft", 5.0)):
            yield dict(problem=f"n4c64h128k64r{r}", engine=engine, candidate="ty32tx32" if engine == "fft" else "", median_ms=ms,
                       p10_ms=ms, p90_ms=ms, direct_gflop_per_s=100.0, rel_rms_err=2e-7, workspace_bytes=1 << 20, chosen=engine == "fft",
                       phases=[dict(name="forward", ms=1.0, floor_share=0.6), dict(name="product", ms=2.0, floor_share=0.7)])
    for side in (48, 64):
        yield dict(problem="n4c64h128k64r8", engine="fft", candidate=f"ty{side}tx{side}", median_ms=4.0 + side / 10, chosen=False)


def test_page_is_self_contained(tmp_path):
    source, page = tmp_path / "r.json", tmp_path / "r.html"
    source.write_text("\n".join(json.dumps(line) for line in _lines()))
    assert report.main([str(source), "-o", str(page)]) == 0
    text = page.read_text()
    for title in ("Time", "Kernel size", "Tile side", "Phases", "Error", "Workspace"):
        assert f"<h2>{title}</h2>" in text
    assert "transforms win from 8" in text
    assert "<img" not in text and "<script" not in text and "n4c64h128k64r8" in text


def test_results_file(tmp_path):
    source, page = tmp_path / "r.json", tmp_path / "r.html"
    source.write_text(json.dumps({"machine": {"cpu": "a processor"}, "date": "2020-02-02", "command": "convoy bench A", "lines": list(_lines())}))
    assert report.main([str(source), "-o", str(page)]) == 0
    text = page.read_text()
    assert "a processor" in text and "2020-02-02" in text and "convoy bench A" in text and "<h2>Time</h2>" in text


def test_one_figure(tmp_path, capsys):
    source, picture = tmp_path / "r.json", tmp_path / "r.svg"
    source.write_text("\n".join(json.dumps(line) for line in _lines()))
    assert report.main([str(source), "-o", str(picture), "--figure", "Time"]) == 0
    assert picture.read_text().startswith("<svg")
    assert report.main([str(source), "-o", str(picture), "--figure", "Weather"]) == 2
    assert "Kernel size" in capsys.readouterr().err


@pytest.mark.parametrize("content, words", [("", "expected the output of convoy bench --json"), ("{", "line 1"), ("[1]", "expected a JSON object")])
def test_bad_files(tmp_path, capsys, content, words):
    source = tmp_path / "bad.json"
    source.write_text(content)
    assert report.main([str(source), "-o", str(tmp_path / "out.html")]) == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "out.html").exists()
    assert report.main([str(tmp_path / "absent"), "-o", str(tmp_path / "out.html")]) == 2
