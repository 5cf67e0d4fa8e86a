"""Triton: a kernel compiled at run time, on tensors of PyTorch.  The runner turns PyTorch's cache off."""
import sys

try:
    import torch
    import triton
    import triton.language as tl
except ImportError:
    print("no triton", file=sys.stderr)
    sys.exit(77)


@triton.jit
def add(out, x, y, n, BLOCK: tl.constexpr):
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = places < n
    tl.store(out + places, tl.load(x + places, mask=mask) + tl.load(y + places, mask=mask), mask=mask)


def main():
    torch.manual_seed(7)
    for n in (1000, 98_432, 5_000_000):
        for _ in range(5):
            x = torch.randint(-1000, 1000, (n,), generator=torch.Generator().manual_seed(n)).float().cuda()
            y = torch.randint(-1000, 1000, (n,), generator=torch.Generator().manual_seed(n + 1)).float().cuda()
            out = torch.full_like(x, float("nan"))
            add[(triton.cdiv(n, 1024),)](out, x, y, n, BLOCK=1024)
            assert torch.equal(out.cpu(), x.cpu() + y.cpu())
        print(f"{n} sum {out.double().sum().item().hex()}")


if __name__ == "__main__":
    main()
