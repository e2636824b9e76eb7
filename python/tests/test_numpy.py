import numpy as np
import pytest

import convoy
import reference

CASES = [
    dict(),
    dict(padding="same"),
    dict(padding=(2, 1)),
    dict(padding=(0, 3, 1, 2)),
    dict(stride=2, padding=3),
    dict(stride=(1, 3), dilation=(2, 1), padding=2),
    dict(groups=2, padding=1),
    dict(groups=4),
]


def _full(kernel, options):
    """The options with every pair spelled out, as the reference takes them."""
    from convoy._arguments import geometry

    stride, padding, dilation = geometry(kernel, options.get("stride", 1), options.get("padding", 0), options.get("dilation", 1))
    return dict(stride=stride, padding=padding, dilation=dilation, groups=options.get("groups", 1))


@pytest.mark.parametrize("math", ["fp32", "exact"])
@pytest.mark.parametrize("options", CASES, ids=str)
def test_against_scipy(draw, options, math):
    groups = options.get("groups", 1)
    x, w, bias = draw(2, 4, 23, 19), draw(8, 4 // groups, 5, 4), draw(8)
    y = convoy.conv2d(x, w, bias, math=math, **options)
    want = reference.conv2d(x, w, bias, **_full((5, 4), options))
    assert y.dtype == np.float32 and y.shape == want.shape
    assert np.abs(y - want).max() <= reference.bound(x, w)


def test_unbatched_and_valid(draw):
    x, w = draw(3, 12, 12), draw(2, 3, 7, 7)
    assert np.array_equal(convoy.conv2d(x, w, padding="valid", math="exact"), convoy.conv2d(x[None], w, math="exact")[0])


def test_one_image_with_one_kernel(draw):
    x, w = draw(12, 15), draw(5, 7)
    want = convoy.conv2d(x[None, None], w[None, None], padding=2, math="exact")[0, 0]
    out = np.zeros(want.shape, np.float32)
    assert np.array_equal(convoy.conv2d(x, w, padding=2, math="exact"), want)
    assert convoy.conv2d(x[::-1, ::-1], w[::-1, ::-1], padding=2, math="exact", out=out) is out
    assert np.array_equal(convoy.conv2d(np.ascontiguousarray(x[::-1, ::-1]), np.ascontiguousarray(w[::-1, ::-1]), padding=2, math="exact"), out)


def test_engines_and_info():
    names = [e["engine"] for e in convoy.engines()]
    assert names[:2] == sorted(set(names[:2]), key=names.index) and {"direct", "fft", "ref"} <= set(names)
    assert [e for e in convoy.engines() if e["engine"] == "direct"][0]["exact"]
    assert "isa" in convoy.info() and convoy.info("cpu:0") == convoy.info()
    with pytest.raises(ValueError, match="device is 'tpu'"):
        convoy.info("tpu")


def test_wisdom_in_use(tmp_path, monkeypatch):
    monkeypatch.delenv("CONVOY_WISDOM", raising=False)
    with pytest.raises(ValueError, match="no wisdom file is in use"):
        convoy.wisdom.show()
    try:
        convoy.wisdom.use(tmp_path / "wisdom")
        convoy.tune("n1c2h16k2r3", budget=0.2, progress=False)
        assert "n1c2h16k2r3" in convoy.wisdom.show()[0][1] and convoy.wisdom.show() == convoy.wisdom.show(tmp_path / "wisdom")
        convoy.wisdom.clear()
        assert convoy.wisdom.show() == []
    finally:
        convoy.wisdom.use(None)


def test_views_give_the_bits_of_copies(draw):
    x, w = draw(2, 6, 30, 40), draw(4, 6, 5, 5)
    views = [
        (x[:, ::2], w[:, ::2]),
        (x[:, :, ::-1, ::-1], w),
        (x[:, :, 3:20, 2::3], w[::-1]),
        (x.transpose(0, 1, 3, 2), w.transpose(0, 1, 3, 2)),
        (np.broadcast_to(x[:, :1], x.shape), w),
        (x, np.broadcast_to(w[:1], w.shape)),
    ]
    for xv, wv in views:
        a = convoy.conv2d(xv, wv, padding=2, math="exact")
        b = convoy.conv2d(np.ascontiguousarray(xv), np.ascontiguousarray(wv), padding=2, math="exact")
        assert np.array_equal(a, b)


def test_out(draw):
    x, w = draw(1, 2, 9, 9), draw(3, 2, 3, 3)
    want = convoy.conv2d(x, w, math="exact")
    out = np.full((1, 3, 7, 7), np.nan, np.float32)
    assert convoy.conv2d(x, w, math="exact", out=out) is out and np.array_equal(out, want)
    wide = np.full((1, 3, 7, 20), 5, np.float32)
    convoy.conv2d(x, w, math="exact", out=wide[..., 3:10])
    assert np.array_equal(wide[..., 3:10], want) and (wide[..., :3] == 5).all() and (wide[..., 10:] == 5).all()


def test_out_overlaps(draw):
    x, w = draw(1, 1, 9, 9), draw(1, 1, 1, 1)
    with pytest.raises(ValueError, match="args.y overlaps args.x"):
        convoy.conv2d(x, w, out=x)


def test_empty(draw):
    assert convoy.conv2d(np.zeros((0, 2, 5, 5), np.float32), draw(3, 2, 3, 3)).shape == (0, 3, 3, 3)
    y = convoy.conv2d(np.zeros((1, 0, 5, 5), np.float32), np.zeros((2, 0, 3, 3), np.float32), np.array([1, 2], np.float32))
    assert (y[0, 0] == 1).all() and (y[0, 1] == 2).all()


@pytest.mark.parametrize(
    "change, kind, words",
    [
        (dict(x=np.zeros((1, 2, 8, 8))), TypeError, "x is float64: expected float32"),
        (dict(w=np.zeros((3, 2, 3, 3), np.int32)), TypeError, "w is int32"),
        (dict(x="no"), TypeError, "x is a str"),
        (dict(x=np.zeros((8, 8), np.float32)), ValueError, "x has shape"),
        (dict(w=np.zeros((3, 3), np.float32)), ValueError, "w has shape"),
        (dict(groups=2), ValueError, "groups is 2"),
        (dict(groups=0), ValueError, "groups is 0"),
        (dict(stride=0), ValueError, "stride is 0"),
        (dict(stride=1.5), TypeError, "stride is 1.5"),
        (dict(padding=-1), ValueError, "padding is -1"),
        (dict(padding="full"), ValueError, "padding is 'full'"),
        (dict(padding="same", stride=2), ValueError, "stride 1"),
        (dict(dilation=(4, 1)), ValueError, "effective kernel is 9 and the padded image 8"),
        (dict(bias=np.zeros(2, np.float32)), ValueError, "bias has shape"),
        (dict(math="tf32"), ValueError, "math is 'tf32'"),
        (dict(rtol=1e-3), ValueError, "math='match'"),
        (dict(engine="nothing"), ValueError, "engine is 'nothing'"),
        (dict(workspace_limit=-1), ValueError, "workspace_limit is -1"),
        (dict(workspace_limit="16M"), TypeError, "workspace_limit is '16M'"),
        (dict(out=np.zeros((1, 3, 5, 5), np.float32)), ValueError, "out has shape"),
        (dict(out=np.zeros((1, 3, 6, 6))), TypeError, "out is float64"),
    ],
)
def test_errors(change, kind, words):
    arguments = dict(x=np.zeros((1, 2, 8, 8), np.float32), w=np.zeros((3, 2, 3, 3), np.float32))
    arguments.update(change)
    with pytest.raises(kind, match=words.replace("(", r"\(")):
        convoy.conv2d(arguments.pop("x"), arguments.pop("w"), **arguments)


def test_plan_and_prepared_weights(draw):
    x, w, bias = draw(2, 8, 40, 40), draw(8, 8, 9, 9), draw(8)
    plan = convoy.plan(x, w, bias=True, prepared=True)
    ready = plan.prepare(w)
    fresh = convoy.conv2d(x, w, bias, engine=plan.info["engine"])
    assert np.abs(plan(x, ready, bias) - fresh).max() <= reference.bound(x, w)
    with pytest.raises(TypeError, match="prepare"):
        plan(x, w, bias)
    with pytest.raises(ValueError, match="bias is missing"):
        plan(x, ready)
    with pytest.raises(ValueError, match="the plan was made for"):
        plan(x[:1], ready, bias)
    for wrong in (w[:3], w[:, :, ::2], w[:, :, ::-1]):
        with pytest.raises(ValueError, match="the plan was made for"):
            plan.prepare(wrong)


@pytest.mark.parametrize("shapes", [((40, 44), (9, 7)), ((3, 40, 44), (4, 3, 9, 7)), ((2, 3, 40, 44), (4, 3, 9, 7))])
@pytest.mark.parametrize("prepared", [False, True])
def test_plan_explain_and_tune_take_what_conv2d_takes(draw, shapes, prepared):
    x, w = draw(*shapes[0]), draw(*shapes[1])
    y = convoy.conv2d(x, w, padding=2)
    for plan in (convoy.plan(x, w, padding=2, prepared=prepared), convoy.plan(*shapes, padding=2, prepared=prepared),
                 convoy.tune(x, w, padding=2, prepared=prepared, budget=0.1, progress=False)):
        ready = plan.prepare(w) if prepared else w
        z = plan(x, ready)
        assert z.shape == y.shape and np.abs(z - y).max() <= reference.bound(x, w.reshape((1, 1, 9, 7) if w.ndim == 2 else w.shape))
        out = np.empty_like(y)
        assert plan(x, ready, out=out) is out and (out == z).all()
    problem = plan.info["problem"]
    assert [line["engine"] for line in convoy.explain(x, w, padding=2)] == [line["engine"] for line in convoy.explain(problem)]


def test_shapes_in_messages_are_the_callers():
    x, w = np.zeros((8, 9), np.float32), np.zeros((3, 3), np.float32)
    with pytest.raises(ValueError, match=r"out has shape \(3, 3\): expected \(6, 7\)"):
        convoy.conv2d(x, w, out=np.zeros((3, 3), np.float32))
    with pytest.raises(ValueError, match=r"out has shape \(5,\): expected \(1, 6, 7\)"):
        convoy.conv2d(x[None], w[None, None], out=np.zeros(5, np.float32))


@pytest.mark.parametrize("call", [convoy.plan, convoy.explain, convoy.tune])
def test_a_problem_string_comes_alone(call):
    for more in (dict(padding=3), dict(groups=2), dict(w=np.zeros((1, 1, 3, 3), np.float32))):
        with pytest.raises(ValueError, match="in the string"):
            call("n1c2h9r3", **more)
    with pytest.raises(TypeError, match="w is missing"):
        call(np.zeros((1, 1, 9, 9), np.float32))


def test_explain_names_one_choice():
    lines = convoy.explain("n1c8h64k8r9")
    assert sum(line["chosen"] for line in lines) == 1
    assert all(line["reason"] for line in lines if not line["accepted"])


def test_dlpack_and_misaligned(draw):
    class Opaque:
        def __init__(self, a):
            self.a = a

        def __dlpack__(self, **kw):
            return self.a.__dlpack__(**kw)

        def __dlpack_device__(self):
            return self.a.__dlpack_device__()

    x, w = draw(1, 2, 9, 9), draw(3, 2, 3, 3)
    want = convoy.conv2d(x, w, math="exact")
    assert np.array_equal(convoy.conv2d(Opaque(x), Opaque(w), math="exact"), want)
    raw = np.zeros(x.nbytes + 1, np.uint8)
    odd = raw[1:].view(np.float32).reshape(x.shape)
    odd[...] = x
    assert np.array_equal(convoy.conv2d(odd, w, math="exact"), want)


@pytest.mark.parametrize("size", [(5, 7), (4, 6), (4, 5)])
def test_the_table_for_scipy(draw, size):
    """Each line of docs/python.md's table."""
    signal, ndimage = pytest.importorskip("scipy.signal"), pytest.importorskip("scipy.ndimage")
    (R, S), x, w = size, draw(20, 23), draw(*size)
    around = (R // 2, (R - 1) // 2, S // 2, (S - 1) // 2)
    padding = {"valid": "valid", "full": (R - 1, S - 1), "same": "same" if R % 2 and S % 2 else around}
    near = dict(atol=1e-4, rtol=0)
    for mode, pad in padding.items():
        np.testing.assert_allclose(convoy.conv2d(x, w, padding=pad), signal.correlate(x, w, mode=mode), **near)
        np.testing.assert_allclose(convoy.conv2d(x, w[::-1, ::-1], padding=pad), signal.convolve(x, w, mode=mode), **near)
    for theirs, ours in dict(reflect="symmetric", mirror="reflect", nearest="edge").items():
        padded = np.pad(x, (around[:2], around[2:]), mode=ours)
        np.testing.assert_allclose(convoy.conv2d(padded, w), ndimage.correlate(x, w, mode=theirs), **near)


def test_plans_write_no_read_only_memory(draw, tmp_path):
    x, w = draw(1, 3, 16, 16), draw(4, 3, 3, 3)
    path = tmp_path / "y"
    path.write_bytes(bytes(4 * 4 * 14 * 14))
    out = np.memmap(path, np.float32, "r", shape=(1, 4, 14, 14))  # a write would end the process
    for call in (convoy.plan(x, w), lambda x, w, out: convoy.conv2d(x, w, out=out)):
        with pytest.raises(ValueError, match="out is read-only"):
            call(x, w, out=out)


def test_what_is_equal_to_an_int_finds_no_ints_plan(draw):
    x, w = draw(1, 3, 16, 16), draw(4, 3, 3, 3)
    convoy.conv2d(x, w, stride=1, groups=1)
    for name, value in (("stride", True), ("stride", 1.0), ("dilation", True), ("groups", 1.0), ("padding", [[1, 1], [1, 1]])):
        with pytest.raises((TypeError, ValueError), match=f"{name} is"):
            convoy.conv2d(x, w, **{name: value})
    assert convoy.conv2d(x, w, stride=np.array([2, 2])).shape == convoy.conv2d(x, w, stride=np.int64(2)).shape == (1, 4, 7, 7)


def test_ints_and_texts_that_c_would_cut_off(draw):
    x, w = draw(1, 3, 16, 16), draw(4, 3, 3, 3)
    for name in ("stride", "padding", "dilation", "groups"):
        with pytest.raises(ValueError, match=f"{name} is"):
            convoy.conv2d(x, w, **{name: 2**64 + 1})
    with pytest.raises(ValueError, match="x has shape"):
        convoy.plan((2**64, 1, 5, 5), (1, 1, 3, 3))
    assert convoy.plan((1, 4, 64, 64), (4, 4, 15, 15), workspace_limit=2**64).info == convoy.plan((1, 4, 64, 64), (4, 4, 15, 15), workspace_limit=2**64 - 1).info
    for call in (lambda: convoy.conv2d(x, w, engine="fft\0"), lambda: convoy.plan("n1c1h8k1r3\0z"), lambda: convoy.wisdom.show("a\0b")):
        with pytest.raises(ValueError, match="no zero byte"):
            call()


def test_out_that_begins_where_an_input_does(draw):
    wide, w = draw(1, 4, 16, 32), draw(4, 4, 3, 3)
    x = wide[..., :16]  # with strides, as out then has
    with pytest.raises(ValueError, match="y overlaps args.x"):
        convoy.conv2d(x, w, padding=1, out=x)
    interleaved = wide[..., 16:]
    want = convoy.conv2d(x, w, padding=1)
    assert np.allclose(convoy.conv2d(x, w, padding=1, out=interleaved), want, rtol=1e-4, atol=1e-4)
    empty, zeros = draw(1, 4, 6, 6)[:, :0], np.zeros((2, 0, 3, 3), np.float32)
    assert (convoy.conv2d(empty, zeros, np.ones(2, np.float32), out=np.empty((1, 2, 4, 4), np.float32)) == 1).all()


def test_masked_elements_are_refused_and_an_empty_mask_is_not():
    x, w = np.ones((1, 1, 8, 8), np.float32), np.ones((1, 1, 3, 3), np.float32)
    assert np.all(convoy.conv2d(np.ma.masked_array(x), w) == 9)
    with pytest.raises(TypeError, match="x has masked elements"):
        convoy.conv2d(np.ma.masked_array(x, mask=x > 0), w)
