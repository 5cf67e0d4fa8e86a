"""A small model with DistributedDataParallel on all ranks of torchrun; rank 0 prints the losses to the last bit."""
import os
import sys
import time

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
try:
    import torch
    import torch.distributed as distributed
    from torch import nn
except ImportError:
    print("no torch", file=sys.stderr)
    sys.exit(77)

N_STEPS = 20


def main():
    if torch.cuda.device_count() < 2:
        print("wants two devices", file=sys.stderr)
        return 77
    rank = int(os.environ["RANK"])
    torch.cuda.set_device(rank)
    distributed.init_process_group("nccl", device_id=torch.device("cuda", rank))
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 1024), nn.GELU(), nn.Linear(1024, 16)).cuda()
    model = nn.parallel.DistributedDataParallel(model, device_ids=[rank])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    torch.manual_seed(rank)
    losses, times = [], []
    for number in range(N_STEPS):
        start = time.perf_counter()
        x = torch.randn(64 + 8 * (number % 4), 256, device="cuda")
        loss = (model(x) - x[:, :16]).square().mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        distributed.all_reduce(loss)
        losses.append(loss.item())
        times.append(time.perf_counter() - start)
    if rank == 0:
        print("\n".join(loss.hex() for loss in losses), flush=True)
        print(f"median step {1e3 * sorted(times)[N_STEPS // 2]:.3f} ms", file=sys.stderr)
    distributed.barrier()
    distributed.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
