"""Shapes of the kernels that work by rows: softmax, norms, rotations, sums, the maximum."""
import torch
import torch.nn.functional as F

import ggml
from case import Case, compiled

A = torch.ops.aten
V, D, EPS = 128256, 128, 1e-5


def rms(x, w):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPS) * w


def rope_of(x, c, s):
    a, b = x.chunk(2, -1)
    return torch.cat((a * c - b * s, b * c + a * s), -1)


def softmax(divisor):
    for outer, axis, inner in ((32 * 2048, 2048, 1), (2048, 4096, 1), (1, V, 1), (512, 32000, 1), (16384, 131072, 1),
                               (64, 1024, 512)):
        outer = max(1, outer // divisor)
        n, shape = outer * axis * inner, f"{outer}x{axis}x{inner}"
        view = (outer, axis, inner) if inner > 1 else (outer, axis)
        is_small = outer == 1
        yield Case("softmax_f32", shape, lambda new, v=view: {"x": new.f32(*v), "y": new.empty(*v)},
                   lambda k, t, o=outer, a=axis, i=inner: k.softmax_f32(t["x"], t["y"], o, a, i), 8 * n, "copy",
                   {"eager": lambda t: A._softmax.out(t["x"], 1, False, out=t["y"]),
                    "compiled": compiled(lambda t: torch.softmax(t["x"], 1)),
                    **({"ggml": ggml.soft_max(outer, axis)} if inner == 1 else {})},
                   reference=lambda t: torch.softmax(t["x"].double(), 1), is_small=is_small)
        yield Case("scaled_softmax_f16", shape,
                   lambda new, v=view: {"x": new.f16(*v), "y": new.empty(*v, dtype=torch.float16)},
                   lambda k, t, o=outer, a=axis, i=inner: k.scaled_softmax_f16(t["x"], t["y"], 0.088, o, a, i), 4 * n, "copy",
                   {"compiled": compiled(lambda t: torch.softmax(t["x"].float() * 0.088, 1).half())},
                   reference=lambda t: torch.softmax(t["x"].double() * 0.088, 1), is_small=is_small)


NORM_SHAPES = [(rows, d) for d in (4096, 8192) for rows in (1, 16, 256, 2048, 8192)] + \
    [(2048, d) for d in (1000, 1152, 16384, 65536)] + [(65536, 2048)]


def norm(divisor):
    for rows, d in NORM_SHAPES:
        rows = max(1, rows // divisor)
        n, shape, is_small = rows * d, f"{rows}x{d}", rows <= 16
        make = lambda new, r=rows, d=d: {"x": new.f32(r, d), "r": new.f32(r, d), "w": new.f32(d), "y": new.empty(r, d),
                                         "s": new.empty(r, d)}
        exact = lambda t: rms(t["x"].double(), t["w"].double())
        yield Case("rms_norm_f32", shape, make, lambda k, t, r=rows, d=d: k.rms_norm_f32(t["x"], t["w"], t["y"], None, EPS, r, d),
                   8 * n + 4 * d, "copy",
                   {"eager": lambda t, d=d: A._fused_rms_norm(t["x"], [d], t["w"], EPS)[0],
                    "compiled": compiled(lambda t: rms(t["x"], t["w"])), "ggml": ggml.rms_norm(rows, d, EPS)},
                   reference=exact, is_small=is_small)
        yield Case("add_rms_norm_f32", shape, make,
                   lambda k, t, r=rows, d=d: k.add_rms_norm_f32(t["x"], t["r"], t["w"], t["y"], t["s"], EPS, r, d),
                   16 * n + 4 * d, "copy", {"compiled": compiled(lambda t: rms(t["x"] + t["r"], t["w"]))},
                   reference=lambda t: rms((t["x"] + t["r"]).double(), t["w"].double()), is_small=is_small)
        yield Case("rms_norm_add_f32", shape, make,
                   lambda k, t, r=rows, d=d: k.rms_norm_add_f32(t["x"], t["w"], t["r"], t["y"], EPS, r, d), 12 * n + 4 * d, "add",
                   {"compiled": compiled(lambda t: rms(t["x"], t["w"]) + t["r"])},
                   reference=lambda t: exact(t) + t["r"].double(), is_small=is_small)
        halves = lambda new, r=rows, d=d: {"x": new.f16(r, d), "q": new.codes(r, d), "w": new.f16(d),
                                           "y": new.empty(r, d, dtype=torch.float16)}
        yield Case("rms_norm_f16", shape, halves, lambda k, t, r=rows, d=d: k.rms_norm_f16(t["x"], t["w"], t["y"], EPS, r, d),
                   4 * n + 2 * d, "copy",
                   {"eager": lambda t, d=d: F.rms_norm(t["x"], (d,), t["w"], EPS),
                    "compiled": compiled(lambda t: rms(t["x"].float(), t["w"].float()).half())},
                   reference=exact, is_small=is_small)
        yield Case("rms_norm_e4m3_f16", shape, halves,
                   lambda k, t, r=rows, d=d: k.rms_norm_e4m3_f16(t["q"], t["w"], t["y"], 0.5, EPS, r, d), 3 * n + 2 * d, "copy",
                   {"compiled": compiled(lambda t: rms(t["q"].view(torch.float8_e4m3fn).float() * 0.5, t["w"].float()).half())},
                   is_small=is_small)


def rope(divisor):
    for heads, seq in ((32, 2048 // divisor), (64, 2048 // divisor), (32, 1)):
        yield Case("rope_f32", f"{heads}x{seq}x{D}",
                   lambda new, b=heads, s=seq: {"x": new.f32(b, s, D), "c": new.f32(s, D // 2), "s": new.f32(s, D // 2),
                                                "y": new.empty(b, s, D)},
                   lambda k, t, b=heads, s=seq: k.rope_f32(t["x"], t["c"], t["s"], t["y"], b, s, D, D // 2, D // 2),
                   8 * heads * seq * D, "copy", {"compiled": compiled(lambda t: rope_of(t["x"], t["c"], t["s"]))},
                   reference=lambda t: rope_of(t["x"].double(), t["c"].double(), t["s"].double()), is_small=seq == 1)
    for heads, queries, d in ((40, 32, 128), (72, 64, 128), (16, 8, 256)):
        yield Case("qk_norm_rope_f32", f"{heads}x{d}",
                   lambda new, n=heads, d=d: {"x": new.f32(n, d), "q": new.f32(d), "k": new.f32(d), "c": new.f32(d // 2),
                                              "s": new.f32(d // 2), "y": new.empty(n, d)},
                   lambda k, t, n=heads, m=queries, d=d: k.qk_norm_rope_f32(t["x"], t["q"], t["k"], t["c"], t["s"], t["y"], EPS,
                                                                            n, d, m, d // 2),
                   8 * heads * d, "copy",
                   {"compiled": compiled(lambda t, m=queries: rope_of(torch.cat((rms(t["x"][:m], t["q"]), rms(t["x"][m:], t["k"]))),
                                                                      t["c"], t["s"]))}, is_small=True)


def reduce(divisor):
    for n in (32000, V, 151936, 262144, 1 << 24):
        n //= divisor
        yield Case("argmax_f32", f"{n}", lambda new, n=n: {"x": new.f32(n), "y": new.integers(2, 1), "s": new.bytes(8 * (n // 256 + 1))},
                   lambda k, t, n=n: k.argmax_f32(t["x"], t["y"], n, t["s"], t["s"].numel()), 4 * n, "read",
                   {"eager": lambda t: torch.argmax(t["x"]), "compiled": compiled(lambda t: torch.argmax(t["x"]))},
                   is_small=n < 1 << 20)
    for outer, axis, inner in ((65536, 4096, 1), (1, 1 << 26, 1), (64, 4096, 1024), (4096, 64, 1)):
        outer, axis = (outer, axis // divisor) if outer == 1 else (max(1, outer // divisor), axis)
        yield Case("sum_axis_f32", f"{outer}x{axis}x{inner}",
                   lambda new, o=outer, a=axis, i=inner: {"x": new.f32(o, a, i), "y": new.empty(o, i), "s": new.bytes(1 << 22)},
                   lambda k, t, o=outer, a=axis, i=inner: k.sum_axis_f32(t["x"], t["y"], o, a, i, t["s"], t["s"].numel()),
                   4 * outer * axis * inner, "read",
                   {"eager": lambda t: torch.sum(t["x"], 1, out=t["y"]), "compiled": compiled(lambda t: t["x"].sum(1))},
                   reference=lambda t: t["x"].double().sum(1), hot=("s",), is_small=outer * axis * inner < 1 << 20)


def cases(divisor):
    for part in (softmax, norm, rope, reduce):
        yield from part(divisor)
