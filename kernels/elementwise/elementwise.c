/* Elementwise kernels: a op b and a op s on float, a op b on half and bfloat16.  The family is
 * defined here. */
#include "cushim/kernels/bf16.h"
#include "cushim/kernels/elementwise.h"

#include <math.h>

#include "cushim/kernels_ref.h"
#include "companion/shared.h"
#include "kernels/launch/each.h"
#include "kernels/elementwise/elementwise.h"

static const struct cushim_kernel kernels[] = {
#define EACH(op) {.name = "elementwise_" #op}, {.name = "elementwise_" #op "_wide"},
#include "kernels/elementwise/elementwise.def"
#undef EACH
};
CUSHIM_KERNEL_FAMILY(elementwise, kernels);

/* ---- a op b ---- */

struct binary {
    const void *a, *b;
    void *c;
    int64_t n;
};

static enum cushim_status run_binary(const char *what, enum elementwise_kernel kernel,
                                     size_t elem_bytes, void (*reference)(const void *args),
                                     struct binary args, struct CUstream_st *stream) {
    struct cushim_each each = {.n = args.n,
                               .is_long = elementwise_is_long(kernel),
                               .operands = {{"a", args.a, elem_bytes},
                                            {"b", args.b, elem_bytes},
                                            {"c", args.c, elem_bytes}}};
    CUSHIM_TRY(cushim_each_begin(&each, what, &cushim_family_elementwise, reference, &args,
                                 sizeof args, stream));
    if (each.is_done)
        return CUSHIM_OK;
    return cushim_each_launch(&each, kernel, (void *[]){&args.a, &args.b, &args.c, &args.n});
}

#define BINARY(name, type)                                                                         \
    static void name##_reference(const void *args) {                                               \
        const struct binary *of = args;                                                            \
        cushim_##name##_ref(of->a, of->b, of->c, of->n);                                           \
    }                                                                                              \
    enum cushim_status cushim_##name(const type *a, const type *b, type *c, int64_t n,             \
                                     struct CUstream_st *stream) {                                 \
        return run_binary(__func__, ELEMENTWISE_##name, sizeof(type), name##_reference,            \
                          (struct binary){a, b, c, n}, stream);                                    \
    }

BINARY(add_f32, float)
BINARY(sub_f32, float)
BINARY(mul_f32, float)
BINARY(div_f32, float)
BINARY(pow_f32, float)
BINARY(add_f16, uint16_t)
BINARY(sub_f16, uint16_t)
BINARY(mul_f16, uint16_t)
BINARY(div_f16, uint16_t)
BINARY(add_bf16, uint16_t)
BINARY(sub_bf16, uint16_t)
BINARY(mul_bf16, uint16_t)
BINARY(div_bf16, uint16_t)

/* ---- a op s ---- */

struct scalar {
    const float *a;
    float *c;
    float s;
    int64_t n;
};

/* Whether a kernel divides by s with its reciprocal.  It must not if s is NaN or 0. */
static bool is_moderate(float s) {
    return fabsf(s) >= 0x1p-60f && fabsf(s) <= 0x1p60f;
}

static enum cushim_status run_scalar(const char *what, enum elementwise_kernel kernel,
                                     void (*reference)(const void *args), struct scalar args,
                                     struct CUstream_st *stream) {
    struct cushim_each each = {
        .n = args.n, .operands = {{"a", args.a, sizeof(float)}, {"c", args.c, sizeof(float)}}};
    CUSHIM_TRY(cushim_each_begin(&each, what, &cushim_family_elementwise, reference, &args,
                                 sizeof args, stream));
    if (each.is_done)
        return CUSHIM_OK;
    if (kernel == ELEMENTWISE_div_scalar_f32 && is_moderate(args.s))
        return cushim_each_launch(
            &each, ELEMENTWISE_div_moderate_f32,
            (void *[]){&args.a, &args.c, &args.s, &(float){1.0f / args.s}, &args.n});
    return cushim_each_launch(&each, kernel, (void *[]){&args.a, &args.c, &args.s, &args.n});
}

#define SCALAR(name)                                                                               \
    static void name##_reference(const void *args) {                                               \
        const struct scalar *of = args;                                                            \
        cushim_##name##_ref(of->a, of->c, of->s, of->n);                                           \
    }                                                                                              \
    enum cushim_status cushim_##name(const float *a, float *c, float s, int64_t n,                 \
                                     struct CUstream_st *stream) {                                 \
        return run_scalar(__func__, ELEMENTWISE_##name, name##_reference,                          \
                          (struct scalar){a, c, s, n}, stream);                                    \
    }

SCALAR(add_scalar_f32)
SCALAR(sub_scalar_f32)
SCALAR(mul_scalar_f32)
SCALAR(div_scalar_f32)
