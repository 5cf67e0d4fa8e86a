"""Whether each family's cases see what a kernel can do wrong: by hand, in a tree that may be written to.

    mutants.py BUILD [FAMILY..]

Each mutant is one change of device code: a wrong constant, a missing edge, a swapped index.  It is built into the
emulated kernels of BUILD, whose sources are this tree's; the cases that a suite runs of its family must fail, or stop, on
9.0 or on the kind of device that it names.  The file is put back behind each.  Half a minute each, so no part of a suite.
"""
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD, WANTED = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:]

LIGHT = ("activation", "broadcast", "convert", "gather", "layout", "position", "quant", "rope")  # as in meson.build
HEAVY = ("attention", "gemv")

# family, file of kernels/, what stands there, what stands there instead, the kind of device where it is not 9.0
MUTANTS = [
    ("elementwise", "elementwise_unary.cuh", "return rsqrtf(a)", "return rsqrtf(a * 1.000001f)"),
    ("elementwise", "device/each.cuh", "i < n_pieces", "i + 1 < n_pieces"),
    ("elementwise", "elementwise_arithmetic.cuh", "pair(a.y, b.y)", "pair(a.y, b.x)"),
    ("activation", "activation.cu", "float e = expf(-2.0f * fabsf(a))", "float e = expf(-2.000002f * fabsf(a))"),
    ("activation", "activation.cu", "w1 < -200.0f ? -200.0f : w1", "w1"),
    ("activation", "activation.cu", "return gate * w3", "return gate * w1"),
    ("position", "position.cu", "p >= max_len", "p > max_len"),
    ("position", "position.cu", "sin_table[p * n + i]", "cos_table[p * n + i]"),
    ("position", "position.cu", "atomicAdd(counter, delta)", "atomicAdd(counter, delta + 1)"),
    ("broadcast", "broadcast.cu", "digits.i2 = row - rest * rows.by_2.by", "digits.i2 = row - rest * rows.by_1.by"),
    ("broadcast", "broadcast.cu", "if (row + k * row_step < rows.n_rows)", "if (row + k * row_step + 1 < rows.n_rows)"),
    ("broadcast", "broadcast.cu", "Op::of(a.z, b.z)", "Op::of(a.z, b.w)"),
    ("convert", "device/math/e4m3.cuh", "value.y * 256", "value.y * 255.9f"),
    ("convert", "convert.cu", "low = four(codes.x, scale), high = four(codes.y", "low = four(codes.y, scale), high = four(codes.x"),
    ("convert", "convert.cu", "__fmul_rn(f32_of_e4m3<Decode>(b), scales.b)", "__fmul_rn(f32_of_e4m3<Decode>(b), scales.a)"),
    ("softmax", "softmax_rows.cuh", "values[j] *= part", "values[j] *= part * 1.00001f"),
    ("softmax", "softmax_rows.cuh", "if (Row::at(k) < n) {\n                float values[W];\n                exponentials",
     "if (Row::at(k) + 1 < n) {\n                float values[W];\n                exponentials"),
    ("softmax", "softmax_columns.cuh", "+ down) * args.inner + column", "+ down) * args.inner + column / 2"),
    ("norm", "norm_ops.cuh", "(float)args.d), args.eps)", "(float)args.d), 0)"),
    ("norm", "norm_rows.cuh", "if (Row::at(k0 + k) < n) {\n                    float values[W], factors[W]",
     "if (Row::at(k0 + k) + 1 < n) {\n                    float values[W], factors[W]"),
    ("norm", "norm_rows.cuh", "load_kept((const Element *)args.w + at + STEP * k", "load_kept((const Element *)args.w + at"),
    ("rope", "rope.cu", "(float)args.head_dim), args.eps)", "(float)args.head_dim), 0)"),
    ("rope", "rope.cu", "cosine[k] = i < 2 * half", "cosine[k] = i < 2 * half - 1"),
    ("rope", "rope.cu", "head < args.n_q_heads ? args.w_q : args.w_k;\n        float value[E]",
     "head <= args.n_q_heads ? args.w_q : args.w_k;\n        float value[E]"),
    ("quant", "device/math/q4k.cuh", "& 63", "& 31"),
    ("quant", "quant.cu", "} else if (i < n_blocks) {", "} else if (i + 1 < n_blocks) {"),
    ("quant", "quant.cu", "value_of(scale, nibbles >> 16 & 15)", "value_of(scale, nibbles >> 8 & 15)"),
    ("gemv", "gemv_q4k.cuh", "fmaf(scale.scale, q, -scale.minimum)", "scale.scale * q"),
    ("gemv", "gemv_rows.cuh", "row0 + row < shape.m && col", "row0 + row + 1 < shape.m && col"),
    ("gemv", "gemv_q4k.cuh", "times(held, row, 1, from + 32)", "times(held, row, 1, from)"),
    ("gemv", "gemv_tile.cuh", "fmaf(scales[row + at / 4], parts", "fmaf(scales[row + at % 4], parts", "75"),
    ("attention", "attention_tiled.cuh", "fmaf(weight[i], value.z", "fmaf(weight[i], value.y", "75"),
    ("attention", "attention_tiled.cuh", "row + first_row + i + 1", "row + first_row + i", "75"),
    ("attention", "attention_decode.cuh", "/ GROUP * KEYS + lane / LANES >= n_keys", "/ GROUP * KEYS + lane / LANES > n_keys"),
    ("attention", "attention_decode.cuh", "fmaf(q[h][i].w, keys[u][i].w, part)", "fmaf(q[h][i].w, keys[u][i].z, part)"),
    ("attention", "attention_weight.cuh", "score - base, scale, lift", "score - base, scale * 1.00001f, lift"),
    ("reduce", "reduce_rows.cuh", "sum.axis - begin < n_units ? sum.axis - begin", "sum.axis - begin < n_units ? sum.axis - begin - 1"),
    ("reduce", "reduce_rows.cuh", "y[row] = part;\n    }\n}\n\n/* What a block", "y[row] = part * 1.001f;\n    }\n}\n\n/* What a block"),
    ("reduce", "reduce_rows.cuh", "int64_t row = divide(item, sum.by_parts);", "int64_t row = item;"),
    ("gather", "gather.cu", "indices[k] = __ldg(idx + i)", "indices[k] = __ldg(idx + i / 2)"),
    ("gather", "gather.cu", "if (to < n)\n                store_piece", "if (to + 1 < n)\n                store_piece"),
    ("gather", "gather.cu", "columns[k] = (Number)to - i * (Number)row.by", "columns[k] = (Number)to - i * (Number)row.by + 1"),
    ("layout", "layout_tile.cuh", "corner.a + lane + p < (uint64_t)tile.n_a", "corner.a + lane + p + 1 < (uint64_t)tile.n_a"),
    ("layout", "layout_tile.cuh", "= shared[lane + p][k]", "= shared[lane + p][k ^ 1]"),
    ("layout", "layout_repeat.cuh", "if (at + k * blockDim.x < n)", "if (at + k * blockDim.x + 1 < n)"),
]


def run(*command, **extra):
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, env={**os.environ, **extra}, check=False)


def is_seen(family, capability):
    """By what a suite runs of the family, its sample at one turn."""
    some = [] if family in LIGHT else ["--few", "--sample", "16:5"] if family in HEAVY else ["--small"]
    return run(BUILD / "tests/kernels/kernel-cases", "--filter", f"{family}/*", *some, CUSHIM_SIM_CAPABILITY=capability,
               CUSHIM_KERNEL_ARCH="90", CUSHIM_LIBCUDA=str(BUILD / "tools/sim/libcuda.so.1")).returncode != 0


def judge(family, name, old, new, capability="90"):
    path = ROOT / "kernels" / (name if "/" in name else f"{family}/{name}")
    text = path.read_text()
    if old not in text:
        return "not there any more"
    try:
        path.write_text(text.replace(old, new, 1))
        built = run("ninja", "-C", BUILD, "tests/kernels/kernel-cases")
        if built.returncode:
            return "does not compile"
        return "seen" if is_seen(family, capability) else "NOT SEEN"
    finally:
        path.write_text(text)


n_bad = 0
for mutant in MUTANTS:
    if not WANTED or mutant[0] in WANTED:
        verdict = judge(*mutant)
        n_bad += verdict != "seen"
        print(f"{verdict}: {mutant[0]}, {mutant[1]}: {' '.join(mutant[2].split())} -> {' '.join(mutant[3].split())}", flush=True)
sys.exit(n_bad > 0)
