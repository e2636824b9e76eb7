import sys
import types

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402

import convoy  # noqa: E402
import convoy.torch as ct  # noqa: E402

CASES = [dict(), dict(padding="same"), dict(padding=(3, 2), stride=2), dict(padding=2, dilation=(1, 2)), dict(groups=3, padding=3)]


def _draw(*shape, **kw):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)), **kw)


@pytest.mark.parametrize("options", CASES, ids=str)
def test_forward_and_gradients(options):
    groups = options.get("groups", 1)
    x, w, b = _draw(2, 3, 21, 24), _draw(6, 3 // groups, 5, 5), _draw(6)
    mine = [t.clone().requires_grad_() for t in (x, w, b)]
    theirs = [t.double().requires_grad_() for t in (x, w, b)]
    y, want = convoy.conv2d(*mine, **options), F.conv2d(*theirs, **options)
    assert y.shape == want.shape and torch.allclose(y.double(), want, rtol=1e-4, atol=1e-4)
    seed = _draw(*y.shape)
    y.backward(seed)
    want.backward(seed.double())
    for got, truth in zip(mine, theirs):
        assert torch.allclose(got.grad.double(), truth.grad, rtol=1e-4, atol=1e-3)


def test_asymmetric_padding_gradients():
    x, w = _draw(1, 2, 12, 13), _draw(3, 2, 4, 4)
    mine = [t.clone().requires_grad_() for t in (x, w)]
    theirs = [t.double().requires_grad_() for t in (x, w)]
    y = convoy.conv2d(*mine, padding=(1, 2, 0, 3))
    want = F.conv2d(F.pad(theirs[0], (0, 3, 1, 2)), theirs[1])
    assert torch.allclose(y.double(), want, atol=1e-4)
    y.square().sum().backward()
    want.square().sum().backward()
    for got, truth in zip(mine, theirs):
        assert torch.allclose(got.grad.double(), truth.grad, rtol=1e-4, atol=1e-3)


def test_views():
    x, w = _draw(2, 6, 20, 20), _draw(4, 6, 5, 5)
    pairs = [(x.transpose(2, 3), w), (x[:, :, ::2, 1:], w), (x[:, :1].expand(2, 6, 20, 20), w), (x.to(memory_format=torch.channels_last), w)]
    for a, b in pairs:
        assert torch.equal(convoy.conv2d(a, b, math="exact"), convoy.conv2d(a.contiguous(), b.contiguous(), math="exact"))


def test_operator_registration():
    x, w, b = _draw(1, 2, 10, 10).requires_grad_(), _draw(3, 2, 3, 3).requires_grad_(), _draw(3).requires_grad_()
    torch.library.opcheck(torch.ops.convoy.conv2d, (x, w, b, [1, 1], [1, 1, 1, 1], [1, 1], 1, "fp32", None, None, None, None))


def test_autocast_stays_fp32():
    x, w = _draw(1, 2, 10, 10), _draw(3, 2, 3, 3)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = ct.conv2d(x.bfloat16(), w)
    assert y.dtype == torch.float32


def test_layer_and_patch(capsys):
    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.small = torch.nn.Conv2d(4, 4, 3, padding=1)
            self.large = torch.nn.Conv2d(4, 4, 13, padding=6, groups=4)
            self.ring = torch.nn.Conv2d(4, 2, 9, padding=4, padding_mode="circular")

        def forward(self, x):
            return self.ring(torch.relu(self.large(self.small(x))))

    model, x = Block(), _draw(2, 4, 24, 24)
    want, state = model(x), {k: v.clone() for k, v in model.state_dict().items()}
    assert ct.patch(model) == ["large", "ring"]
    printed = capsys.readouterr().out
    assert "large: swapped" in printed and "small: kept, because its kernel 3x3 is smaller than 7" in printed
    assert torch.allclose(model(x), want, atol=1e-5)
    assert model.state_dict().keys() == state.keys()
    fresh = Block()
    fresh.load_state_dict(model.state_dict())
    assert torch.allclose(fresh(x), want, atol=1e-5)
    model(x).sum().backward()
    assert all(p.grad is not None for p in model.parameters())


def test_compile():
    layer = ct.Conv2d(3, 4, 7, padding=3)
    x = _draw(1, 3, 16, 16)
    try:
        compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
        y = compiled(x)
    except ImportError as error:
        pytest.skip(f"torch.compile does not run here: {error}")
    assert torch.equal(y, layer(x))


def test_a_large_result_s_memory_serves_again_when_nobody_holds_it():
    x, w = _draw(1, 1, 600, 600), _draw(1, 1, 5, 5)
    holds = [lambda y: y, lambda y: y[0, 0, 3:, 7], lambda y: y.untyped_storage(), lambda y: y.numpy(), lambda y: y.detach(), lambda y: y.share_memory_()]
    for hold in holds:
        convoy.release_memory()
        y = convoy.conv2d(x, w)
        held = hold(y)
        place = y.data_ptr()  # only now: memory that becomes shared moves, and what it leaves may come again
        del y
        assert convoy.conv2d(x, w).data_ptr() != place, hold
        del held
    convoy.release_memory()
    place = convoy.conv2d(x, w).data_ptr()
    y = convoy.conv2d(x, w)
    assert y.data_ptr() == place and not y._is_view() and y.is_contiguous() and torch.equal(y, convoy.conv2d(x, w))
    y.requires_grad_().square().sum().backward()  # a tensor like any other
    assert torch.equal(y.grad, 2 * y)


class _Lazy(types.ModuleType):
    """Like the lazy modules of some packages: whoever goes through sys.modules and looks at each changes it on the way."""

    def __getattribute__(self, name):
        sys.modules.setdefault(f"imported_for_{name}", types.ModuleType(name))
        return super().__getattribute__(name)


def test_traced_and_transformed(monkeypatch):
    """Tensors without memory of their own go through the operator, never to the library."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    x, w = _draw(2, 3, 16, 17), _draw(4, 3, 5, 5)
    with FakeTensorMode() as mode:
        for device in ("cpu", "cuda"):
            fake = [mode.from_tensor(t).to(device) for t in (x, w)]
            y = convoy.conv2d(fake[0][:, :, 1:], fake[1], padding=2)
            assert type(y) is not torch.Tensor and y.shape == (2, 4, 15, 17) and y.device.type == device
        assert ct.conv2d(torch.empty(2, 3, 16, 17), torch.empty(4, 3, 5, 5)).shape == (2, 4, 12, 13)
    assert convoy.conv2d(x.to("meta"), w.to("meta")).shape == (2, 4, 12, 13)
    monkeypatch.setitem(sys.modules, "imports_when_looked_at", _Lazy("imports_when_looked_at"))
    f = torch.compile(lambda a, b: convoy.conv2d(a, b, stride=2), backend="aot_eager", fullgraph=True)
    try:
        assert torch.equal(f(x, w), convoy.conv2d(x, w, stride=2))
    except ImportError as error:
        pytest.skip(f"torch.compile does not run here: {error}")
    many = _draw(5, 2, 3, 16, 17)
    assert torch.equal(torch.func.vmap(lambda a: convoy.conv2d(a, w))(many), torch.stack([convoy.conv2d(a, w) for a in many]))
    with pytest.raises(ValueError, match="expected out=None"):
        convoy.conv2d(x.clone().requires_grad_(), w, out=torch.empty(2, 4, 12, 13))


class _Images(torch.utils.data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, i):
        return torch.from_numpy(convoy.conv2d(np.full((1, 1, 32, 32), i, np.float32), np.ones((1, 1, 7, 7), np.float32))[0])


def test_dataloader_workers_after_fork():
    convoy.conv2d(np.ones((1, 1, 32, 32), np.float32), np.ones((1, 1, 7, 7), np.float32))
    loader = torch.utils.data.DataLoader(_Images(), batch_size=2, num_workers=2, timeout=60, multiprocessing_context="fork")
    batches = list(loader)
    assert [float(b[1, 0, 0, 0]) for b in batches] == pytest.approx([49.0, 147.0], rel=1e-6)


def test_an_input_that_is_no_tensor_is_named():
    with pytest.raises(TypeError, match="x is a ndarray: expected a PyTorch tensor"):
        convoy.torch.conv2d(np.zeros((1, 1, 8, 8), np.float32), torch.zeros(1, 1, 3, 3))
