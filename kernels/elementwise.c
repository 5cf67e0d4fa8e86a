/* Elementwise kernels: arguments, the choice of a path, the launch. */
#include "cushim/kernels/elementwise.h"

#include "base/try.h"
#include "cushim/kernels_ref.h"
#include "kernels/call.h"
#include "kernels/check.h"

/* A kernel of addresses that are multiples of 16 follows its plain one. */
enum kernel { ADD, ADD_WIDE, SUB, SUB_WIDE, MUL, MUL_WIDE, DIV, DIV_WIDE };

static const struct cushim_kernel kernels[] = {
    [ADD] = {.name = "elementwise_add_f32"}, [ADD_WIDE] = {.name = "elementwise_add_f32_wide"},
    [SUB] = {.name = "elementwise_sub_f32"}, [SUB_WIDE] = {.name = "elementwise_sub_f32_wide"},
    [MUL] = {.name = "elementwise_mul_f32"}, [MUL_WIDE] = {.name = "elementwise_mul_f32_wide"},
    [DIV] = {.name = "elementwise_div_f32"}, [DIV_WIDE] = {.name = "elementwise_div_f32_wide"},
};
CUSHIM_KERNEL_FAMILY(elementwise, kernels);

enum { BLOCK_THREADS = 256, BLOCKS_PER_SM = 8 };

/* ---- a op b ---- */

struct binary {
    const float *a, *b;
    float *c;
    int64_t n;
};

static enum cushim_status launch_binary(const struct cushim_kernel_call *call, enum kernel kernel,
                                        struct binary *args) {
    bool is_wide = cushim_is_aligned(16, args->a, args->b, args->c, NULL);
    struct cushim_kernel_shape shape = {
        .grid = {cushim_n_blocks(args->n, (is_wide ? 8 : 1) * BLOCK_THREADS,
                                 (int64_t)call->n_sms * BLOCKS_PER_SM)},
        .block = {BLOCK_THREADS}};
    void *params[] = {&args->a, &args->b, &args->c, &args->n};
    return cushim_kernel_call_launch(call, kernel + (is_wide ? ADD_WIDE - ADD : 0), &shape, params);
}

static enum cushim_status run_binary(const char *what, enum kernel kernel,
                                     void (*twin)(const void *args), struct binary args,
                                     struct CUstream_st *stream) {
    struct cushim_kernel_call call;
    int64_t n;
    CUSHIM_TRY(cushim_check_size(what, "n", args.n));
    CUSHIM_TRY(cushim_check_count(what, "c", &args.n, 1, sizeof(float), &n));
    if (n == 0)
        return CUSHIM_OK;
    CUSHIM_TRY(cushim_check_pointer(what, "a", args.a, sizeof(float)));
    CUSHIM_TRY(cushim_check_pointer(what, "b", args.b, sizeof(float)));
    CUSHIM_TRY(cushim_check_pointer(what, "c", args.c, sizeof(float)));
    CUSHIM_TRY(cushim_kernel_call_begin(&call, what, &cushim_family_elementwise, stream));
    if (call.is_cpu)
        return cushim_kernel_call_twin(&call, twin, &args, sizeof args);
    return launch_binary(&call, kernel, &args);
}

#define BINARY(op, kernel)                                                                         \
    static void op##_twin(const void *args) {                                                      \
        const struct binary *binary = args;                                                        \
        cushim_##op##_f32_ref(binary->a, binary->b, binary->c, binary->n);                         \
    }                                                                                              \
    enum cushim_status cushim_##op##_f32(const float *a, const float *b, float *c, int64_t n,      \
                                         struct CUstream_st *stream) {                             \
        return run_binary(__func__, kernel, op##_twin, (struct binary){a, b, c, n}, stream);       \
    }

BINARY(add, ADD)
BINARY(sub, SUB)
BINARY(mul, MUL)
BINARY(div, DIV)
