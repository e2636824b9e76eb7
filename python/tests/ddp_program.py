"""One process of test_ddp.py: ddp_program.py RANK WORLD BACKEND MATH FOLDER. Its share of the batch through a wrapped model."""

import sys

import torch

import convoy.torch as ct


def model_of(math):
    torch.manual_seed(3)
    return torch.nn.Sequential(ct.Conv2d(3, 8, 11, padding=5, math=math), torch.nn.ReLU(), ct.Conv2d(8, 8, 9, padding=4, groups=8, math=math),
                               torch.nn.ReLU(), ct.Conv2d(8, 4, 7, stride=2, math=math))


def batch():
    return torch.randn(8, 3, 40, 44, generator=torch.Generator().manual_seed(4))


def timed(math, world):
    """Median milliseconds of n8c128h256k128r32 with the batch split over the processes, of ten calls in a row, so that the GPUs
    and not the first launch decide: a call takes what the slowest process takes."""
    layer = torch.nn.parallel.DistributedDataParallel(ct.Conv2d(128, 128, 32, bias=False, math=math).cuda(), device_ids=[torch.cuda.current_device()])
    x = torch.randn(8 // world, 128, 256, 256, device="cuda")
    times = []
    for _ in range(9):
        torch.distributed.barrier()
        torch.cuda.synchronize()
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        with torch.no_grad():
            begin.record()
            for _ in range(10):
                layer(x)
            end.record()
        torch.cuda.synchronize()
        slowest = torch.tensor(begin.elapsed_time(end) / 10, device="cuda")
        torch.distributed.all_reduce(slowest, torch.distributed.ReduceOp.MAX)
        times.append(float(slowest))
    return sorted(times)[4]


def main(rank, world, backend, math, folder):
    torch.set_num_threads(1)
    device = torch.device("cpu")
    if backend == "nccl":
        torch.cuda.set_device(rank)
        device = torch.device("cuda", rank)
        torch.backends.cudnn.allow_tf32 = False
    torch.distributed.init_process_group(backend, init_method=f"file://{folder}/meet{world}", rank=rank, world_size=world)
    wrapped = torch.nn.parallel.DistributedDataParallel(model_of(math).to(device), device_ids=[rank] if backend == "nccl" else None)
    y = wrapped(batch().chunk(world)[rank].to(device))
    y.square().mean().backward()
    result = {"y": y.detach().cpu(), "grads": [p.grad.cpu() for p in wrapped.parameters()]}
    if backend == "nccl":
        result["ms"] = timed(math, world)
    torch.save(result, f"{folder}/{world}-{rank}.pt")
    del wrapped  # its hooks before the group that they call; and no process leaves while another is still at work
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
