"""Large tensors: quantised weights, products with a matrix, attention."""
import math

from kernels_large_fixture import (F16, F32, Nmse, U8, close, integers, large, less, new, ours, parts, same_bits, torch, uniform,
                               wait, with_and_without_scratch)
import quantised  # of kernels/bench
from library import KvStrides


# ---- quantised, products ----

def scales(n, dtype=None):
    return uniform(n, 0.005, 0.02, dtype or F16)


def blocks(n, n_bytes, n_scales, dtype):
    """n blocks of random bytes that begin with scales."""
    w = integers(n * n_bytes, 0, 256, U8).view(n, n_bytes)
    for i, k in parts(n, n_bytes):
        w[i:k, :n_scales * (2 if dtype == F16 else 4)] = scales((k - i) * n_scales, dtype).view(U8).view(k - i, -1)
    return w


@large(11)
def dequant_q4k_f32():
    rows, k = less(4300), 512_000
    w, y = blocks(rows * k // 256, 144, 2, F16), new(rows * k)
    ours.dequant_q4k_f32(w, y, rows, k)
    wait()
    for i, j in parts(rows, 4 * k):
        same_bits(y[i * k:j * k], quantised.plain_q4k(w[i * k // 256:j * k // 256]), i * k)


def product(function, m, k, weights, n=1):
    """weights(i, j) in float of rows i .. j; function(b, c)."""
    b, c = uniform(k * n), new(m * n)
    function(b, c)
    wait()
    columns = b.view(k, n).double()
    for i, j in parts(m, 4 * k):
        w = weights(i, j).reshape(j - i, k).double()
        for column in range(n):
            terms = w * columns[:, column]
            close(c.view(m, n)[i:j, column], terms.sum(1), i, 0.0, terms.abs().sum(1) * 2.0 ** -21, f"column {column}, c")


@large(9)
def gemv_f32():
    m, n = less(50_000), 44_004
    a = uniform(m * n)
    product(lambda x, y: ours.gemv_f32(a, x, y, m, n), m, n, lambda i, j: a[i * n:j * n])


K = 44_032  # a multiple of 256


def plain(function, t):
    """The values by kernels/bench/quantised.py, which takes k from x."""
    return function({**t, "x": torch.empty(K, 0)})


def product_of_blocks(name, n_bytes, dtype, m, n):
    w = blocks(m * K // 32, n_bytes, 1, dtype)
    per = K // 32
    product(lambda b, c: getattr(ours, f"gemm_{name}_f32")(w, b, c, m, K, n, None, 0), m, K,
            lambda i, j: plain(getattr(quantised, f"plain_{name}"), {"w": w[i * per:j * per]}), n)


@large(3)
def gemm_q4_0_f32_of_one_column():
    q4_0(1)


@large(3)
def gemm_q4_0_f32_of_three_columns():
    q4_0(3)


def q4_0(n):
    m, per = less(100_000), K // 32
    d, w = scales(m * per), integers(m * per * 16, 0, 256, U8).view(-1, 16)
    product(lambda b, c: ours.gemm_q4_0_f32(d, w, b, c, m, K, n, None, 0), m, K,
            lambda i, j: plain(quantised.plain_q4_0, {"w": w[i * per:j * per], "d": d[i * per:j * per].view(-1, 1)}), n)


@large(3)
def gemm_q8_0_f32_of_one_column():
    product_of_blocks("q8_0", 34, F16, less(50_000), 1)


@large(3)
def gemm_q8f_f32_of_two_columns():
    product_of_blocks("q8f", 36, F32, less(50_000), 2)


@large(3)
def gemv_q4k_f32():
    m, per = less(90_000), K // 256
    w = blocks(m * per, 144, 2, F16)
    b, c = uniform(K), new(m)
    ours.gemv_q4k_f32(w, b, c, m, K)
    wait()
    for i, j in parts(m, 8 * K):
        values = quantised.plain_q4k(w[i * per:j * per]).view(j - i, K).double()
        # scale * nibble and the minimum are separate terms: at most 0.02 * 63 * (15 + 1)
        close(c[i:j], (values * b.double()).sum(1), i, 0.0, b.double().abs().sum().item() * 0.02 * 63 * 16 * 2.0 ** -21)


@large(26)
def gemm_batched_small_f32():
    batch, m, n, k = less(2_200_001), 32, 32, 32
    a, b, c = uniform(batch * m * k), uniform(batch * k * n), new(batch * m * n)
    ours.gemm_batched_small_f32(a, b, c, m, n, k, m * k, k * n, m * n, batch)
    wait()
    for i, j in parts(batch, 4 * m * k):
        x, y = a[i * m * k:j * m * k].view(-1, m, k).double(), b[i * k * n:j * k * n].view(-1, k, n).double()
        close(c[i * m * n:j * m * n], torch.bmm(x, y), i * m * n, 0.0, torch.bmm(x.abs(), y.abs()).reshape(-1) * 2.0 ** -21, "c")


# ---- attention ----

@large(34)
def attention_f32():
    batch, heads, seq, d = less(16_790), 16, 64, 128
    n, row = batch * heads * seq * d, heads * seq * d
    q, k, v, o = uniform(n), uniform(n), uniform(n), new(n)
    ours.attention_f32(q, k, v, o, batch, heads, seq, d, False)
    wait()
    error = Nmse()
    for i, j in parts(batch, 4 * row):
        of = [x[i * row:j * row].view(-1, seq, d).double() for x in (q, k, v)]
        weights = (torch.bmm(of[0], of[1].transpose(1, 2)) / math.sqrt(d)).softmax(2)
        wanted = torch.bmm(weights, of[2])
        close(o[i * row:j * row], wanted, i * row, 0.0, 1e-4)  # finds what is plainly wrong
        error.add(o[i * row:j * row], wanted.reshape(-1))
    error.check(1e-11)


@large(18)
def attention_decode_f32_of_a_large_cache():
    batch, q_heads, heads, d, length = 8, 32, 8, 128, less(268_560)
    n, group = batch * length * heads * d, q_heads // heads
    q, k, v, o = uniform(batch * q_heads * d), uniform(n), uniform(n), new(batch * q_heads * d)
    strides = KvStrides(length * heads * d, d, heads * d)
    n_bytes = ours.attention_decode_f32_scratch(batch, q_heads, heads, d, length)
    for scratch in with_and_without_scratch(n_bytes):
        ours.attention_decode_f32(q, k, v, None, o, batch, q_heads, heads, d, length, length, strides, *scratch)
        wait()
        error = Nmse()
        of_k, of_v = k.view(batch, length, heads, d), v.view(batch, length, heads, d)
        for i in range(batch):
            for head in range(heads):
                of_q = q.view(batch, heads, group, d)[i, head].double()
                weights = (torch.matmul(of_q, of_k[i, :, head].double().t()) / math.sqrt(d)).softmax(1)
                wanted = torch.matmul(weights, of_v[i, :, head].double())
                found = o.view(batch, heads, group, d)[i, head]
                close(found, wanted, (i * heads + head) * group * d, 0.0, 1e-4, f"{scratch[1]} bytes of scratch, o")
                error.add(found.reshape(-1), wanted.reshape(-1))
        error.check(3e-13)  # however many positions a block adds up
        o.fill_(math.nan)
