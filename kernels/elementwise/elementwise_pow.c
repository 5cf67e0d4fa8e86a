/*
 * Elementwise kernels: powers with one exponent.
 *
 * The host looks at the exponent once, so that no element needs to.  Some exponents have their own
 * kernels.  The general kernel computes with |a| and gets the sign that a negative base gives the
 * result.
 */
#include "cushim/kernels/elementwise.h"

#include <math.h>

#include "cushim/kernels_ref.h"
#include "companion/shared.h"
#include "kernels/launch/each.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/launch/variants.h"

static const struct {
    float exponent;
    enum elementwise_kernel kernel;
} shortcuts[] = {
    {1.0f, ELEMENTWISE_pow_1_f32},    {2.0f, ELEMENTWISE_pow_2_f32},
    {3.0f, ELEMENTWISE_pow_3_f32},    {-1.0f, ELEMENTWISE_pow_minus_1_f32},
    {0.5f, ELEMENTWISE_pow_half_f32}, {-0.5f, ELEMENTWISE_pow_minus_half_f32},
};

/* Exponents up to here have shorter kernels (kernels/elementwise/elementwise_pow.cuh). */
#define LIGHT    4.0f
#define MODERATE 64.0f

struct power {
    const float *a;
    float *c;
    float s;
    int64_t n;
};

static bool is_odd(float s) {
    return fabsf(fmodf(s, 2.0f)) == 1.0f;
}

/* An infinity counts as an even integer, NaN as no integer. */
static bool is_integer(float s) {
    return truncf(s) == s;
}

static enum elementwise_kernel kernel_of(float s) {
    return fabsf(s) <= LIGHT      ? ELEMENTWISE_pow_light_f32
           : fabsf(s) <= MODERATE ? ELEMENTWISE_pow_moderate_f32
                                  : ELEMENTWISE_pow_scalar_f32;
}

static enum cushim_status launch_power(const struct cushim_each *each, struct power *args,
                                       bool is_absolute) {
    uint32_t sign = !is_absolute && is_odd(args->s) ? 0x80000000u : 0;
    uint32_t kept = is_absolute ? 0x7FFFFFFFu : 0xFFFFFFFFu;
    float bound = is_absolute || is_integer(args->s) ? -INFINITY : 0.0f;
    for (unsigned i = 0; i < sizeof shortcuts / sizeof *shortcuts; i++) {
        if (args->s == shortcuts[i].exponent)
            return cushim_each_launch(each, shortcuts[i].kernel,
                                      (void *[]){&args->a, &args->c, &kept, &args->n});
    }
    return cushim_each_launch(each, kernel_of(args->s),
                              (void *[]){&args->a, &args->c, &args->s, &sign, &bound, &args->n});
}

static enum cushim_status run_power(const char *what, bool is_absolute,
                                    void (*reference)(const void *args), struct power args,
                                    struct CUstream_st *stream) {
    struct cushim_each each = {
        .n = args.n, .operands = {{"a", args.a, sizeof(float)}, {"c", args.c, sizeof(float)}}};
    CUSHIM_TRY(cushim_each_begin(&each, what, &cushim_family_elementwise, reference, &args,
                                 sizeof args, stream));
    if (each.is_done)
        return CUSHIM_OK;
    return launch_power(&each, &args, is_absolute);
}

static void power_reference(const void *args) {
    const struct power *of = args;
    cushim_pow_scalar_f32_ref(of->a, of->c, of->s, of->n);
}

enum cushim_status cushim_pow_scalar_f32(const float *a, float *c, float s, int64_t n,
                                         struct CUstream_st *stream) {
    return run_power(__func__, false, power_reference, (struct power){a, c, s, n}, stream);
}

static void absolute_reference(const void *args) {
    const struct power *of = args;
    cushim_variant_pow_abs_scalar_f32_ref(of->a, of->c, of->s, of->n);
}

enum cushim_status cushim_variant_pow_abs_scalar_f32(const float *a, float *c, float s, int64_t n,
                                                     struct CUstream_st *stream) {
    return run_power(__func__, true, absolute_reference, (struct power){a, c, s, n}, stream);
}
