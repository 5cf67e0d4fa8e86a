"""Shapes of the kernels that stream through memory: elementwise, broadcast, conversion, activation, layout."""
import math

import torch
import torch.nn.functional as F

import ggml
from case import Case, compiled

N_FLAT = (4096, 1 << 20, 1 << 24, 1 << 26, 1 << 28)
H, FF, V = 4096, 14336, 128256
UNARY = {"exp": torch.exp, "log": torch.log, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt, "sin": torch.sin, "cos": torch.cos,
         "tanh": torch.tanh}
BINARY = {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div}


def into(function):
    return lambda t: function(t["a"], t["b"], out=t["y"])


def flat(sizes):
    for n in sizes:
        small, count = n <= 4096, f"{n}"
        pair = lambda new, n=n: {"a": new.positive(n), "b": new.positive(n), "y": new.empty(n)}
        one = lambda new, n=n: {"a": new.positive(n), "y": new.empty(n)}
        for name, function in {**BINARY, "pow": torch.pow}.items():
            yield Case(f"{name}_f32", count, pair, lambda k, t, f=f"{name}_f32", n=n: getattr(k, f)(t["a"], t["b"], t["y"], n),
                       12 * n, "add", {"eager": into(function)}, is_small=small)
        for name, function in BINARY.items():
            yield Case(f"{name}_scalar_f32", count, one,
                       lambda k, t, f=f"{name}_scalar_f32", n=n: getattr(k, f)(t["a"], t["y"], 1.5, n), 8 * n, "copy",
                       {"eager": lambda t, g=function: g(t["a"], torch.tensor(1.5), out=t["y"])}, is_small=small)
            halves = lambda new, n=n: {"a": new.f16(n), "b": new.f16(n) + 2, "y": new.empty(n, dtype=torch.float16)}
            yield Case(f"{name}_f16", count, halves, lambda k, t, f=f"{name}_f16", n=n: getattr(k, f)(t["a"], t["b"], t["y"], n),
                       6 * n, "add", {"eager": into(function)}, is_small=small)
        yield Case("pow_scalar_f32", count, one, lambda k, t, n=n: k.pow_scalar_f32(t["a"], t["y"], 1.7, n), 8 * n, "copy",
                   {"eager": lambda t: torch.pow(t["a"], 1.7, out=t["y"])}, is_small=small)
        yield Case("fill_f32", count, lambda new, n=n: {"y": new.empty(n)}, lambda k, t, n=n: k.fill_f32(t["y"], 1.5, n), 4 * n,
                   "write", {"eager": lambda t: t["y"].fill_(1.5)}, is_small=small)
        for name, function in UNARY.items():
            yield Case(f"{name}_f32", count, one, lambda k, t, f=f"{name}_f32", n=n: getattr(k, f)(t["a"], t["y"], n), 8 * n,
                       "copy", {"eager": lambda t, g=function: g(t["a"], out=t["y"])}, is_small=small)
        yield Case("convert_f32_f16", count, lambda new, n=n: {"a": new.f32(n), "y": new.empty(n, dtype=torch.float16)},
                   lambda k, t, n=n: k.convert_f32_f16(t["a"], t["y"], n), 6 * n, "copy",
                   {"eager": lambda t: t["y"].copy_(t["a"])}, is_small=small)
        yield Case("convert_f16_f32", count, lambda new, n=n: {"a": new.f16(n), "y": new.empty(n)},
                   lambda k, t, n=n: k.convert_f16_f32(t["a"], t["y"], n), 6 * n, "copy",
                   {"eager": lambda t: t["y"].copy_(t["a"])}, is_small=small)
        codes = lambda new, n=n: {"a": new.codes(n), "b": new.codes(n), "y": new.empty(n, dtype=torch.float16)}
        wide = lambda q: q.view(torch.float8_e4m3fn).float()
        yield Case("dequant_e4m3_f16", count, codes, lambda k, t, n=n: k.dequant_e4m3_f16(t["a"], t["y"], 0.5, n), 3 * n, "copy",
                   {"compiled": compiled(lambda t: (wide(t["a"]) * 0.5).half())}, is_small=small)
        yield Case("add_e4m3_f16", count, codes, lambda k, t, n=n: k.add_e4m3_f16(t["a"], t["b"], t["y"], 0.5, 0.25, n), 4 * n,
                   "add", {"compiled": compiled(lambda t: (wide(t["a"]) * 0.5 + wide(t["b"]) * 0.25).half())}, is_small=small)


def broadcast(divisor):
    rows, cols = 2048 // divisor, H
    for shape, b_shape, strides in ((f"{rows}x{cols}+row", (cols,), (0, 1)), (f"{rows}x{cols}+column", (rows, 1), (1, 0))):
        yield Case("add_broadcast2d_f32", shape,
                   lambda new, s=b_shape: {"a": new.f32(rows, cols), "b": new.f32(*s), "y": new.empty(rows, cols)},
                   lambda k, t, s=strides: k.add_broadcast2d_f32(t["a"], t["b"], t["y"], cols, 1, *s, rows, cols),
                   4 * (2 * rows * cols + math.prod(b_shape)), "copy", {"eager": into(torch.add)})
    n = 2048 // divisor
    yield Case("add_broadcast4d_f32", f"1x32x{n}x{n}+1x1x{n}x{n}",
               lambda new: {"a": new.f32(1, 32, n, n), "b": new.f32(1, 1, n, n), "y": new.empty(1, 32, n, n)},
               lambda k, t: k.add_broadcast4d_f32(t["a"], t["b"], t["y"], [1, 32, n, n], [32 * n * n, n * n, n, 1], [0, 0, n, 1]),
               4 * 65 * n * n, "copy", {"eager": into(torch.add)})


def activation(divisor):
    for rows in (1, 64, 2048 // divisor):
        n = rows * FF
        pair = lambda new, n=n: {"a": new.f32(n), "b": new.f32(n), "y": new.empty(n)}
        yield Case("swiglu_f32", f"{rows}x{FF}", pair, lambda k, t, n=n: k.swiglu_f32(t["a"], t["b"], t["y"], n), 12 * n, "add",
                   {"compiled": compiled(lambda t: F.silu(t["a"]) * t["b"])},
                   reference=lambda t: F.silu(t["a"].double()) * t["b"].double(), is_small=rows == 1)
        yield Case("tanh_prime_f32", f"{rows}x{FF}", pair, lambda k, t, n=n: k.tanh_prime_f32(t["a"], t["b"], t["y"], n), 12 * n,
                   "add", {"compiled": compiled(lambda t: (1 - torch.tanh(t["a"]) ** 2) * t["b"])},
                   reference=lambda t: (1 - torch.tanh(t["a"].double()) ** 2) * t["b"].double(), is_small=rows == 1)


def layout(divisor):
    for m, n in ((8192 // divisor, 8192), (H, FF // divisor), (1000, 1003), (32, 10 ** 6)):
        yield Case("transpose2d_f32", f"{m}x{n}", lambda new, m=m, n=n: {"a": new.f32(m, n), "y": new.empty(n, m)},
                   lambda k, t, m=m, n=n: k.transpose2d_f32(t["a"], t["y"], m, n), 8 * m * n, "copy",
                   {"eager": lambda t: t["y"].copy_(t["a"].t()), "compiled": compiled(lambda t: t["a"].t().contiguous())})
    shape = (2, 2048 // divisor, 32, 128)
    for order in ((0, 2, 1, 3), (3, 2, 1, 0)):
        yield Case("transpose_nd_f32", "x".join(map(str, shape)) + "-" + "".join(map(str, order)),
                   lambda new, p=order: {"a": new.f32(*shape), "y": new.empty(*[shape[i] for i in p])},
                   lambda k, t, p=order: k.transpose_nd_f32(t["a"], t["y"], shape, p, 4), 8 * math.prod(shape), "copy",
                   {"eager": lambda t, p=order: t["y"].copy_(t["a"].permute(p)),
                    "compiled": compiled(lambda t, p=order: t["a"].permute(p).contiguous())})
    inner = 2048 * 128 // divisor
    yield Case("repeat_f32", f"8x1x{inner}-by-4", lambda new: {"a": new.f32(8, 1, inner), "y": new.empty(8, 4, inner)},
               lambda k, t: k.repeat_f32(t["a"], t["y"], 8, 1, inner, 4), 5 * 4 * 8 * inner, "write",
               {"eager": lambda t: t["y"].copy_(t["a"].expand(8, 4, inner))})
    rows, cols = 8192 // divisor, 4096
    yield Case("strided_copy", f"{rows}x{cols}-of-8192", lambda new: {"a": new.f32(rows, 8192), "y": new.empty(rows, cols)},
               lambda k, t: k.strided_copy(t["a"], t["y"], [rows, cols], [8192, 2], 2, 4), 8 * rows * cols, "copy",
               {"eager": lambda t: t["y"].copy_(t["a"][:, ::2])})


def gather(divisor):
    for n in (1, 512, 2048, 8192):
        for d in (4096, 8192):
            v = V // divisor
            yield Case("gather_f32_i64", f"{n}x{d}",
                       lambda new, n=n, d=d: {"a": new.table(v, d), "i": new.integers(v, n), "y": new.empty(n, d)},
                       lambda k, t, n=n, d=d: k.gather_f32_i64(t["a"], t["i"], t["y"], n, d, v), 8 * n * d + 8 * n, "copy",
                       {"eager": lambda t: torch.index_select(t["a"], 0, t["i"], out=t["y"]), "ggml": ggml.get_rows(n, d, v)}, hot=("a",), is_small=n == 1)


def position():
    counter = lambda new: {"y": new.number(5)}
    yield Case("counter_add_i32", "1", counter, lambda k, t: k.counter_add_i32(t["y"], 1), 8,
               peers={"eager": lambda t: t["y"].add_(1)}, is_small=True)
    yield Case("counter_set_i32", "1", counter, lambda k, t: k.counter_set_i32(t["y"], 7), 4,
               peers={"eager": lambda t: t["y"].fill_(7)}, is_small=True)
    yield Case("offset_memcpy_f32", "1024", lambda new: {"a": new.f32(1, 1024), "p": new.number(5), "y": new.f32(4096, 1024)},
               lambda k, t: k.offset_memcpy_f32(t["a"], t["p"], t["y"], 1024, 4096), 8192,
               peers={"eager": lambda t: t["y"].index_copy_(0, t["p"].long(), t["a"])}, is_small=True)
    yield Case("rope_select_f32", "64", lambda new: {"c": new.f32(8192, 64), "s": new.f32(8192, 64), "p": new.number(5),
                                                     "y": new.empty(1, 64), "z": new.empty(1, 64)},
               lambda k, t: k.rope_select_f32(t["c"], t["s"], t["p"], t["y"], t["z"], 8192, 64), 1024,
               peers={"eager": lambda t: torch.index_select(t["c"], 0, t["p"], out=t["y"])}, is_small=True)


def cases(divisor):
    yield from flat(N_FLAT if divisor == 1 else (4096, 1 << 14))
    yield from broadcast(divisor)
    yield from activation(divisor)
    yield from layout(divisor)
    yield from gather(divisor)
    yield from position()
