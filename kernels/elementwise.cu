/* Elementwise kernels on float: one output element from the same elements of the inputs. */
#include "kernels/device/device.cuh"
#include "kernels/device/vector.cuh"

namespace {

struct Add {
    DEVICE float of(float a, float b) {
        return __fadd_rn(a, b);
    }
};

struct Sub {
    DEVICE float of(float a, float b) {
        return __fsub_rn(a, b);
    }
};

struct Mul {
    DEVICE float of(float a, float b) {
        return __fmul_rn(a, b);
    }
};

struct Div {
    DEVICE float of(float a, float b) {
        return __fdiv_rn(a, b);
    }
};

template <class Op> DEVICE float4 of_each(float4 a, float4 b) {
    return make_float4(Op::of(a.x, b.x), Op::of(a.y, b.y), Op::of(a.z, b.z), Op::of(a.w, b.w));
}

/* All pointers multiples of 16: four elements a step, two steps in flight; then the rest. */
template <class Op> DEVICE void binary_wide(const float *a, const float *b, float *c, int64_t n) {
    int64_t n_wide = n / 4, step = threads_of_grid(), i = thread_of_grid();
    const float4 *a4 = reinterpret_cast<const float4 *>(a),
                 *b4 = reinterpret_cast<const float4 *>(b);
    float4 *c4 = reinterpret_cast<float4 *>(c);
    for (; i + step < n_wide; i += 2 * step) {
        float4 a0 = load_streamed(a4 + i), b0 = load_streamed(b4 + i);
        float4 a1 = load_streamed(a4 + i + step), b1 = load_streamed(b4 + i + step);
        store_streamed(c4 + i, of_each<Op>(a0, b0));
        store_streamed(c4 + i + step, of_each<Op>(a1, b1));
    }
    if (i < n_wide)
        store_streamed(c4 + i, of_each<Op>(load_streamed(a4 + i), load_streamed(b4 + i)));
    int64_t rest = n_wide * 4 + thread_of_grid();
    if (rest < n)
        c[rest] = Op::of(a[rest], b[rest]);
}

template <class Op> DEVICE void binary(const float *a, const float *b, float *c, int64_t n) {
    for (int64_t i = thread_of_grid(); i < n; i += threads_of_grid())
        c[i] = Op::of(a[i], b[i]);
}

} // namespace

#define BINARY(word, Op)                                                                           \
    KERNEL(elementwise_##word##_f32)                                                               \
    (const float *a, const float *b, float *c, int64_t n) {                                        \
        binary<Op>(a, b, c, n);                                                                    \
    }                                                                                              \
    KERNEL(elementwise_##word##_f32_wide)                                                          \
    (const float *a, const float *b, float *c, int64_t n) {                                        \
        binary_wide<Op>(a, b, c, n);                                                               \
    }

BINARY(add, Add)
BINARY(sub, Sub)
BINARY(mul, Mul)
BINARY(div, Div)
