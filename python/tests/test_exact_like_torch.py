"""On a GPU, `exact` equals PyTorch's strict deterministic convolution, by ==: the reference problems, the leaderboard's tests and
problems of many kinds on which cuDNN computes the chain too."""

import pytest

import convoy

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("needs an NVIDIA GPU", allow_module_level=True)

# n, c, h, w, k, r, s, stride, padding, dilation, groups
REFERENCE = {
    "A": (4, 64, 128, 128, 64, 8, 8, 1, 0, 1, 1),
    "B": (4, 64, 128, 128, 64, 16, 16, 1, 0, 1, 1),
    "C": (2, 128, 256, 256, 128, 16, 16, 1, 0, 1, 1),
    "D": (1, 128, 256, 256, 128, 32, 32, 1, 0, 1, 1),
}
LEADERBOARD = [
    (1, 16, 32, 32, 16, 4, 4, 1, 0, 1, 1),
    (2, 16, 32, 32, 16, 4, 4, 1, 0, 1, 1),
    (1, 32, 64, 64, 32, 4, 4, 1, 0, 1, 1),
    (2, 32, 64, 64, 32, 8, 8, 1, 0, 1, 1),
    (1, 64, 128, 128, 64, 8, 8, 1, 0, 1, 1),
]
OTHERS = [
    (8, 64, 56, 56, 64, 3, 3, 1, 1, 1, 1),
    (8, 64, 56, 56, 64, 3, 3, 1, 1, 1, 4),
    (16, 64, 27, 27, 192, 5, 5, 1, 2, 1, 1),
    (8, 32, 56, 56, 32, 5, 5, 1, 4, 2, 1),
    (8, 32, 56, 56, 32, 7, 7, 2, 3, 1, 1),
    (1, 3, 224, 224, 64, 7, 7, 2, 3, 1, 1),
    (16, 128, 16, 16, 128, 7, 7, 1, 0, 1, 1),
    (1, 64, 56, 56, 256, 1, 1, 1, 0, 1, 1),
    (1, 64, 256, 256, 3, 9, 9, 1, 4, 1, 1),
    (16, 3, 128, 128, 96, 11, 11, 1, 0, 1, 1),
    (8, 64, 56, 56, 64, 13, 13, 1, 6, 1, 1),
    (2, 32, 512, 512, 64, 5, 9, 1, (2, 4), (2, 3), 1),
    (1, 1, 1024, 1024, 1, 31, 31, 1, 15, 1, 1),
    (1, 1, 1024, 1024, 16, 63, 63, 1, 0, 1, 1),
    (8, 128, 56, 56, 128, 31, 31, 1, 15, 1, 128),
    (8, 1024, 7, 7, 1024, 13, 13, 1, 6, 1, 1024),
    (8, 96, 56, 56, 96, 51, 5, 1, (25, 2), 1, 96),
    (2, 8, 33, 29, 12, 5, 5, (3, 2), 2, (2, 1), 4),
    (1, 16, 40, 40, 16, 15, 15, 4, 7, 1, 1),
    (3, 5, 33, 35, 7, 7, 7, 1, 3, 1, 1),
]


@pytest.fixture(autouse=True)
def strict():
    was = (torch.backends.cudnn.allow_tf32, torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark)
    torch.backends.cudnn.allow_tf32, torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = False, True, False
    yield
    torch.backends.cudnn.allow_tf32, torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = was


def compare(problem, bias):
    n, c, h, w, k, r, s, stride, padding, dilation, groups = problem
    torch.manual_seed(hash(problem) % 1000)
    x = torch.randn(n, c, h, w, device="cuda")
    wt = torch.randn(k, c // groups, r, s, device="cuda")
    b = torch.randn(k, device="cuda") if bias else None
    options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    y = convoy.conv2d(x, wt, b, math="exact", engine="cuda_igemm", **options)
    ref = torch.nn.functional.conv2d(x, wt, b, **options)
    assert torch.isfinite(y).all()
    different = int((y != ref).sum())
    assert different == 0, f"{different} of {ref.numel()} outputs differ, by at most {float((y - ref).abs().max())}"


@pytest.mark.parametrize("name", REFERENCE)
def test_reference(name):
    compare(REFERENCE[name], bias=False)


@pytest.mark.parametrize("problem", LEADERBOARD + OTHERS)
def test_problem(problem):
    compare(problem, bias=False)


@pytest.mark.parametrize("problem", LEADERBOARD[:3])
def test_bias_is_one_add_at_the_end(problem):
    compare(problem, bias=True)
