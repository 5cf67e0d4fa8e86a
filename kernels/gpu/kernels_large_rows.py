"""Large tensors: softmax, norms, rotations and reductions."""
import math

from kernels_large_fixture import (D, D_ROWS, F16, I64, N, ROW, ROWS, U8, close, e4m3_values, each, integers, large, less, new,
                               ours, parts, same_bits, torch, uniform, wait, with_and_without_scratch)


# ---- softmax, norm, rope ----

@large(17)
def softmax_f32_of_many_rows():
    rows = less(ROWS)
    x, y = uniform(rows * ROW, -8.0, 8.0), new(rows * ROW)
    ours.softmax_f32(x, y, rows, ROW, 1)
    wait()
    for i, k in parts(rows, ROW):
        close(y[i * ROW:k * ROW], x[i * ROW:k * ROW].view(-1, ROW).double().softmax(1), i * ROW, 1e-5, 1e-37)


@large(17)
def softmax_f32_of_one_row():
    n = less(N)
    x, y = uniform(n, -8.0, 8.0), new(n)
    ours.softmax_f32(x, y, 1, n, 1)
    total = sum(x[a:b].double().exp().sum().item() for a, b in parts(n))
    each(n, y, lambda i, k: x[i:k].double().exp() / total, 1e-5, 1e-37)


@large(17)
def softmax_f32_of_many_columns():
    axis, inner = 1000, less(2_200_001)
    x, y = uniform(axis * inner, -8.0, 8.0), new(axis * inner)
    ours.softmax_f32(x, y, 1, axis, inner)
    wait()
    x, y = x.view(axis, inner), y.view(axis, inner)
    for i, k in parts(inner, axis):
        close(y[:, i:k], x[:, i:k].double().softmax(0), i, 1e-5, 1e-37, "columns")


@large(17)
def scaled_softmax_f32_of_odd_rows():
    rows, row = less(733_335), 3001
    x, y = uniform(rows * row, -8.0, 8.0), new(rows * row)
    ours.scaled_softmax_f32(x, y, 0.5, rows, row, 1)
    wait()
    for i, k in parts(rows, row):
        close(y[i * row:k * row], (x[i * row:k * row].view(-1, row).double() * 0.5).softmax(1), i * row, 1e-5, 1e-37)


@large(9)
def scaled_softmax_f16_of_many_rows():
    rows = less(ROWS)
    x, y = uniform(rows * ROW, -4.0, 4.0, F16), new(rows * ROW, F16)
    ours.scaled_softmax_f16(x, y, 0.25, rows, ROW, 1)
    wait()
    for i, k in parts(rows, ROW):
        close(y[i * ROW:k * ROW], (x[i * ROW:k * ROW].view(-1, ROW).double() * 0.25).softmax(1), i * ROW, 2e-3)


def normed(x, w, d):
    x = x.reshape(-1, d).double()
    return x * (x.square().mean(1, keepdim=True) + 1e-5).rsqrt() * w.double()


@large(17)
def rms_norm_f32():
    rows = less(D_ROWS)
    x, w, y, r = uniform(rows * D), uniform(D), new(rows * D), new(rows)
    ours.rms_norm_f32(x, w, y, r, 1e-5, rows, D)
    wait()
    for i, k in parts(rows, D):
        of_x = x[i * D:k * D]
        close(y[i * D:k * D], normed(of_x, w, D), i * D, 3e-6)
        close(r[i:k], (of_x.view(-1, D).double().square().mean(1) + 1e-5).rsqrt(), i, 5e-7, what="rstd")


@large(34)
def add_rms_norm_f32():
    rows = less(D_ROWS)
    x, other, w, y, total = uniform(rows * D), uniform(rows * D), uniform(D), new(rows * D), new(rows * D)
    ours.add_rms_norm_f32(x, other, w, y, total, 1e-5, rows, D)
    wait()
    for i, k in parts(rows, D):
        wanted = x[i * D:k * D] + other[i * D:k * D]
        same_bits(total[i * D:k * D], wanted, i * D, "sum")
        close(y[i * D:k * D], normed(wanted, w, D), i * D, 3e-6)


@large(25)
def rms_norm_add_f32():
    rows = less(D_ROWS)
    x, other, w, y = uniform(rows * D), uniform(rows * D), uniform(D), new(rows * D)
    ours.rms_norm_add_f32(x, w, other, y, 1e-5, rows, D)
    wait()
    for i, k in parts(rows, D):
        close(y[i * D:k * D], normed(x[i * D:k * D], w, D).reshape(-1) + other[i * D:k * D].double(), i * D, 3e-6, 1e-6)


@large(9)
def rms_norm_f16():
    rows = less(D_ROWS)
    x, w, y = uniform(rows * D, dtype=F16), uniform(D, dtype=F16), new(rows * D, F16)
    ours.rms_norm_f16(x, w, y, 1e-5, rows, D)
    wait()
    for i, k in parts(rows, D):
        close(y[i * D:k * D], normed(x[i * D:k * D], w, D), i * D, 1.5e-3, 1e-7)


@large(7)
def rms_norm_e4m3_f16():
    rows = less(D_ROWS)
    x, w, y = integers(rows * D, 0, 127, U8), uniform(D, dtype=F16), new(rows * D, F16)
    ours.rms_norm_e4m3_f16(x, w, y, 0.375, 1e-5, rows, D)
    wait()
    table = e4m3_values() * 0.375
    for i, k in parts(rows, D):
        close(y[i * D:k * D], normed(table[x[i * D:k * D].long()], w, D), i * D, 1.5e-3, 1e-7)


@large(17)
def qk_norm_rope_f32_of_many_heads():
    heads, d, half = less(17_187_501), 128, 48
    n_q = heads // 2
    x, y, w_q, w_k, c, s = uniform(heads * d), new(heads * d), uniform(d), uniform(d), uniform(half), uniform(half)
    ours.qk_norm_rope_f32(x, w_q, w_k, c, s, y, 1e-5, heads, d, n_q, half)
    wait()
    c, s = c.double(), s.double()
    for first, last, w in ((0, n_q, w_q), (n_q, heads, w_k)):
        for i, k in parts(last - first, d):
            i, k = first + i, first + k
            wanted = normed(x[i * d:k * d], w, d)
            low, high = wanted[:, :half], wanted[:, half:2 * half]
            wanted = torch.cat((low * c - high * s, high * c + low * s, wanted[:, 2 * half:]), 1)
            close(y[i * d:k * d], wanted, i * d, 3e-6, 3e-6)


@large(19)
def rope_f32_of_many_positions():
    batch, seq, d, half, stride = 8, less(2_148_501), 128, 48, 50
    x, y, c, s = uniform(batch * seq * d), new(batch * seq * d), uniform(seq * stride), uniform(seq * stride)
    ours.rope_f32(x, c, s, y, batch, seq, d, half, stride)
    wait()
    x, y, c, s = x.view(batch, seq, d), y.view(batch, seq, d), c.view(seq, stride), s.view(seq, stride)
    for of in range(batch):
        for i, k in parts(seq, d):
            low, high = x[of, i:k, :half].double(), x[of, i:k, half:2 * half].double()
            cosine, sine = c[i:k, :half].double(), s[i:k, :half].double()
            start = (of * seq + i) * d
            wanted = torch.cat((low * cosine - high * sine, high * cosine + low * sine, x[of, i:k, 2 * half:].double()), 1)
            close(y[of, i:k], wanted, start, 0.0, 1e-6)
            assert torch.equal(y[of, i:k, 2 * half:], x[of, i:k, 2 * half:]), f"what is copied, from [{start}] on"


# ---- reduce ----

def sum_tolerance(axis):
    return 4 * 2.0 ** -24 * max(1.0, math.log2(axis))


@large(9)
def sum_axis_f32_of_many_rows():
    rows = less(ROWS)
    x, y = uniform(rows * ROW), new(rows)
    for scratch in with_and_without_scratch(ours.sum_axis_f32_scratch(rows, ROW, 1)):
        ours.sum_axis_f32(x, y, rows, ROW, 1, *scratch)
        wait()
        for i, k in parts(rows, ROW):
            of_x = x[i * ROW:k * ROW].view(-1, ROW).double()
            close(y[i:k], of_x.sum(1), i, 0.0, of_x.abs().sum(1) * sum_tolerance(ROW))
        y.fill_(math.nan)


@large(9)
def sum_axis_f32_of_one_row():
    n = less(N)
    x, y = uniform(n), new(1)
    total = sum(x[a:b].double().sum().item() for a, b in parts(n))
    size = sum(x[a:b].double().abs().sum().item() for a, b in parts(n))
    for scratch in with_and_without_scratch(ours.sum_axis_f32_scratch(1, n, 1)):
        ours.sum_axis_f32(x, y, 1, n, 1, *scratch)
        wait()
        assert abs(y.item() - total) <= size * sum_tolerance(n), f"{y.item()}, PyTorch has {total}, {scratch[1]} bytes of scratch"
        y.fill_(math.nan)


@large(9)
def sum_axis_f32_of_many_columns():
    axis, inner = 1000, less(2_200_001)
    x, y = uniform(axis * inner), new(inner)
    for scratch in with_and_without_scratch(ours.sum_axis_f32_scratch(1, axis, inner)):
        ours.sum_axis_f32(x, y, 1, axis, inner, *scratch)
        wait()
        for i, k in parts(inner, axis):
            of_x = x.view(axis, inner)[:, i:k].double()
            close(y[i:k], of_x.sum(0), i, 0.0, of_x.abs().sum(0) * sum_tolerance(axis))
        y.fill_(math.nan)


@large(9)
def argmax_f32_beyond_2_31():
    n = less(N)
    x, index = uniform(n), new(1, I64)
    for scratch in with_and_without_scratch(ours.argmax_f32_scratch(n)):
        for at in (n - 5, n // 2, 3):  # each at a lower index, and again above it: the lowest index counts
            x[at] = 2.0
            ours.argmax_f32(x, index, n, *scratch)
            wait()
            assert index.item() == at, f"{index.item()}, not {at}, {scratch[1]} bytes of scratch"
        x[n - 5] = x[n // 2] = x[3] = 0.0
