/* Elementwise kernels: f(a), and fill, which has no input. */
#include "cushim/kernels/elementwise.h"

#include <string.h>

#include "cushim/kernels_ref.h"
#include "companion/shared.h"
#include "kernels/launch/each.h"
#include "kernels/elementwise/elementwise.h"

/* ---- f(a) ---- */

struct unary {
    const float *a;
    float *c;
    int64_t n;
};

static enum cushim_status run_unary(const char *what, enum elementwise_kernel kernel,
                                    void (*reference)(const void *args), struct unary args,
                                    struct CUstream_st *stream) {
    struct cushim_each each = {
        .n = args.n,
        .is_long = elementwise_is_long(kernel),
        .operands = {{"a", args.a, sizeof(float)}, {"c", args.c, sizeof(float)}}};
    CUSHIM_TRY(cushim_each_begin(&each, what, &cushim_family_elementwise, reference, &args,
                                 sizeof args, stream));
    if (each.is_done)
        return CUSHIM_OK;
    return cushim_each_launch(&each, kernel, (void *[]){&args.a, &args.c, &args.n});
}

#define UNARY(name)                                                                                \
    static void name##_reference(const void *args) {                                               \
        const struct unary *of = args;                                                             \
        cushim_##name##_ref(of->a, of->c, of->n);                                                  \
    }                                                                                              \
    enum cushim_status cushim_##name(const float *a, float *c, int64_t n,                          \
                                     struct CUstream_st *stream) {                                 \
        return run_unary(__func__, ELEMENTWISE_##name, name##_reference, (struct unary){a, c, n},  \
                         stream);                                                                  \
    }

UNARY(exp_f32)
UNARY(log_f32)
UNARY(sqrt_f32)
UNARY(rsqrt_f32)
UNARY(sin_f32)
UNARY(cos_f32)
UNARY(tanh_f32)

/* ---- fill ---- */

struct fill {
    float *dst;
    float value;
    int64_t n;
};

static void fill_reference(const void *args) {
    const struct fill *of = args;
    cushim_fill_f32_ref(of->dst, of->value, of->n);
}

enum cushim_status cushim_fill_f32(float *dst, float value, int64_t n, struct CUstream_st *stream) {
    struct fill args = {dst, value, n};
    struct cushim_each each = {.n = n, .operands = {{"dst", dst, sizeof(float)}}};
    uint32_t bits;
    CUSHIM_TRY(cushim_each_begin(&each, __func__, &cushim_family_elementwise, fill_reference, &args,
                                 sizeof args, stream));
    if (each.is_done)
        return CUSHIM_OK;
    memcpy(&bits, &value, sizeof bits);
    return cushim_each_launch(&each, ELEMENTWISE_fill_f32, (void *[]){&args.dst, &bits, &args.n});
}
