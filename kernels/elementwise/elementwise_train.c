/* Elementwise kernels of training: dropout, and a step of AdamW. */
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
    float *param, *m;
    double *v;
    float *grad;
    double beta1, beta2, one_minus_beta1, one_minus_beta2, eps, alpha, lr_wd;
    int64_t n;
};

static void adamw_reference(const void *args) {
    const struct adamw *of = args;
    cushim_adamw_f32_ref(of->param, of->m, of->v, of->grad, of->beta1, of->beta2,
                         of->one_minus_beta1, of->one_minus_beta2, of->eps, of->alpha, of->lr_wd,
                         of->n);
}

enum cushim_status cushim_adamw_f32(float *param, float *m, double *v, float *grad, double beta1,
                                    double beta2, double one_minus_beta1, double one_minus_beta2,
                                    double eps, double alpha, double lr_wd, int64_t n,
                                    struct CUstream_st *stream) {
    struct adamw args = {param,           m,   v,     grad,  beta1, beta2, one_minus_beta1,
                         one_minus_beta2, eps, alpha, lr_wd, n};
    struct cushim_each each = {.n = n,
                               .operands = {{"param", param, sizeof(float)},
                                            {"m", m, sizeof(float)},
                                            {"v", v, sizeof(double)},
                                            {"grad", grad, sizeof(float)}}};
    CUSHIM_TRY(cushim_each_begin(&each, __func__, &cushim_family_elementwise, adamw_reference,
                                 &args, sizeof args, stream));
    if (each.is_done)
        return CUSHIM_OK;
    return cushim_each_launch(&each, ELEMENTWISE_adamw_f32,
                              (void *[]){&args.param, &args.m, &args.v, &args.grad, &args.beta1,
                                         &args.beta2, &args.one_minus_beta1, &args.one_minus_beta2,
                                         &args.eps, &args.alpha, &args.lr_wd, &args.n});
}
