"""The Python that the documents show runs, page by page, with the names that a page leaves to its reader."""

import os
import re

import numpy as np
import pytest

DOCS = os.path.join(os.path.dirname(__file__), "..", "..", "docs")
PAGES = ("getting-started.md", "python.md")


@pytest.mark.parametrize("page", PAGES)
def test_page(page, tmp_path, monkeypatch):
    with open(os.path.join(DOCS, page), encoding="utf-8") as f:
        blocks = re.findall(r"^```python\n(.*?)^```", f.read(), re.S | re.M)
    assert blocks
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in blocks:
        exec(compile(block, page, "exec"), names)  # pylint: disable=exec-used
    if page == "getting-started.md":
        assert names["y"].shape == (96, 120) and names["z"].shape == (2, 4, 15, 15)
        assert sorted(os.listdir(tmp_path)) == ["image.npy", "kernel.npy", "w.npy", "x.npy"]
    assert all(np.isfinite(v).all() for v in names.values() if isinstance(v, np.ndarray))


def test_no_page_is_left_out():
    shown = set()
    for folder, _, files in os.walk(DOCS):
        for name in files:
            if name.endswith(".md"):
                with open(os.path.join(folder, name), encoding="utf-8") as f:
                    if "```python" in f.read():
                        shown.add(os.path.relpath(os.path.join(folder, name), DOCS))
    assert shown == set(PAGES)
