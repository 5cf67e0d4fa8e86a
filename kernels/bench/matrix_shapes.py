"""Shapes of the matrix kernels: products with quantised weights, of vectors, small ones, attention, decode."""
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import ggml
import quantised
from case import Case, compiled
from library import KvCache, KvStrides

H, FF, V, D = 4096, 14336, 128256, 128
MODELS = {"8B": {"qkv": (6144, H), "o": (H, H), "gate": (FF, H), "down": (H, FF), "lm_head": (V, H)},
          "7B": {"o": (3584, 3584), "gate": (18944, 3584), "down": (3584, 18944)},
          "14B": {"o": (5120, 5120), "gate": (13824, 5120), "down": (5120, 13824)},
          "70B": {"qkv": (10240, 8192), "o": (8192, 8192), "gate": (28672, 8192), "down": (8192, 28672), "lm_head": (V, 8192)}}
N_COLUMNS = (1, 2, 4, 8, 16, 32, 64, 128, 512, 2048)


def weights(divisor):
    for model, layers in MODELS.items():
        for layer, (m, k) in layers.items():
            yield f"{model}-{layer}-{m // divisor}x{k}", m // divisor, k


def gemv(divisor):
    for shape, m, k in weights(divisor):
        yield Case("gemv_f32", shape, lambda new, m=m, k=k: {"w": new.f32(m, k), "x": new.f32(k), "y": new.empty(m)},
                   lambda lib, t, m=m, k=k: lib.gemv_f32(t["w"], t["x"], t["y"], m, k), 4 * (m * k + m + k), "read",
                   {"mv": lambda t: torch.mv(t["w"], t["x"], out=t["y"]), "linear": lambda t: F.linear(t["x"][None], t["w"])},
                   reference=lambda t: torch.mv(t["w"].double(), t["x"].double()), hot=("x",))
        yield Case("gemv_q4k_f32", shape,
                   lambda new, m=m, k=k: {"w": quantised.q4k(new, m, k), "x": new.f32(k), "y": new.empty(m)},
                   lambda lib, t, m=m, k=k: lib.gemv_q4k_f32(t["w"], t["x"], t["y"], m, k), m * k * 9 // 16 + 4 * (m + k), "read",
                   reference=lambda t: torch.mv(quantised.plain_q4k(t["w"]).double(), t["x"].double()), hot=("x",))
    m, k = FF // divisor, H
    yield Case("dequant_q4k_f32", f"{m}x{k}", lambda new: {"w": quantised.q4k(new, m, k), "y": new.empty(m, k)},
               lambda lib, t: lib.dequant_q4k_f32(t["w"], t["y"], m, k), m * k * 9 // 16 + 4 * m * k, "write",
               {"compiled": compiled(lambda t: quantised.plain_q4k(t["w"]))})


def plain_mm(plain):
    return lambda t: torch.mm(plain(t).double(), t["x"].double())


def most_scratch(k, n):
    """In floats, at least what gemm_scratch() returns: a value of each column, sums, and factors."""
    return k * ((n + 63) // 64 * 64) * 277 // 256 if n > 8 else 0


def scratch(t):
    return (t["scratch"], 4 * t["scratch"].numel()) if t["scratch"].numel() else (None, 0)


def product(word, m, k, n):
    return lambda lib, t: getattr(lib, f"gemm_{word}_f32")(*(t[name] for name in ("d", "w") if name in t), t["x"], t["y"], m, k, n,
                                                           *scratch(t))


def gemm(divisor):
    for word, block_bytes in (("q4_0", 18), ("q8_0", 34), ("q8f", 36)):
        make, plain = getattr(quantised, word), getattr(quantised, f"plain_{word}")
        for shape, m, k in weights(divisor):
            for n in N_COLUMNS if "gate" in shape else (1, 8):
                yield Case(f"gemm_{word}_f32", f"{shape}x{n}",
                           lambda new, m=m, k=k, n=n, q=make: {**q(new, m, k), "x": new.f32(k, n), "y": new.empty(m, n),
                                                                    "scratch": new.empty(most_scratch(k, n))},
                           product(word, m, k, n),
                           m * k // 32 * block_bytes + 4 * n * (m + k), "read",
                           {"mm of the plain matrix": lambda t, p=plain: torch.mm(plain_once(t, p), t["x"], out=t["y"])},
                           ({"ggml": ggml.mul_mat(word, m, k, n)} if word in ggml.TYPES else {}) |
                           ({"bf16": lambda t, p=plain: torch.mm(once(t, "bf16", plain_once(t, p).bfloat16),
                                                                 t["x"].bfloat16())} if n > 8 else {}),
                           reference=plain_mm(plain) if n <= 128 else None, hot=("x", "scratch"), n_flops=2 * m * k * n)


def gemm_of_superblocks(divisor):
    for word, n_bytes in (("q4k", 144), ("q5_0", 8 * 22), ("q5k", 176), ("q6k", 210)):  # of 256 values
        make, plain = getattr(quantised, word), getattr(quantised, f"plain_{word}")
        for shape, m, k in weights(divisor):
            for n in (1, 2, 8, 16, 64, 512, 2048) if "gate" in shape else (1,):
                yield Case(f"gemm_{word}_f32", f"{shape}x{n}",
                           lambda new, m=m, k=k, n=n, q=make: {"w": q(new, m, k), "x": new.f32(k, n), "y": new.empty(m, n),
                                                                    "scratch": new.empty(most_scratch(k, n))},
                           product(word, m, k, n),
                           m * k // 256 * n_bytes + 4 * n * (m + k), "read",
                           {"mm of the plain matrix": lambda t, p=plain: torch.mm(plain_once(t, lambda t: p(t["w"])), t["x"], out=t["y"])},
                           {"ggml": ggml.mul_mat(word, m, k, n)},
                           reference=plain_mm(lambda t, p=plain: p(t["w"])) if n <= 64 else None, hot=("x", "scratch"), n_flops=2 * m * k * n)


def once(t, name, make):
    """What a peer prepares, which is not measured."""
    if name not in t:
        t[name] = make()
    return t[name]


def plain_once(t, plain):
    return once(t, "plain", lambda: plain(t))


def small(divisor):
    for m, n, k, batch in ((8, 8, 8, 65536), (16, 16, 16, 16384), (64, 64, 64, 1024)):
        batch //= divisor
        yield Case("gemm_batched_small_f32", f"{batch}x{m}x{n}x{k}",
                   lambda new, m=m, n=n, k=k, b=batch: {"a": new.f32(b, m, k), "b": new.f32(b, k, n), "y": new.empty(b, m, n)},
                   lambda lib, t, m=m, n=n, k=k, b=batch: lib.gemm_batched_small_f32(t["a"], t["b"], t["y"], m, n, k, m * k, k * n,
                                                                                      m * n, b),
                   4 * batch * (m * k + k * n + m * n), "add", {"bmm": lambda t: torch.bmm(t["a"], t["b"], out=t["y"])},
                   reference=lambda t: torch.bmm(t["a"].double(), t["b"].double()), n_flops=2 * batch * m * n * k)


def backend(which, function):
    def run(t):
        with sdpa_kernel(which):
            return function(t)
    return run


def attention(divisor):
    shapes = [(1, 32, s, 128) for s in (512, 1024, 2048, 4096, 8192)] + [(1, 64, 4096, 128), (4, 32, 2048, 64)]
    for b, h, s, d in shapes:
        s //= divisor
        for is_causal in (True, False):
            make = lambda new, v=(b, h, s, d): {"q": new.f32(*v), "k": new.f32(*v), "v": new.f32(*v), "y": new.empty(*v)}
            sdpa = lambda t, c=is_causal: F.scaled_dot_product_attention(t["q"], t["k"], t["v"], is_causal=c)
            half = lambda t, c=is_causal: F.scaled_dot_product_attention(
                *(once(t, name + " f16", t[name].half) for name in "qkv"), is_causal=c)
            exact = lambda t, c=is_causal: F.scaled_dot_product_attention(t["q"].double(), t["k"].double(), t["v"].double(), is_causal=c)
            yield Case("attention_f32", f"{b}x{h}x{s}x{d}" + ("-causal" if is_causal else ""), make,
                       lambda lib, t, v=(b, h, s, d), c=is_causal: lib.attention_f32(t["q"], t["k"], t["v"], t["y"], *v, c),
                       16 * b * h * s * d, "copy",
                       {"efficient": backend(SDPBackend.EFFICIENT_ATTENTION, sdpa), "math": backend(SDPBackend.MATH, sdpa)},
                       {"f16 cuDNN": backend(SDPBackend.CUDNN_ATTENTION, half)},
                       reference=exact if s <= 2048 else None, n_flops=(2 if is_causal else 4) * b * h * s * s * d)


def bmm(t):
    scores = torch.matmul(t["q"], t["k"].transpose(-1, -2)) * t["q"].shape[-1] ** -0.5
    return torch.matmul(torch.softmax(scores, -1), t["v"])


def decode(divisor):
    for b, hq, hkv, d in ((1, 32, 8, 128), (1, 64, 8, 128), (1, 8, 1, 256), (8, 32, 8, 128), (32, 32, 8, 128)):
        for length in (128, 1024, 4096, 8192, 32768, 131072):
            length //= divisor
            if 8 * b * hkv * length * d > 16 << 30:
                continue
            fold = lambda t: F.scaled_dot_product_attention(t["q"], t["k"], t["v"])
            yield Case("attention_decode_f32", f"{b}x{hq}x{hkv}x{d}-{length}",
                       lambda new, b=b, hq=hq, hkv=hkv, d=d, n=length: {
                           "q": new.f32(b, hkv, hq // hkv, d), "k": new.f32(b, hkv, n, d), "v": new.f32(b, hkv, n, d),
                           "n": new.number(n), "y": new.empty(b, hkv, hq // hkv, d), "s": new.bytes(1 << 24)},
                       lambda lib, t, b=b, hq=hq, hkv=hkv, d=d, n=length: lib.attention_decode_f32(
                           t["q"], t["k"], t["v"], t["n"], t["y"], b, hq, hkv, d, n, n,
                           KvStrides(hkv * n * d, n * d, d), t["s"], t["s"].numel()),
                       8 * b * hkv * length * d, "read",
                       {"folded": backend(SDPBackend.EFFICIENT_ATTENTION, fold), "bmm": bmm, "bmm compiled": compiled(bmm)},
                       reference=lambda t: bmm({name: t[name].double() for name in "qkv"}), hot=("q", "s"), is_small=length <= 1024)


def cached(divisor):
    """A step or a chunk of queries over caches of each type, [position][head], whole or in blocks of 16 positions in any order; a
    step also over [head][position], as its peers; steps of many sequences, and a few queries, over f16."""
    hq, hkv, d, block_len, types = 32, 8, D, 16, {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}

    def is_by_head(t):
        return t["k"].shape[1] == hkv

    def plain(t, name):
        """[batch][head][position], in order, which the peers read."""
        if is_by_head(t):
            return t[name]
        return once(t, f"plain {name}", lambda: t[name].view(-1, block_len * hkv * d)[t["order"].long()].view(t[name].shape).transpose(1, 2).contiguous())

    def sdpa(t, n_heads=hq):
        q = once(t, "plain q", lambda: t["q"].to(t["k"].dtype)).view(-1, n_heads, hq // n_heads, d)
        return F.scaled_dot_product_attention(q, plain(t, "k"), plain(t, "v"), enable_gqa=n_heads != hkv)

    def folded(t):
        return sdpa(t, hkv)

    def of_ggml(b, n):
        return ggml.attention((d, 1, hq, b), (d, n, hkv, b), lambda t: (plain(t, "k"), plain(t, "v")))

    def chunk(t):
        q = once(t, "plain q", lambda: t["q"].to(t["k"].dtype).transpose(1, 2).contiguous())
        return F.scaled_dot_product_attention(q, plain(t, "k"), plain(t, "v"), is_causal=True, enable_gqa=True)

    def exact_chunk(t):
        q, k, v = (x.double() for x in (t["q"].transpose(1, 2), plain(t, "k"), plain(t, "v")))
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True).transpose(1, 2)

    def exact_few(t):
        """Of the last queries."""
        q, k, v = (x.double() for x in (t["q"].transpose(1, 2), plain(t, "k"), plain(t, "v")))
        is_seen = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=k.device).tril(k.shape[2] - q.shape[2])
        return F.scaled_dot_product_attention(q, k, v, attn_mask=is_seen, enable_gqa=True).transpose(1, 2)

    def ours(lib, t, b, n, kind, layout, n_queries=1):
        row, is_in_blocks = hkv * d, layout == "-blocks"
        strides = KvStrides(n * row, n * d, d) if is_by_head(t) else KvStrides((block_len if is_in_blocks else n) * row, d, row)
        cache = KvCache(t["k"].data_ptr(), t["v"].data_ptr(), strides, None, None, n,
                        t["order"].data_ptr() if is_in_blocks else None, n // block_len, block_len, kind, False)
        lib.attention_cached_f32(t["q"], cache, None, None, t["y"], b, hq, hkv, d, n_queries, True, t["s"], t["s"].numel())

    def make(new, b, n, kind, layout, shape):
        order = torch.rand(b * n // block_len, device=new.device, generator=new.draw).argsort()
        of_cache = (b, hkv, n, d) if layout == "-heads" else (b, n, hkv, d)
        return {"q": new.f32(*shape), "k": new.f32(*of_cache).to(kind), "v": new.f32(*of_cache).to(kind),
                "order": (order if layout == "-blocks" else order.sort().values).int(), "y": new.empty(*shape), "s": new.bytes(1 << 24)}

    few = ((1, 4096), (1, 32768), (16, 4096), (16, 32768))
    many = ((20, 1000), (24, 4096), (32, 256), (32, 2048), (40, 1000), (64, 512), (64, 1024), (100, 1000), (128, 2048), (256, 128),
            (256, 256), (256, 1024))
    for b, n in few + many:
        is_of_few, n = (b, n) in few, n // divisor
        for number, (name, kind) in enumerate(types.items()):
            for layout in ("", "-blocks", "-heads") if is_of_few else ("-heads",) if name == "f16" else ():
                peers = {"folded": backend(SDPBackend.EFFICIENT_ATTENTION, folded)} if kind == torch.float32 else {}
                halves = {"flash": backend(SDPBackend.FLASH_ATTENTION, sdpa), "cuDNN": backend(SDPBackend.CUDNN_ATTENTION, sdpa),
                          "cuDNN folded": backend(SDPBackend.CUDNN_ATTENTION, folded), **({"ggml": of_ggml(b, n)} if kind == torch.float16 and n % 256 == 0 else {})}  # it aborts otherwise
                yield Case("attention_cached_f32", f"{name}-{b}x{hq}x{hkv}x{d}-{n}{layout}",
                           lambda new, v=(b, n, kind, layout, (b, hq, 1, d)): make(new, *v),
                           lambda lib, t, v=(b, n, number, layout): ours(lib, t, *v),
                           2 * kind.itemsize * b * hkv * n * d, "read", peers, {} if peers else halves,
                           reference=lambda t, b=b: bmm({"q": t["q"].view(b, hkv, -1, d).double(), "k": plain(t, "k").double(),
                                                         "v": plain(t, "v").double()}), hot=("q", "s", "order"))
    for b, n_queries, n in ((1, 8, 512), (1, 8, 32768), (1, 32, 128), (1, 32, 1024), (1, 32, 4096), (1, 32, 32768), (2, 32, 128), (2, 32, 512),
                            (2, 32, 1024), (2, 32, 4096), (6, 9, 4096)):
        n //= divisor
        n_queries = min(n_queries, n)
        yield Case("attention_cached_f32", f"f16-{b}x{n_queries}-queries-{hq}x{hkv}x{d}-{n}",
                   lambda new, v=(b, n, types["f16"], "-heads", (b, n_queries, hq, d)): make(new, *v),
                   lambda lib, t, v=(b, n, 1, "-heads", n_queries): ours(lib, t, *v),
                   4 * b * hkv * n * d, "read", reference=exact_few if n <= 4096 else None, hot=("q", "s", "order"))
    for n in (512, 2048, 4096):
        n //= divisor
        for number, (name, kind) in enumerate(types.items()):
            halves = {"flash": backend(SDPBackend.FLASH_ATTENTION, chunk), "cuDNN": backend(SDPBackend.CUDNN_ATTENTION, chunk)}
            for layout in ("", "-blocks"):
                yield Case("attention_cached_f32", f"{name}-chunk-{hq}x{hkv}x{d}-{n}{layout}",
                           lambda new, v=(1, n, kind, layout, (1, n, hq, d)): make(new, *v),
                           lambda lib, t, v=(1, n, number, layout, n): ours(lib, t, *v),
                           n * d * (8 * hq + 2 * kind.itemsize * hkv), "copy", {}, {} if kind == torch.float32 else halves,
                           reference=exact_chunk if n <= 2048 else None, n_flops=2 * hq * n * n * d)


def cases(divisor):
    for part in (gemv, gemm, gemm_of_superblocks, small, attention, decode, cached):
        yield from part(divisor)
