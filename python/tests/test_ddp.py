"""The operator under DistributedDataParallel: a batch split over two processes gives what one process gives."""

import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
if not torch.distributed.is_available():
    pytest.skip("this PyTorch has no torch.distributed", allow_module_level=True)

PROGRAM = Path(__file__).with_name("ddp_program.py")
GPUS = torch.cuda.device_count() if torch.cuda.is_available() else 0


def _run(world, backend, math, folder):
    """What each process saved."""
    started = [subprocess.Popen([sys.executable, str(PROGRAM), str(rank), str(world), backend, math, str(folder)], stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True) for rank in range(world)]
    try:
        for process in started:
            said, _ = process.communicate(timeout=200)
            assert process.returncode == 0, said[-3000:]
    finally:
        for process in started:
            process.kill()
    return [torch.load(folder / f"{world}-{rank}.pt") for rank in range(world)]


@pytest.mark.parametrize("math", ["exact", "fp32"])
@pytest.mark.parametrize("backend", ["gloo", pytest.param("nccl", marks=pytest.mark.skipif(GPUS < 2, reason=f"{GPUS} GPUs here: NCCL needs 2"))])
def test_two_processes_give_what_one_gives(backend, math, tmp_path):
    if backend == "gloo" and not torch.distributed.is_gloo_available():
        pytest.skip("this PyTorch has no gloo")
    (alone,), both = _run(1, backend, math, tmp_path), _run(2, backend, math, tmp_path)
    y = torch.cat([r["y"] for r in both])
    if math == "exact":
        assert torch.equal(y, alone["y"])
    else:
        assert torch.allclose(y, alone["y"], rtol=1e-5, atol=1e-5)
    for a, b, want in zip(both[0]["grads"], both[1]["grads"], alone["grads"]):
        assert torch.equal(a, b)  # reduced: every process has the whole batch's
        assert (a - want).abs().max() <= 1e-4 * want.abs().max()  # summed in another order by PyTorch
    if backend == "nccl":
        split = max(r["ms"] for r in both)
        print(f"n8c128h256k128r32 in {math}: {alone['ms']:.2f} ms on one GPU, {split:.2f} ms on two")
        assert split <= 0.55 * alone["ms"]
