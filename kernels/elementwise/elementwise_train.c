/* Elementwise kernels of training: dropout, and a step of AdamW. */
#include "cushim/kernels/bf16.h"
#include "cushim/kernels/elementwise.h"

#include "cushim/kernels_ref.h"
#include "companion/shared.h"
#include "kernels/launch/each.h"
#include "kernels/elementwise/elementwise.h"

/* ---- dropout ---- */

struct dropout {
    const float *in;
    float *out;
    float p, keep_scale;
    uint64_t key;
    int64_t n;
};

static void dropout_reference(const void *args) {
    const struct dropout *of = args;
    cushim_dropout_f32_ref(of->in, of->out, of->p, of->keep_scale, of->key, of->n);
}

/*
 * The least word whose number u = (float)word * 2^-32 is not below p, so that the kernel compares
 * words; 2^32 if every one is below or p is NaN.  The conversion is monotonic, so a search finds
 * it.
 */
static uint64_t least_kept(float p) {
    uint64_t low = 0, high = (uint64_t)1 << 32;
    while (low < high) {
        uint64_t middle = (low + high) / 2;
        if ((float)(uint32_t)middle * 0x1p-32f >= p)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static enum cushim_status launch_dropout(const struct cushim_each *each, struct dropout *args) {
    uint32_t zero = 0, all = 0xFFFFFFFFu, key_low = (uint32_t)args->key,
             key_high = (uint32_t)(args->key >> 32), kept;
    if (args->p == 0) /* a copy, like the power of 1 */
        return cushim_each_launch(each, ELEMENTWISE_pow_1_f32,
                                  (void *[]){&args->in, &args->out, &all, &args->n});
    uint64_t least = least_kept(args->p);
    if (least > UINT32_MAX)
        return cushim_each_launch(each, ELEMENTWISE_fill_f32,
                                  (void *[]){&args->out, &zero, &args->n});
    kept = (uint32_t)least;
    return cushim_each_launch(
        each, ELEMENTWISE_dropout_f32,
        (void *[]){&args->in, &args->out, &kept, &args->keep_scale, &key_low, &key_high, &args->n});
}

enum cushim_status cushim_dropout_f32(const float *in, float *out, float p, float keep_scale,
                                      uint64_t key, int64_t n, struct CUstream_st *stream) {
    struct dropout args = {in, out, p, keep_scale, key, n};
    struct cushim_each each = {
        .n = n, .operands = {{"in", in, sizeof(float)}, {"out", out, sizeof(float)}}};
    CUSHIM_TRY(cushim_each_begin(&each, __func__, &cushim_family_elementwise, dropout_reference,
                                 &args, sizeof args, stream));
    if (each.is_done)
        return CUSHIM_OK;
    return launch_dropout(&each, &args);
}

/* ---- AdamW ---- */

struct adamw {
    void *param;
    float *m;
    double *v;
    void *grad;
    struct adamw_rates {
        double beta1, beta2, one_minus_beta1, one_minus_beta2, eps, alpha, lr_wd;
    } rates;
    int64_t n;
};

static enum cushim_status run_adamw(const char *what, enum elementwise_kernel kernel,
                                    size_t elem_bytes, void (*reference)(const void *args),
                                    struct adamw args, struct CUstream_st *stream) {
    struct cushim_each each = {.n = args.n,
                               .operands = {{"param", args.param, elem_bytes},
                                            {"m", args.m, sizeof(float)},
                                            {"v", args.v, sizeof(double)},
                                            {"grad", args.grad, elem_bytes}}};
    CUSHIM_TRY(cushim_each_begin(&each, what, &cushim_family_elementwise, reference, &args,
                                 sizeof args, stream));
    if (each.is_done)
        return CUSHIM_OK;
    return cushim_each_launch(
        &each, kernel, (void *[]){&args.param, &args.m, &args.v, &args.grad, &args.rates, &args.n});
}

#define ADAMW(name, type)                                                                          \
    static void name##_reference(const void *args) {                                               \
        const struct adamw *of = args;                                                             \
        const struct adamw_rates *rates = &of->rates;                                              \
        cushim_##name##_ref(of->param, of->m, of->v, of->grad, rates->beta1, rates->beta2,         \
                            rates->one_minus_beta1, rates->one_minus_beta2, rates->eps,            \
                            rates->alpha, rates->lr_wd, of->n);                                    \
    }                                                                                              \
    enum cushim_status cushim_##name(type *param, float *m, double *v, type *grad, double beta1,   \
                                     double beta2, double one_minus_beta1, double one_minus_beta2, \
                                     double eps, double alpha, double lr_wd, int64_t n,            \
                                     struct CUstream_st *stream) {                                 \
        struct adamw_rates rates = {beta1, beta2, one_minus_beta1, one_minus_beta2, eps,           \
                                    alpha, lr_wd};                                                 \
        return run_adamw(__func__, ELEMENTWISE_##name, sizeof(type), name##_reference,             \
                         (struct adamw){param, m, v, grad, rates, n}, stream);                     \
    }

ADAMW(adamw_f32, float)
ADAMW(adamw_bf16, uint16_t)
