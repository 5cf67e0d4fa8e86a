"""Large tensors: elementwise functions, gathers, appends and copies into another order."""
import math

from kernels_large_fixture import (D, D_ROWS, DEVICE, F16, F32, F64, I16, I32, I64, N, U8, close, e4m3_values, each, integers,
                               large, less, new, number, ours, parts, same_bits, torch, uniform, wait)


# ---- elementwise, activation ----

@large(25)
def add_f32():
    n = less(N)
    a, b, c = uniform(n), uniform(n), new(n)
    ours.add_f32(a, b, c, n)
    each(n, c, lambda i, k: a[i:k] + b[i:k])


@large(17)
def mul_scalar_f32():
    n = less(N)
    a, c = uniform(n), new(n)
    ours.mul_scalar_f32(a, c, 1.75, n)
    each(n, c, lambda i, k: a[i:k] * 1.75)


@large(17)
def pow_scalar_f32():
    n = less(N)
    a, c = uniform(n, 0.5, 2.0), new(n)
    ours.pow_scalar_f32(a, c, 1.75, n)
    each(n, c, lambda i, k: a[i:k].double() ** 1.75, 8e-7)


@large(17)
def exp_f32():
    n = less(N)
    a, c = uniform(n, -5.0, 5.0), new(n)
    ours.exp_f32(a, c, n)
    each(n, c, lambda i, k: a[i:k].double().exp(), 4e-7)


@large(9)
def fill_f32():
    n = less(N)
    y = new(n)
    ours.fill_f32(y, 1.5, n)
    each(n, y, lambda i, k: torch.full((k - i,), 1.5, dtype=F32, device=DEVICE))


@large(13)
def add_f16():
    n = less(N)
    a, b, c = uniform(n, dtype=F16), uniform(n, dtype=F16), new(n, F16)
    ours.add_f16(a, b, c, n)
    each(n, c, lambda i, k: a[i:k] + b[i:k])


def philox(i, key):
    """The first word of Philox4x32-10."""
    c, k, mask = [i & 0xFFFFFFFF, i >> 32, 0, 0], [key & 0xFFFFFFFF, key >> 32], 0xFFFFFFFF
    for _ in range(10):
        p, q = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(q >> 32) ^ c[1] ^ k[0], q & mask, (p >> 32) ^ c[3] ^ k[1], p & mask]
        k = [(k[0] + 0x9E3779B9) & mask, (k[1] + 0xBB67AE85) & mask]
    return c[0]


@large(17)
def dropout_f32():
    n, key, p, scale = less(N), 0x123456789ABCDEF, 0.25, 1.5
    x, y = uniform(n, 1.0, 2.0), new(n)
    ours.dropout_f32(x, y, 0.0, scale, key, n)
    each(n, y, lambda i, k: x[i:k])
    ours.dropout_f32(x, y, p, scale, key, n)
    wait()
    for a, b in parts(n):
        is_kept = y[a:b] != 0
        same_bits(y[a:b], torch.where(is_kept, x[a:b] * scale, torch.zeros_like(x[a:b])), a)
        off = abs(int(is_kept.sum()) / (b - a) - (1 - p)) / math.sqrt(p * (1 - p) / (b - a))
        assert off < 6, f"from [{a}] on the share kept is {off:.1f} deviations off"
    for i in {*range(100), *range(n - 100, n), *range(max(0, min(n, 1 << 31) - 100), min(n, (1 << 31) + 100))}:
        word = philox(i, key)
        if abs(word * 2.0 ** -32 - p) > 1e-6:
            assert (y[i].item() != 0) == (word * 2.0 ** -32 >= p), f"[{i}]: the word is {word:#x}, the result {y[i].item()}"


@large(42)
def adamw_f32():
    n = less(N)
    p, m, v, g = uniform(n), uniform(n), uniform(n, 0.5, 1.0, F64), uniform(n)
    ends = [(0, min(n, 1000)), (max(0, n - 1000), n), (max(0, min(n, 1 << 31) - 500), min(n, (1 << 31) + 500))]
    before = [[t[a:b].clone() for t in (p, m, v, g)] for a, b in ends]
    ours.adamw_f32(p, m, v, g, 0.9, 0.999, 0.1, 0.001, 1e-8, 0.01, 0.001, n)
    wait()
    for (a, b), (of_p, of_m, of_v, of_g) in zip(ends, before):
        first = 0.9 * of_m.double() + 0.1 * of_g.double()
        second = 0.999 * of_v + 0.001 * of_g.double().square()
        close(p[a:b], of_p.double() - 0.01 * first / (second.sqrt() + 1e-8) - 0.001 * of_p.double(), a, 2e-7, 1e-9, "p")
        close(m[a:b], first, a, 2e-7, what="m")
        close(v[a:b], second, a, 1e-15, what="v")
    for a, b in parts(n):  # the same step was made everywhere
        assert not (g[a:b] != 0).any(), f"a gradient from [{a}] on is left"
        assert bool(((v[a:b] > 0.4995) & (v[a:b] < 1.001)).all()), f"a moment from [{a}] on is not of the step"


@large(25)
def swiglu_f32():
    n = less(N)
    a, b, y = uniform(n, -8.0, 8.0), uniform(n), new(n)
    ours.swiglu_f32(a, b, y, n)
    each(n, y, lambda i, k: a[i:k].double() / (1 + (-a[i:k].double()).exp()) * b[i:k].double(), 2e-6, 1e-36)


@large(25)
def tanh_prime_f32():
    n = less(N)
    a, b, y = uniform(n, -4.0, 4.0), uniform(n), new(n)
    ours.tanh_prime_f32(a, b, y, n)
    each(n, y, lambda i, k: (1 - a[i:k].double().tanh() ** 2) * b[i:k].double(), 2e-6, 1e-36)


# ---- broadcast, convert ----

@large(17)
def broadcast2d_by_row_and_by_column():
    rows, cols = less(50_000), 44_001
    a, c = uniform(rows * cols), new(rows * cols)
    for function, op, count, strides in (("add", torch.add, cols, (0, 1)), ("mul", torch.mul, rows, (1, 0))):
        b = uniform(count)
        getattr(ours, f"{function}_broadcast2d_f32")(a, b, c, cols, 1, *strides, rows, cols)
        wait()
        for i, k in parts(rows, cols):
            other = b[None, :] if strides[1] else b[i:k, None]
            same_bits(c[i * cols:k * cols], op(a[i * cols:k * cols].view(-1, cols), other), i * cols, function)


@large(17)
def broadcast4d_with_axes_in_another_order():
    d = (7, less(311), 1000, 1011)
    n = math.prod(d)
    a, b, c = uniform(n), uniform(d[1] * d[3]), new(n)
    ours.sub_broadcast4d_f32(a, b, c, d, (d[1] * d[2] * d[3], d[3], d[1] * d[3], 1), (0, d[3], 0, 1))
    wait()
    step = n // d[0]
    for i in range(d[0]):
        of_a = a[i * step:(i + 1) * step].view(d[2], d[1], d[3]).permute(1, 0, 2)
        same_bits(c[i * step:(i + 1) * step], of_a - b.view(d[1], 1, d[3]), i * step)


@large(13)
def convert_f32_f16():
    n = less(N)
    x, y = uniform(n), new(n, F16)
    ours.convert_f32_f16(x, y, n)
    each(n, y, lambda i, k: x[i:k].half())


@large(13)
def convert_f16_f32():
    n = less(N)
    x, y = uniform(n, dtype=F16), new(n)
    ours.convert_f16_f32(x, y, n)
    each(n, y, lambda i, k: x[i:k].float())


@large(7)
def dequant_e4m3_f16():
    n = less(N)
    x, y = integers(n, 0, 127, U8), new(n, F16)
    ours.dequant_e4m3_f16(x, y, 0.375, n)
    table = (e4m3_values() * 0.375).half()
    each(n, y, lambda i, k: table[x[i:k].long()])


@large(9)
def add_and_mul_e4m3_f16():
    n = less(N)
    a, b, c = integers(n, 0, 127, U8), integers(n, 0, 127, U8), new(n, F16)
    of_a, of_b = e4m3_values() * 0.375, e4m3_values() * 0.25
    ours.add_e4m3_f16(a, b, c, 0.375, 0.25, n)
    each(n, c, lambda i, k: (of_a[a[i:k].long()] + of_b[b[i:k].long()]).half())
    ours.mul_e4m3_f16(a, b, c, 0.375, 0.25, n)
    each(n, c, lambda i, k: (of_a[a[i:k].long()] * of_b[b[i:k].long()]).half())


# ---- gather, position ----

@large(9)
def gather_f32_i64_from_a_large_table():
    v, d, n = less(1_100_001), 2000, 1000
    table, index, out = uniform(v * d), integers(n, 0, v, I64), new(n * d)
    index[0], index[1], index[2] = v - 1, -5, v + (1 << 32)
    ours.gather_f32_i64(table, index, out, n, d, v)
    wait()
    for i, row in enumerate(index.tolist()):
        row = min(max(row, 0), v - 1)
        same_bits(out[i * d:(i + 1) * d], table[row * d:(row + 1) * d], i * d, "out")


@large(9)
def gather_f32_i32_to_a_large_output():
    v, d, n = 1000, 2000, less(1_100_001)
    table, index, out = uniform(v * d), integers(n, 0, v, I32), new(n * d)
    ours.gather_f32_i32(table, index, out, n, d, v)
    wait()
    for i, k in parts(n, d):
        same_bits(out[i * d:k * d], table.view(v, d)[index[i:k].long()], i * d, "out")


def appended(function, dtype):
    rows = less(D_ROWS)
    x, cache = uniform(D), new(rows * D, dtype)
    positions = {row: number(row) for row in (0, rows // 2, rows - 1)}
    for position in positions.values():
        function(x, position, cache, D, rows)
    wait()
    for row in positions:
        same_bits(cache[row * D:(row + 1) * D], x.to(dtype), row * D, "cache")
    n_written = sum(int((cache[a:b] == cache[a:b]).sum()) for a, b in parts(rows * D))  # the others are still NaN
    assert n_written == len(positions) * D, f"{n_written} elements were written, not {len(positions)} rows of {D}"


@large(9)
def offset_memcpy_f32_far_in_a_cache():
    appended(ours.offset_memcpy_f32, F32)


@large(5)
def offset_memcpy_f32_f16_far_in_a_cache():
    appended(ours.offset_memcpy_f32_f16, F16)


@large(17)
def rope_select_f32_from_large_tables():
    rows, half = less(34_375_001), 64
    c, s, of_c, of_s = uniform(rows * half), uniform(rows * half), new(half), new(half)
    for row in (rows - 1, rows // 2):
        position = number(row)
        ours.rope_select_f32(c, s, position, of_c, of_s, rows, half)
        wait()
        same_bits(of_c, c[row * half:(row + 1) * half], row * half, "cosines")
        same_bits(of_s, s[row * half:(row + 1) * half], row * half, "sines")


# ---- layout ----

def transposed(function, dtype, rows, cols):
    x, y = integers(rows * cols, 0, 30000, dtype), new(rows * cols, dtype)
    function(x, y, rows, cols)
    wait()
    x = x.view(rows, cols)
    for i, k in parts(cols, rows):
        same_bits(y[i * rows:k * rows], x[:, i:k].t().contiguous(), i * rows)


@large(17)
def transpose2d_f32():
    transposed(ours.transpose2d_f32, I32, less(44_001), 50_000)


@large(9)
def transpose2d_u16():
    transposed(ours.transpose2d_u16, I16, less(50_002), 44_002)


def reordered(function, dtype, perm):
    shape = (7, less(311), 1000, 1011)
    n = math.prod(shape)
    x, y = integers(n, 0, 30000, dtype), new(n, dtype)
    function(x, y, shape, perm, 4)
    wait()
    view = x.view(shape).permute(perm)
    row = n // view.shape[0]
    for i, k in parts(view.shape[0], row):
        same_bits(y[i * row:k * row], view[i:k].contiguous(), i * row)


@large(17)
def transpose_nd_f32_of_rows():
    reordered(ours.transpose_nd_f32, I32, (2, 1, 0, 3))


@large(17)
def transpose_nd_f32_of_all_axes():
    reordered(ours.transpose_nd_f32, I32, (3, 1, 0, 2))


@large(9)
def transpose_nd_u16_of_all_axes():
    reordered(ours.transpose_nd_u16, I16, (2, 0, 3, 1))


@large(5)
def strided_copy_backwards():
    n = less(N)
    x, y = integers(n, 0, 255, U8), new(n, U8)
    ours.strided_copy(x.data_ptr() + n - 1, y, (n,), (-1,), 1, 1)
    each(n, y, lambda i, k: x[n - k:n - i].flip(0))


@large(9)
def strided_copy_of_far_rows():
    stride = max(3000, less(44_000_000))
    x, y = uniform(50 * stride), new(50 * 1000)
    ours.strided_copy(x, y, (50, 1000), (stride, 3), 2, 4)
    wait()
    for i in range(50):
        same_bits(y[i * 1000:(i + 1) * 1000], x[i * stride:i * stride + 3000:3].contiguous(), i * 1000)


@large(11)
def repeat_f32():
    outer, axis, inner, reps = less(1101), 1000, 500, 4
    x, y = uniform(outer * axis * inner), new(outer * axis * inner * reps)
    ours.repeat_f32(x, y, outer, axis, inner, reps)
    wait()
    row = axis * inner
    for i, k in parts(outer, row * reps):
        wanted = x[i * row:k * row].view(-1, 1, inner).expand(-1, reps, inner).contiguous()
        same_bits(y[i * row * reps:k * row * reps], wanted, i * row * reps)
