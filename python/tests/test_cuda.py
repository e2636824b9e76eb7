"""The package on an NVIDIA GPU; skipped where PyTorch sees none."""

import threading

import numpy as np
import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("no CUDA GPU here", allow_module_level=True)

import torch.nn.functional as F  # noqa: E402

import convoy  # noqa: E402
import convoy.torch as ct  # noqa: E402

CASES = [dict(), dict(padding="same"), dict(padding=(3, 2), stride=2), dict(padding=2, dilation=(1, 2)), dict(groups=4, padding=3),
         dict(groups=8, padding=6)]


@pytest.fixture(autouse=True)
def strict():
    """PyTorch's own convolutions in FP32 too."""
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    yield
    torch.backends.cudnn.allow_tf32 = before


def _draw(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape))).cuda()


@pytest.mark.parametrize("math", ["fp32", "exact"])
@pytest.mark.parametrize("options", CASES, ids=str)
def test_against_double(options, math):
    x, w, b = _draw(2, 8, 61, 70), _draw(16, 8 // options.get("groups", 1), 13, 13), _draw(16)
    y = convoy.conv2d(x, w, b, math=math, **options)
    want = F.conv2d(x.double(), w.double(), b.double(), **options)
    assert y.device == x.device and torch.allclose(y.double(), want, rtol=1e-4, atol=2e-4)


def test_exact_has_the_cpu_s_bits():
    x, w, b = _draw(2, 8, 50, 47), _draw(8, 8, 11, 9), _draw(8)
    on_gpu = convoy.conv2d(x, w, b, padding=4, math="exact").cpu()
    assert torch.equal(on_gpu, convoy.conv2d(x.cpu(), w.cpu(), b.cpu(), padding=4, math="exact"))


def test_views_and_out():
    x, w = _draw(2, 8, 60, 64), _draw(4, 8, 9, 9)
    for a in (x.transpose(2, 3), x[:, :, ::2, 1:], x[:, :1].expand(2, 8, 60, 64), x.to(memory_format=torch.channels_last), x.flip(3)):
        assert torch.equal(convoy.conv2d(a, w, math="exact"), convoy.conv2d(a.contiguous(), w, math="exact"))
    out = torch.full((2, 4, 52, 56), float("nan"), device="cuda")
    assert convoy.conv2d(x, w, out=out) is out and torch.isfinite(out).all()
    wide = torch.full((2, 4, 52, 112), float("nan"), device="cuda")[..., ::2]
    convoy.conv2d(x, w, out=wide)
    assert torch.allclose(wide, out, atol=1e-4)


def test_errors():
    x, w = _draw(1, 2, 20, 20), _draw(2, 2, 5, 5)
    with pytest.raises(ValueError, match="one device"):
        convoy.conv2d(x, w.cpu())
    with pytest.raises(TypeError, match="float32"):
        convoy.conv2d(x.half(), w)
    with pytest.raises(ValueError):
        convoy.conv2d(x, _draw(2, 2, 25, 25))


def test_current_stream_orders_the_work():
    x, w = _draw(4, 16, 128, 128), _draw(16, 16, 15, 15)
    want = convoy.conv2d(x, w, math="exact")
    side, other = torch.cuda.Stream(), torch.empty_like(x)
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        torch.cuda._sleep(50_000_000)
        other.copy_(x)  # not there before the sleep ends
        y = convoy.conv2d(other, w, math="exact")
    side.synchronize()
    assert torch.equal(y, want)


def test_threads_on_streams_of_their_own():
    x, w = _draw(2, 8, 64, 64), _draw(8, 8, 13, 13)
    want, wrong = convoy.conv2d(x, w, math="exact"), []

    def work():
        with torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(20):
                y = convoy.conv2d(x, w, math="exact")
            torch.cuda.current_stream().synchronize()
            if not torch.equal(y, want):
                wrong.append(1)

    torch.cuda.synchronize()
    threads = [threading.Thread(target=work) for _ in range(8)]
    [t.start() for t in threads], [t.join() for t in threads]
    assert not wrong


def test_graph():
    x, w = _draw(2, 8, 64, 64), _draw(8, 8, 13, 13)
    for math in ("fp32", "exact"):
        convoy.conv2d(x, w, math=math)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = convoy.conv2d(x, w, math=math)
        x.copy_(_draw(2, 8, 64, 64) + 1)
        graph.replay()
        assert torch.equal(y, convoy.conv2d(x, w, math=math))


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compile(backend):
    layer = ct.Conv2d(8, 8, 13, padding=6).cuda()
    x = _draw(2, 8, 40, 40)
    convoy.plan(x, layer.weight.detach(), padding=6).info  # once wrote past its structure, which showed in the compiler
    y = torch.compile(layer, backend=backend, fullgraph=True)(x)
    assert torch.equal(y, layer(x))
    y.square().sum().backward()
    mine = layer.weight.grad.clone()
    theirs = torch.nn.Conv2d(8, 8, 13, padding=6).cuda()
    theirs.load_state_dict(layer.state_dict())
    theirs(x).square().sum().backward()
    assert (mine - theirs.weight.grad).abs().max() <= 1e-4 * theirs.weight.grad.abs().max()


def test_autocast_stays_fp32():
    layer, x = ct.Conv2d(4, 4, 9, padding=4).cuda(), _draw(1, 4, 30, 30)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        y = layer(x.bfloat16())
    assert y.dtype == torch.float32 and torch.equal(y, layer(x.bfloat16().float()))


def test_prepared_weights():
    x, w, b = _draw(2, 8, 64, 64), _draw(8, 8, 13, 13), _draw(8)
    for math in ("fp32", "exact"):
        plan = convoy.plan(x, w, padding=6, bias=True, prepared=True, math=math)
        assert torch.allclose(plan(x, plan.prepare(w), b), F.conv2d(x.double(), w.double(), b.double(), padding=6).float(), rtol=1e-4, atol=2e-4)


def test_other_arrays():
    x, w = _draw(1, 4, 40, 40), _draw(4, 4, 9, 9)
    want = convoy.conv2d(x, w, math="exact").cpu().numpy()

    class Other:  # only speaks DLPack
        def __init__(self, t):
            self.t = t

        def __dlpack__(self, **options):
            return self.t.__dlpack__(**options)

        def __dlpack_device__(self):
            return self.t.__dlpack_device__()

    assert np.array_equal(convoy.conv2d(Other(x), Other(w), math="exact").cpu().numpy(), want)
    cupy = pytest.importorskip("cupy")
    got = convoy.conv2d(cupy.asarray(x.cpu().numpy()), cupy.asarray(w.cpu().numpy()), math="exact")
    assert isinstance(got, cupy.ndarray) and np.array_equal(cupy.asnumpy(got), want)


def test_explain_and_tune():
    x, w = _draw(1, 8, 64, 64), _draw(8, 8, 13, 13)
    lines = convoy.explain(x, w)
    assert {"cuda_fft", "cuda_igemm"} <= {e["engine"] for e in lines} and sum(e["chosen"] for e in lines) == 1
    assert convoy.tune(x, w, budget=1.0, progress=False).info["measured_s"] > 0


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="one GPU here")
def test_two_gpus_in_one_process():
    """Tensors on a GPU that is not the current one, which stays current: what comes after lands where it did before."""
    x, w, b = _draw(2, 8, 64, 64), _draw(8, 8, 13, 13), _draw(8)
    for math in ("exact", "fp32"):
        want = convoy.conv2d(x, w, b, math=math)
        there = [t.to("cuda:1") for t in (x, w, b)]
        assert torch.cuda.current_device() == 0
        y = convoy.conv2d(*there, math=math)
        plan = convoy.plan(*there[:2], math=math, prepared=True, bias=True)
        z = plan(there[0], plan.prepare(there[1]), there[2])
        assert torch.cuda.current_device() == 0 and torch.empty(1, device="cuda").device.index == 0
        assert y.device.index == 1 and torch.equal(y.cpu(), want.cpu()) and torch.allclose(z.cpu(), want.cpu(), rtol=1e-4, atol=1e-4)
        assert torch.equal(convoy.conv2d(x, w, b, math=math), want)  # the first GPU's kernels are still set up
        del plan
        assert torch.cuda.current_device() == 0
    with pytest.raises(ValueError, match="one device"):
        convoy.conv2d(x, there[1])


def test_memory_comes_back():
    x, w = _draw(1, 8, 64, 64), _draw(8, 8, 13, 13)
    convoy.conv2d(x, w)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    for _ in range(100):
        convoy.conv2d(x, w)
    torch.cuda.synchronize()
    assert torch.cuda.memory_allocated() == before
