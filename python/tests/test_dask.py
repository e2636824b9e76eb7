import numpy as np
import pytest

da = pytest.importorskip("dask.array")

import convoy  # noqa: E402
import convoy.dask as cd  # noqa: E402

CASES = [dict(), dict(padding=4), dict(padding="same"), dict(padding=(1, 0, 5, 2)), dict(stride=2, padding=3), dict(stride=(3, 1), dilation=(1, 2))]


@pytest.mark.parametrize("options", CASES, ids=str)
def test_seams_are_exact(draw, options):
    x, w, b = draw(3, 4, 61, 70), draw(6, 4, 9, 8), draw(6)
    lazy = da.from_array(x, chunks=(2, 2, 20, 33))
    got = cd.conv2d(lazy, w, b, math="exact", **options)
    want = convoy.conv2d(x, w, b, math="exact", **options)
    assert got.shape == want.shape
    assert np.array_equal(got.compute(scheduler="threads"), want)


def test_chunk_of_the_callers_choice(draw):
    x, w = draw(1, 1, 50, 50), draw(1, 1, 7, 7)
    got = cd.conv2d(da.from_array(x, chunks=-1), w, padding=3, chunk=(13, 50), math="exact")
    assert got.chunks[2] == (13, 13, 13, 11) and np.array_equal(got.compute(), convoy.conv2d(x, w, padding=3, math="exact"))


def test_errors(draw):
    w = draw(1, 1, 7, 7)
    with pytest.raises(TypeError, match="dask array"):
        cd.conv2d(draw(1, 1, 9, 9), w)
    with pytest.raises(TypeError, match="float32"):
        cd.conv2d(da.zeros((1, 1, 9, 9)), w)
    with pytest.raises(ValueError, match="padded image"):
        cd.conv2d(da.zeros((1, 1, 5, 5), dtype=np.float32), w)
    x = da.zeros((1, 1, 9, 9), dtype=np.float32)
    for words, change in (("groups is 3", dict(groups=3)), ("bias has shape", dict(bias=np.zeros(2, np.float32))), ("chunk is 0", dict(chunk=0)),
                          ("math is 'tf32'", dict(math="tf32"))):
        with pytest.raises(ValueError, match=words):
            cd.conv2d(x, w, **change)
    for change in (dict(mth="exact"), dict(out=x)):
        with pytest.raises(TypeError, match="unexpected keyword"):
            cd.conv2d(x, w, **change)


def _make(seed, shape):
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def test_cluster_on_an_image_larger_than_a_workers_memory():
    distributed = pytest.importorskip("distributed")
    rows, tiles, columns = 1024, 40, 2048  # 320 MiB of image against 280 MiB a worker
    blocks = [da.from_delayed(__import__("dask").delayed(_make)(i, (1, 1, rows, columns)), (1, 1, rows, columns), np.float32) for i in range(tiles)]
    x = da.concatenate(blocks, axis=2)
    w = _make(99, (1, 1, 15, 15))
    y = cd.conv2d(x, w, padding="same", math="exact")
    limit = 280 << 20
    assert x.nbytes > limit
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, memory_limit=limit, dashboard_address=None) as cluster:
        with distributed.Client(cluster):
            total, seam = __import__("dask").compute(y.sum(dtype="f8"), y[0, 0, rows - 3:rows + 3])
    near = np.concatenate([_make(0, (1, 1, rows, columns)), _make(1, (1, 1, rows, columns))], axis=2)
    want = convoy.conv2d(near, w, padding="same", math="exact")
    assert np.array_equal(seam, want[0, 0, rows - 3:rows + 3]) and np.isfinite(total)
