/* Elementwise kernels: f(a), and fill, which has no input. */
#include "cushim/kernels/bf16.h"
#include "cushim/kernels/elementwise.h"

#include <string.h>

#include "cushim/kernels_ref.h"
#include "companion/shared.h"
#include "kernels/launch/each.h"
#include "kernels/elementwise/elementwise.h"

/* ---- f(a) ---- */

struct unary {
    const void *a;
    void *c;
    int64_t n;
};

static enum cushim_status run_unary(const char *what, enum elementwise_kernel kernel,
                                    size_t elem_bytes, void (*reference)(const void *args),
                                    struct unary args, struct CUstream_st *stream) {
    struct cushim_each each = {.n = args.n,
                               .is_long = elementwise_is_long(kernel),
                               .operands = {{"a", args.a, elem_bytes}, {"c", args.c, elem_bytes}}};
    CUSHIM_TRY(cushim_each_begin(&each, what, &cushim_family_elementwise, reference, &args,
                                 sizeof args, stream));
    if (each.is_done)
        return CUSHIM_OK;
    return cushim_each_launch(&each, kernel, (void *[]){&args.a, &args.c, &args.n});
}

#define UNARY(name, type)                                                                          \
    static void name##_reference(const void *args) {                                               \
        const struct unary *of = args;                                                             \
        cushim_##name##_ref(of->a, of->c, of->n);                                                  \
    }                                                                                              \
    enum cushim_status cushim_##name(const type *a, type *c, int64_t n,                            \
                                     struct CUstream_st *stream) {                                 \
        return run_unary(__func__, ELEMENTWISE_##name, sizeof(type), name##_reference,             \
                         (struct unary){a, c, n}, stream);                                         \
    }

UNARY(exp_f32, float)
UNARY(log_f32, float)
UNARY(sqrt_f32, float)
UNARY(rsqrt_f32, float)
UNARY(sin_f32, float)
UNARY(cos_f32, float)
UNARY(tanh_f32, float)
UNARY(exp_bf16, uint16_t)
UNARY(log_bf16, uint16_t)
UNARY(sqrt_bf16, uint16_t)
UNARY(rsqrt_bf16, uint16_t)
UNARY(tanh_bf16, uint16_t)

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
