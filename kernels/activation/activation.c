/* Activations with a factor: arguments and launch. */
#include "cushim/kernels/activation.h"

#include "cushim/kernels_ref.h"
#include "companion/shared.h"
#include "kernels/launch/each.h"

enum kernel { TANH_PRIME, TANH_PRIME_WIDE, SWIGLU, SWIGLU_WIDE };

static const struct cushim_kernel kernels[] = {
    [TANH_PRIME] = {.name = "activation_tanh_prime_f32"},
    [TANH_PRIME_WIDE] = {.name = "activation_tanh_prime_f32_wide"},
    [SWIGLU] = {.name = "activation_swiglu_f32"},
    [SWIGLU_WIDE] = {.name = "activation_swiglu_f32_wide"},
};
CUSHIM_KERNEL_FAMILY(activation, kernels);

struct pair {
    const float *a, *b;
    float *c;
    int64_t n;
};

/* `each` names the operands as the function does. */
static enum cushim_status run(struct cushim_each *each, const char *what, enum kernel kernel,
                              void (*reference)(const void *args), struct pair args,
                              struct CUstream_st *stream) {
    CUSHIM_TRY(cushim_each_begin(each, what, &cushim_family_activation, reference, &args,
                                 sizeof args, stream));
    if (each->is_done)
        return CUSHIM_OK;
    return cushim_each_launch(each, kernel, (void *[]){&args.a, &args.b, &args.c, &args.n});
}

static void tanh_prime_reference(const void *args) {
    const struct pair *of = args;
    cushim_tanh_prime_f32_ref(of->a, of->b, of->c, of->n);
}

enum cushim_status cushim_tanh_prime_f32(const float *a, const float *upstream, float *c, int64_t n,
                                         struct CUstream_st *stream) {
    struct cushim_each each = {.n = n,
                               .is_dependent = true,
                               .operands = {{"a", a, sizeof(float)},
                                            {"upstream", upstream, sizeof(float)},
                                            {"c", c, sizeof(float)}}};
    return run(&each, __func__, TANH_PRIME, tanh_prime_reference, (struct pair){a, upstream, c, n},
               stream);
}

static void swiglu_reference(const void *args) {
    const struct pair *of = args;
    cushim_swiglu_f32_ref(of->a, of->b, of->c, of->n);
}

enum cushim_status cushim_swiglu_f32(const float *w1, const float *w3, float *y, int64_t n,
                                     struct CUstream_st *stream) {
    struct cushim_each each = {.n = n,
                               .is_dependent = true,
                               .operands = {{"w1", w1, sizeof(float)},
                                            {"w3", w3, sizeof(float)},
                                            {"y", y, sizeof(float)}}};
    return run(&each, __func__, SWIGLU, swiglu_reference, (struct pair){w1, w3, y, n}, stream);
}
