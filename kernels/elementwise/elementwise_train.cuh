/* fill, and the kernels of training: dropout and a step of AdamW. */
#ifndef CUSHIM_KERNELS_ELEMENTWISE_TRAIN_CUH
#define CUSHIM_KERNELS_ELEMENTWISE_TRAIN_CUH

#include "kernels/device/access.cuh"
#include "kernels/device/each.cuh"
#include "kernels/device/math/philox.cuh"
#include "kernels/device/vector.cuh"

/* ---- fill: a pattern of 32 bits, whatever it means ---- */

namespace {

struct Nothing {};

struct Fill {
    typedef Nothing Value;
    enum { WIDTH = 1 };
    uint32_t bits, *to;
    __device__ Value load(int64_t) const {
        return Value();
    }
    __device__ void store(int64_t i, Value) const {
        to[i] = bits;
    }
};

struct Fill4 {
    typedef Nothing Value;
    enum { WIDTH = 4 };
    Fill of;
    __device__ Value load(int64_t) const {
        return Value();
    }
    __device__ void store(int64_t i, Value) const {
        store_streamed(reinterpret_cast<uint4 *>(of.to) + i,
                       make_uint4(of.bits, of.bits, of.bits, of.bits));
    }
};

} // namespace

EACH_KERNEL(elementwise_fill_f32)(uint32_t *to, uint32_t bits, int64_t n) {
    Fill of = {bits, to};
    each_tile<EACH_ELEMENTS, EACH_ELEMENTS>(of, of, n);
}

EACH_KERNEL(elementwise_fill_f32_wide)(uint32_t *to, uint32_t bits, int64_t n) {
    Fill of = {bits, to};
    each_tile<EACH_PIECES, EACH_PIECES>(Fill4{of}, of, n);
}

/* ---- dropout ---- */

namespace {

struct Dropout {
    typedef float Value;
    enum { WIDTH = 1 };
    const float *in;
    float *out;
    uint32_t least_kept; /* the least word that keeps its element */
    float scale;
    uint32_t key_low, key_high;
    __device__ float of(float value, int64_t i) const {
        bool is_kept = philox_word((uint64_t)i, key_low, key_high) >= least_kept;
        return is_kept ? __fmul_rn(value, scale) : 0.0f;
    }
    __device__ float load(int64_t i) const {
        return in[i];
    }
    __device__ void store(int64_t i, float value) const {
        out[i] = of(value, i);
    }
};

struct Dropout4 {
    typedef float4 Value;
    enum { WIDTH = 4 };
    Dropout one;
    __device__ float4 load(int64_t i) const {
        return reinterpret_cast<const float4 *>(one.in)[i];
    }
    __device__ void store(int64_t i, float4 value) const {
        reinterpret_cast<float4 *>(one.out)[i] =
            make_float4(one.of(value.x, 4 * i), one.of(value.y, 4 * i + 1),
                        one.of(value.z, 4 * i + 2), one.of(value.w, 4 * i + 3));
    }
};

} // namespace

EACH_KERNEL(elementwise_dropout_f32)
(const float *in, float *out, uint32_t least_kept, float scale, uint32_t key_low, uint32_t key_high,
 int64_t n) {
    Dropout of = {in, out, least_kept, scale, key_low, key_high};
    each_tile<EACH_ELEMENTS, EACH_ELEMENTS>(of, of, n);
}

EACH_KERNEL(elementwise_dropout_f32_wide)
(const float *in, float *out, uint32_t least_kept, float scale, uint32_t key_low, uint32_t key_high,
 int64_t n) {
    Dropout of = {in, out, least_kept, scale, key_low, key_high};
    each_tile<EACH_PIECES, EACH_PIECES>(Dropout4{of}, of, n);
}

/* ---- AdamW ---- */

namespace {

/* N neighbouring elements of one access each. */
template <class T, int N> struct __align__(N * sizeof(T) < 16 ? N * sizeof(T) : 16) Some {
    T of[N];
};

struct AdamWRates {
    double beta1, beta2, one_minus_beta1, one_minus_beta2, eps, alpha, lr_wd;
};

/* Pieces of N elements. */
template <class T, int N> struct AdamW {
    struct Value {
        Some<T, N> p, g;
        Some<float, N> m;
        Some<double, N> v;
    };
    enum { WIDTH = N };
    T *param;
    float *m;
    double *v;
    T *grad;
    AdamWRates rates;

    /* In double, each operation rounded separately, so the bits are those of the plain formula. */
    __device__ void step(T &param, float &m, double &v, T grad) const {
        float p_now, g_now, p_next;
        Access<T, 1>::load(&param, &p_now);
        Access<T, 1>::load(&grad, &g_now);
        double p = p_now, g = g_now;
        double moment = __dadd_rn(__dmul_rn(rates.beta1, m), __dmul_rn(rates.one_minus_beta1, g));
        double square =
            __dadd_rn(__dmul_rn(rates.beta2, v), __dmul_rn(__dmul_rn(rates.one_minus_beta2, g), g));
        double step =
            __ddiv_rn(__dmul_rn(rates.alpha, moment), __dadd_rn(__dsqrt_rn(square), rates.eps));
        p_next = (float)__dsub_rn(__dsub_rn(p, step), __dmul_rn(rates.lr_wd, p));
        Access<T, 1>::store(&param, &p_next);
        m = (float)moment;
        v = square;
    }
    __device__ Value load(int64_t i) const {
        Value now = {reinterpret_cast<const Some<T, N> *>(param)[i],
                     reinterpret_cast<const Some<T, N> *>(grad)[i],
                     reinterpret_cast<const Some<float, N> *>(m)[i],
                     reinterpret_cast<const Some<double, N> *>(v)[i]};
        return now;
    }
    __device__ void store(int64_t i, Value now) const {
#pragma unroll
        for (int j = 0; j < N; j++)
            step(now.p.of[j], now.m.of[j], now.v.of[j], now.g.of[j]);
        reinterpret_cast<Some<T, N> *>(param)[i] = now.p;
        reinterpret_cast<Some<float, N> *>(m)[i] = now.m;
        reinterpret_cast<Some<double, N> *>(v)[i] = now.v;
        reinterpret_cast<Some<T, N> *>(grad)[i] = Some<T, N>();
    }
};

} // namespace

/* A step of floats has five loads of 16 bytes in flight, and doubles take two registers. */
#define ADAMW(name, T)                                                                             \
    EACH_KERNEL(elementwise_adamw_##name)                                                          \
    (T * param, float *m, double *v, T *grad, AdamWRates rates, int64_t n) {                       \
        AdamW<T, 1> of = {param, m, v, grad, rates};                                               \
        each_tile<EACH_ELEMENTS, 1>(of, of, n);                                                    \
    }                                                                                              \
    KERNEL_OF(EACH_THREADS, 6, elementwise_adamw_##name##_wide)                                    \
    (T * param, float *m, double *v, T *grad, AdamWRates rates, int64_t n) {                       \
        AdamW<T, 16 / sizeof(T)> of = {param, m, v, grad, rates};                                  \
        AdamW<T, 1> single = {param, m, v, grad, rates};                                           \
        each_tile<EACH_PIECES, 1>(of, single, n);                                                  \
    }

ADAMW(f32, float)
ADAMW(bf16, bf16)

#endif
