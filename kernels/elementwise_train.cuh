/* fill, and what training has: dropout and a step of AdamW. */
#ifndef CUSHIM_KERNELS_ELEMENTWISE_TRAIN_CUH
#define CUSHIM_KERNELS_ELEMENTWISE_TRAIN_CUH

#include "kernels/device/each.cuh"
#include "kernels/device/philox.cuh"

/* ---- fill: the pattern of 32 bits, whatever it means ---- */

EACH_KERNEL(elementwise_fill_f32)(uint32_t *to, uint32_t bits, int64_t n) {
    for (int64_t i = thread_of_grid(); i < n; i += threads_of_grid())
        to[i] = bits;
}

EACH_KERNEL(elementwise_fill_f32_wide)(uint32_t *to, uint32_t bits, int64_t n) {
    uint4 *to4 = reinterpret_cast<uint4 *>(to);
    for (int64_t i = thread_of_grid(); i < n / 4; i += threads_of_grid())
        store_streamed(to4 + i, make_uint4(bits, bits, bits, bits));
    int64_t rest = n / 4 * 4 + thread_of_grid();
    if (rest < n)
        to[rest] = bits;
}

/* ---- dropout ---- */

namespace {

/* The launcher turned the probability into the least word that keeps its element. */
struct Dropout {
    uint32_t least_kept;
    float scale;
    uint32_t key_low, key_high;
    __device__ float operator()(float value, int64_t i) const {
        bool is_kept = philox_word((uint64_t)i, key_low, key_high) >= least_kept;
        return is_kept ? __fmul_rn(value, scale) : 0.0f;
    }
    __device__ float4 operator()(float4 value, int64_t i) const {
        const Dropout &of = *this;
        return make_float4(of(value.x, i), of(value.y, i + 1), of(value.z, i + 2),
                           of(value.w, i + 3));
    }
};

} // namespace

EACH_KERNEL(elementwise_dropout_f32)
(const float *in, float *out, uint32_t least_kept, float scale, uint32_t key_low, uint32_t key_high,
 int64_t n) {
    Dropout of = {least_kept, scale, key_low, key_high};
    for (int64_t i = thread_of_grid(); i < n; i += threads_of_grid())
        out[i] = of(in[i], i);
}

EACH_KERNEL(elementwise_dropout_f32_wide)
(const float *in, float *out, uint32_t least_kept, float scale, uint32_t key_low, uint32_t key_high,
 int64_t n) {
    Dropout of = {least_kept, scale, key_low, key_high};
    const float4 *in4 = reinterpret_cast<const float4 *>(in);
    float4 *out4 = reinterpret_cast<float4 *>(out);
    int64_t n_wide = n / 4, step = threads_of_grid(), i = thread_of_grid(), rest = n_wide * 4 + i;
    float4 next = i < n_wide ? load_streamed(in4 + i) : float4();
    for (; i < n_wide; i += step) {
        float4 now = next;
        if (i + step < n_wide)
            next = load_streamed(in4 + i + step);
        store_streamed(out4 + i, of(now, 4 * i));
    }
    if (rest < n)
        out[rest] = of(in[rest], rest);
}

/* ---- AdamW ---- */

namespace {

struct AdamW {
    double beta1, beta2, one_minus_beta1, one_minus_beta2, eps, alpha, lr_wd;

    /* In double, every operation rounded by itself: the bits are those of the plain formula. */
    __device__ void operator()(float &param, float &m, double &v, float grad) const {
        double g = grad, p = param;
        double moment = __dadd_rn(__dmul_rn(beta1, m), __dmul_rn(one_minus_beta1, g));
        double square = __dadd_rn(__dmul_rn(beta2, v), __dmul_rn(__dmul_rn(one_minus_beta2, g), g));
        double step = __ddiv_rn(__dmul_rn(alpha, moment), __dadd_rn(__dsqrt_rn(square), eps));
        param = (float)__dsub_rn(__dsub_rn(p, step), __dmul_rn(lr_wd, p));
        m = (float)moment;
        v = square;
    }
};

} // namespace

EACH_KERNEL(elementwise_adamw_f32)
(float *param, float *m, double *v, float *grad, double beta1, double beta2, double one_minus_beta1,
 double one_minus_beta2, double eps, double alpha, double lr_wd, int64_t n) {
    AdamW of = {beta1, beta2, one_minus_beta1, one_minus_beta2, eps, alpha, lr_wd};
    for (int64_t i = thread_of_grid(); i < n; i += threads_of_grid()) {
        of(param[i], m[i], v[i], grad[i]);
        grad[i] = 0.0f;
    }
}

/* Five loads of 16 bytes are in flight at each step. */
EACH_KERNEL(elementwise_adamw_f32_wide)
(float *param, float *m, double *v, float *grad, double beta1, double beta2, double one_minus_beta1,
 double one_minus_beta2, double eps, double alpha, double lr_wd, int64_t n) {
    AdamW of = {beta1, beta2, one_minus_beta1, one_minus_beta2, eps, alpha, lr_wd};
    float4 *param4 = reinterpret_cast<float4 *>(param), *m4 = reinterpret_cast<float4 *>(m),
           *grad4 = reinterpret_cast<float4 *>(grad);
    double2 *v2 = reinterpret_cast<double2 *>(v);
    for (int64_t i = thread_of_grid(); i < n / 4; i += threads_of_grid()) {
        float4 p = load_streamed(param4 + i), moment = load_streamed(m4 + i),
               g = load_streamed(grad4 + i);
        double2 square0 = load_streamed(v2 + 2 * i), square1 = load_streamed(v2 + 2 * i + 1);
        of(p.x, moment.x, square0.x, g.x);
        of(p.y, moment.y, square0.y, g.y);
        of(p.z, moment.z, square1.x, g.z);
        of(p.w, moment.w, square1.y, g.w);
        store_streamed(param4 + i, p);
        store_streamed(m4 + i, moment);
        store_streamed(v2 + 2 * i, square0);
        store_streamed(v2 + 2 * i + 1, square1);
        store_streamed(grad4 + i, make_float4(0.0f, 0.0f, 0.0f, 0.0f));
    }
    int64_t rest = n / 4 * 4 + thread_of_grid();
    if (rest < n) {
        of(param[rest], m[rest], v[rest], grad[rest]);
        grad[rest] = 0.0f;
    }
}

#endif
