"""A small transformer memorises data: 4 layers, 30 steps; the losses must be equal to the last bit.

    torch_train.py [--time] [--steps N]

The runner sets PYTORCH_NO_CUDA_MEMORY_CACHING=1, so that every tensor is a cudaMalloc.  With --time the model is larger
and the median of a step is printed instead.
"""
import json
import os
import sys
import time

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # deterministic matrix products need it
try:
    import torch
    from torch import nn
except ImportError:
    print("no torch", file=sys.stderr)
    sys.exit(77)


class Block(nn.Module):
    def __init__(self, width, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.before_attention = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.before_mlp = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        n, length, width = x.shape
        q, k, v = (part.view(n, length, self.n_heads, -1).transpose(1, 2)
                   for part in self.qkv(self.before_attention(x)).chunk(3, dim=-1))
        scores = (q @ k.transpose(-2, -1)) * (width // self.n_heads) ** -0.5
        hidden = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
        weights = scores.masked_fill(hidden, float("-inf")).softmax(dim=-1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(n, length, width))
        return x + self.mlp(self.before_mlp(x))


class Model(nn.Module):
    def __init__(self, n_words, width, n_heads, n_layers, length):
        super().__init__()
        self.words = nn.Embedding(n_words, width)
        self.places = nn.Parameter(torch.randn(length, width) * 0.02)
        self.blocks = nn.Sequential(*(Block(width, n_heads) for _ in range(n_layers)))
        self.head = nn.Linear(width, n_words)

    def forward(self, tokens):
        return self.head(self.blocks(self.words(tokens) + self.places))


def main():
    is_timed = "--time" in sys.argv
    n_steps = int(sys.argv[sys.argv.index("--steps") + 1]) if "--steps" in sys.argv else 30
    width, length, n_batch, n_words = (512, 256, 16, 4096) if is_timed else (128, 64, 8, 512)
    torch.manual_seed(1)
    torch.use_deterministic_algorithms(True)
    torch.backends.cuda.matmul.allow_tf32 = False
    model = Model(n_words, width, 8, 4, length).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    tokens = torch.randint(n_words, (n_batch, length + 1), generator=torch.Generator().manual_seed(2)).cuda()
    times = []
    for step in range(n_steps):
        start = time.perf_counter()
        logits = model(tokens[:, :-1])
        loss = nn.functional.cross_entropy(logits.reshape(-1, n_words), tokens[:, 1:].reshape(-1))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        value = loss.item()  # waits for the step to complete
        times.append(time.perf_counter() - start)
        if not is_timed:
            print(f"step {step:2d} loss {value.hex()}")
    if is_timed:
        steps = sorted(times[5:])
        print(json.dumps({"case": "torch-step", "n": len(steps), "p0_ns": round(1e9 * steps[0]),
                          "p50_ns": round(1e9 * steps[len(steps) // 2]),
                          "p99_ns": round(1e9 * steps[(len(steps) - 1) * 99 // 100]),
                          "max_ns": round(1e9 * steps[-1]), "loss": value.hex()}))
    else:
        total = sum(float(p.detach().double().abs().sum().cpu()) for p in model.parameters())
        print(f"weights {total.hex()}")


main()
