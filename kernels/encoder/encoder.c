/* Layer norm, GELU, and the gradients of both and of softmax: arguments and launches. */
#include "cushim/kernels/encoder.h"

#include "cushim/kernels_ref.h"
#include "companion/shared.h"
#include "kernels/launch/arguments.h"
#include "kernels/launch/call.h"

enum kernel { LAYER_NORM, LAYER_NORM_BACKWARD, SOFTMAX_BACKWARD, GELU, GELU_BACKWARD };

static const struct cushim_kernel kernels[] = {
    [LAYER_NORM] = {.name = "encoder_layer_norm_f32"},
    [LAYER_NORM_BACKWARD] = {.name = "encoder_layer_norm_backward_f32"},
    [SOFTMAX_BACKWARD] = {.name = "encoder_softmax_backward_f32"},
    [GELU] = {.name = "encoder_gelu_f32"},
    [GELU_BACKWARD] = {.name = "encoder_gelu_backward_f32"},
};
CUSHIM_KERNEL_FAMILY(encoder, kernels);

enum { MOST_OPERANDS = 6, THREADS = 128 };

struct encoder {
    enum kernel kernel;
    const void *operands[MOST_OPERANDS]; /* inputs, then outputs */
    float eps;
    int64_t rows, d; /* or 1, n */
};

static void reference(const void *args) {
    const struct encoder *e = args;
    const void *const *p = e->operands;
    switch (e->kernel) {
    case LAYER_NORM:
        cushim_layer_norm_f32_ref(p[0], p[1], p[2], (float *)p[3], (float *)p[4], e->eps, e->rows,
                                  e->d);
        break;
    case LAYER_NORM_BACKWARD:
        cushim_layer_norm_backward_f32_ref(p[0], p[1], p[2], p[3], (float *)p[4], (float *)p[5],
                                           e->rows, e->d);
        break;
    case SOFTMAX_BACKWARD:
        cushim_softmax_backward_f32_ref(p[0], p[1], (float *)p[2], e->rows, e->d);
        break;
    case GELU:
        cushim_gelu_f32_ref(p[0], (float *)p[1], e->d);
        break;
    case GELU_BACKWARD:
        cushim_gelu_backward_f32_ref(p[0], p[1], (float *)p[2], e->d);
        break;
    }
}

/* `names` are those of the operands; one with a ? may be NULL. */
static enum cushim_status run(const char *what, struct encoder *e, const char *const *names,
                              struct CUstream_st *stream) {
    bool has_rows = e->kernel < GELU;
    struct cushim_kernel_call call;
    void *params[MOST_OPERANDS + 3];
    int n_params = 0;
    int64_t n;
    CUSHIM_TRY(cushim_check_size(what, has_rows ? "rows" : "n", has_rows ? e->rows : e->d));
    CUSHIM_TRY(cushim_check_size(what, has_rows ? "d" : "n", e->d));
    CUSHIM_TRY(
        cushim_check_count(what, names[0], (int64_t[]){e->rows, e->d}, 2, sizeof(float), &n));
    if (n == 0)
        return CUSHIM_OK;
    for (; n_params < MOST_OPERANDS && names[n_params]; n_params++) {
        const void *operand = e->operands[n_params];
        if (operand || names[n_params][0] != '?')
            CUSHIM_TRY(cushim_check_pointer(what, names[n_params] + (names[n_params][0] == '?'),
                                            operand, sizeof(float)));
        params[n_params] = &e->operands[n_params];
    }
    if (e->kernel == LAYER_NORM)
        params[n_params++] = &e->eps;
    if (has_rows)
        params[n_params++] = &e->rows;
    params[n_params++] = &e->d;
    CUSHIM_TRY(cushim_kernel_call_begin(&call, what, &cushim_family_encoder, stream));
    if (call.is_cpu)
        return cushim_kernel_call_reference(&call, reference, e, sizeof *e);
    enum { ROWS_OF_BLOCK = THREADS / 32 }; /* a warp each */
    struct cushim_kernel_shape shape = {
        .grid = {has_rows ? cushim_n_blocks(e->rows, ROWS_OF_BLOCK, INT32_MAX)
                          : cushim_n_blocks(n, THREADS, INT32_MAX)},
        .block = {THREADS}};
    return cushim_kernel_call_launch(&call, e->kernel, &shape, params);
}

#define NAMES(...) ((const char *const[MOST_OPERANDS]){__VA_ARGS__})

enum cushim_status cushim_layer_norm_f32(const float *x, const float *w, const float *b, float *y,
                                         float *rstd, float eps, int64_t rows, int64_t d,
                                         struct CUstream_st *stream) {
    struct encoder e = {LAYER_NORM, {x, w, b, y, rstd}, eps, rows, d};
    return run(__func__, &e, NAMES("x", "w", "b", "y", "?rstd"), stream);
}

enum cushim_status cushim_layer_norm_backward_f32(const float *dy, const float *x, const float *w,
                                                  const float *rstd, float *dx, float *dw,
                                                  int64_t rows, int64_t d,
                                                  struct CUstream_st *stream) {
    struct encoder e = {LAYER_NORM_BACKWARD, {dy, x, w, rstd, dx, dw}, 0, rows, d};
    return run(__func__, &e, NAMES("dy", "x", "w", "rstd", "dx", "dw"), stream);
}

enum cushim_status cushim_softmax_backward_f32(const float *y, const float *dy, float *dx,
                                               int64_t rows, int64_t d,
                                               struct CUstream_st *stream) {
    struct encoder e = {SOFTMAX_BACKWARD, {y, dy, dx}, 0, rows, d};
    return run(__func__, &e, NAMES("y", "dy", "dx"), stream);
}

enum cushim_status cushim_gelu_f32(const float *x, float *y, int64_t n,
                                   struct CUstream_st *stream) {
    struct encoder e = {GELU, {x, y}, 0, 1, n};
    return run(__func__, &e, NAMES("x", "y"), stream);
}

enum cushim_status cushim_gelu_backward_f32(const float *x, const float *dy, float *dx, int64_t n,
                                            struct CUstream_st *stream) {
    struct encoder e = {GELU_BACKWARD, {x, dy, dx}, 0, 1, n};
    return run(__func__, &e, NAMES("x", "dy", "dx"), stream);
}
