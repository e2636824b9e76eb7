"""Every script of examples/python runs and says what it promises."""

import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "examples/python"


def _run(name, *arguments):
    done = subprocess.run([sys.executable, str(FOLDER / name), *arguments], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    return done.stdout


def test_all_are_run():
    assert {p.name for p in FOLDER.glob("*.py")} == {"filter_image.py", "large_kernel_block.py"}


def test_filter_image(tmp_path):
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        assert "stars" in _run("filter_image.py")
        return
    out = tmp_path / "sky.png"
    assert "45 stars" in _run("filter_image.py", "-o", str(out))
    assert out.read_bytes()[:4] == b"\x89PNG" and out.stat().st_size < 200_000


def test_large_kernel_block():
    pytest.importorskip("torch")
    said = _run("large_kernel_block.py", "--channels", "24", "--size", "40")
    assert said.count("large: swapped") == 2 and "small: kept, because its kernel 5x5 is smaller than 7" in said
    assert "outputs differ by" in said
