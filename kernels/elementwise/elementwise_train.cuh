/* fill, and the kernels of training: dropout and a step of AdamW. */
#ifndef CUSHIM_KERNELS_ELEMENTWISE_TRAIN_CUH
#define CUSHIM_KERNELS_ELEMENTWISE_TRAIN_CUH

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

struct AdamW {
    struct Value {
        float p, m, g;
        double v;
    };
    enum { WIDTH = 1 };
    float *param, *m;
    double *v;
    float *grad;
    double beta1, beta2, one_minus_beta1, one_minus_beta2, eps, alpha, lr_wd;

    /* In double, each operation rounded separately, so the bits are those of the plain formula. */
    __device__ void step(float &param, float &m, double &v, float grad) const {
        double g = grad, p = param;
        double moment = __dadd_rn(__dmul_rn(beta1, m), __dmul_rn(one_minus_beta1, g));
        double square = __dadd_rn(__dmul_rn(beta2, v), __dmul_rn(__dmul_rn(one_minus_beta2, g), g));
        double step = __ddiv_rn(__dmul_rn(alpha, moment), __dadd_rn(__dsqrt_rn(square), eps));
        param = (float)__dsub_rn(__dsub_rn(p, step), __dmul_rn(lr_wd, p));
        m = (float)moment;
        v = square;
    }
    __device__ Value load(int64_t i) const {
        Value now = {param[i], m[i], grad[i], v[i]};
        return now;
    }
    __device__ void store(int64_t i, Value now) const {
        step(now.p, now.m, now.v, now.g);
        param[i] = now.p;
        m[i] = now.m;
        v[i] = now.v;
        grad[i] = 0.0f;
    }
};

struct AdamW4 {
    struct Value {
        float4 p, m, g;
        double2 v0, v1;
    };
    enum { WIDTH = 4 };
    AdamW of;
    __device__ Value load(int64_t i) const {
        Value now = {reinterpret_cast<const float4 *>(of.param)[i],
                     reinterpret_cast<const float4 *>(of.m)[i],
                     reinterpret_cast<const float4 *>(of.grad)[i],
                     reinterpret_cast<const double2 *>(of.v)[2 * i],
                     reinterpret_cast<const double2 *>(of.v)[2 * i + 1]};
        return now;
    }
    __device__ void store(int64_t i, Value now) const {
        of.step(now.p.x, now.m.x, now.v0.x, now.g.x);
        of.step(now.p.y, now.m.y, now.v0.y, now.g.y);
        of.step(now.p.z, now.m.z, now.v1.x, now.g.z);
        of.step(now.p.w, now.m.w, now.v1.y, now.g.w);
        reinterpret_cast<float4 *>(of.param)[i] = now.p;
        reinterpret_cast<float4 *>(of.m)[i] = now.m;
        reinterpret_cast<double2 *>(of.v)[2 * i] = now.v0;
        reinterpret_cast<double2 *>(of.v)[2 * i + 1] = now.v1;
        reinterpret_cast<float4 *>(of.grad)[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    }
};

} // namespace

EACH_KERNEL(elementwise_adamw_f32)
(float *param, float *m, double *v, float *grad, double beta1, double beta2, double one_minus_beta1,
 double one_minus_beta2, double eps, double alpha, double lr_wd, int64_t n) {
    AdamW of = {param,           m,   v,     grad, beta1, beta2, one_minus_beta1,
                one_minus_beta2, eps, alpha, lr_wd};
    each_tile<EACH_ELEMENTS, 1>(of, of, n);
}

/* Each step has five loads of 16 bytes in flight, and doubles take two registers. */
KERNEL_OF(EACH_THREADS, 6, elementwise_adamw_f32_wide)
(float *param, float *m, double *v, float *grad, double beta1, double beta2, double one_minus_beta1,
 double one_minus_beta2, double eps, double alpha, double lr_wd, int64_t n) {
    AdamW of = {param,           m,   v,     grad, beta1, beta2, one_minus_beta1,
                one_minus_beta2, eps, alpha, lr_wd};
    each_tile<EACH_PIECES, 1>(AdamW4{of}, of, n);
}

#endif
