/* Dequantising, and products of q5_0, q5k and q6k with a column: arguments and launches. */
#include "cushim/kernels/quant.h"

#include <stdbool.h>

#include "cushim/kernels_ref.h"
#include "companion/shared.h"
#include "kernels/launch/call.h"
#include "kernels/launch/arguments.h"
#include "kernels/launch/variants.h"
#include "kernels/shared/quant_parts.h"

enum kernel { DEQUANT_Q4K, DEQUANT_Q4K_WIDE, GEMV, DEQUANT = GEMV + QUANT_N_FORMATS };

static const struct cushim_kernel kernels[] = {
    [DEQUANT_Q4K] = {.name = "quant_dequant_q4k_f32"},
    [DEQUANT_Q4K_WIDE] = {.name = "quant_dequant_q4k_f32_wide"},
    [GEMV + QUANT_Q5_0] = {.name = "quant_gemv_q5_0_f32"},
    [GEMV + QUANT_Q5K] = {.name = "quant_gemv_q5k_f32"},
    [GEMV + QUANT_Q6K] = {.name = "quant_gemv_q6k_f32"},
    [DEQUANT + QUANT_Q5_0] = {.name = "quant_dequant_q5_0_f32"},
    [DEQUANT + QUANT_Q5K] = {.name = "quant_dequant_q5k_f32"},
    [DEQUANT + QUANT_Q6K] = {.name = "quant_dequant_q6k_f32"},
};
CUSHIM_KERNEL_FAMILY(quant, kernels);

enum { BLOCK_THREADS = 256, Q4K_VALUES = 256 };
enum { HALVES_PER_BLOCK = BLOCK_THREADS / 32 }; /* of super-blocks: each warp has one */

struct dequant {
    const void *w;
    float *y;
    int64_t rows, k;
};

static void dequant_q4k_reference(const void *args) {
    const struct dequant *dequant = args;
    cushim_dequant_q4k_f32_ref(dequant->w, dequant->y, dequant->rows, dequant->k);
}

enum cushim_status cushim_dequant_q4k_f32(const void *w, float *y, int64_t rows, int64_t k,
                                          struct CUstream_st *stream) {
    const char *what = __func__;
    struct cushim_kernel_call call;
    int64_t n;
    CUSHIM_TRY(cushim_check_size(what, "rows", rows));
    CUSHIM_TRY(cushim_check_size(what, "k", k));
    CUSHIM_TRY(cushim_check_multiple(what, "k", k, Q4K_VALUES));
    CUSHIM_TRY(cushim_check_count(what, "y", (int64_t[]){rows, k}, 2, sizeof(float), &n));
    if (n == 0)
        return CUSHIM_OK;
    CUSHIM_TRY(cushim_check_pointer(what, "w", w, sizeof(uint16_t)));
    CUSHIM_TRY(cushim_check_pointer(what, "y", y, sizeof(float)));
    CUSHIM_TRY(cushim_kernel_call_begin(&call, what, &cushim_family_quant, stream));
    if (call.is_cpu)
        return cushim_kernel_call_reference(
            &call, dequant_q4k_reference, &(struct dequant){w, y, rows, k}, sizeof(struct dequant));
    int64_t n_halves = n / (Q4K_VALUES / 2);
    bool is_wide = cushim_is_aligned(16, w, y, NULL, NULL);
    struct cushim_kernel_shape shape = {
        .grid = {cushim_n_blocks(n_halves, HALVES_PER_BLOCK, INT32_MAX)},
        .block = {BLOCK_THREADS},
        .is_dependent = true};
    void *params[] = {&w, &y, &n_halves};
    return cushim_kernel_call_launch(&call, is_wide ? DEQUANT_Q4K_WIDE : DEQUANT_Q4K, &shape,
                                     params);
}

/* ---- five and six bits ---- */

static int64_t values_of(enum quant_format format) {
    return format == QUANT_Q5_0 ? 32 : 256;
}

/* The parts of ggml's blocks; NULL has none. */
static struct quant_parts parts_of(enum quant_format format, const uint8_t *w) {
    if (!w)
        return (struct quant_parts){0};
    switch (format) {
    case QUANT_Q5_0: /* 2, 4, 16 bytes */
        return (struct quant_parts){w, w + 2, w + 6, 22, 22, 22};
    case QUANT_Q5K: /* 16, 32, 128 bytes */
        return (struct quant_parts){w, w + 16, w + 48, 176, 176, 176};
    default: /* 128, 64, 16 + 2 bytes */
        return (struct quant_parts){w + 192, w + 128, w, 210, 210, 210};
    }
}

struct product {
    struct quant_parts parts;
    enum quant_format format;
    const float *x; /* NULL: dequantise */
    float *y;
    int64_t m, k;
};

static void product_reference(const void *args) {
    const struct product *product = args;
    if (product->x)
        cushim_variant_gemv_ref(&product->parts, product->format, product->x, product->y,
                                product->m, product->k);
    else
        cushim_variant_dequant_ref(&product->parts, product->format, product->y, product->m,
                                   product->k);
}

static enum cushim_status launch_product(const struct cushim_kernel_call *call,
                                         struct product *product) {
    int64_t n = product->m * product->k;
    int64_t n_threads = product->x ? product->m * 32 : n / 8; /* a warp a row, or a thread for 8 */
    struct cushim_kernel_shape shape = {
        .grid = {cushim_n_blocks(n_threads, BLOCK_THREADS, INT32_MAX)},
        .block = {BLOCK_THREADS},
        .is_dependent = true};
    void *gemv[] = {&product->parts, &product->x, &product->y, &product->m, &product->k};
    void *dequant[] = {&product->parts, &product->y, &n};
    return cushim_kernel_call_launch(call, (product->x ? GEMV : DEQUANT) + product->format, &shape,
                                     product->x ? gemv : dequant);
}

/* `w` is what the caller gave for the parts. */
static enum cushim_status run_product(const char *what, const void *w, struct product product,
                                      bool is_product, struct CUstream_st *stream) {
    const char *rows = is_product ? "m" : "rows";
    struct cushim_kernel_call call;
    int64_t n;
    CUSHIM_TRY(cushim_check_size(what, rows, product.m));
    CUSHIM_TRY(cushim_check_size(what, "k", product.k));
    CUSHIM_TRY(cushim_check_multiple(what, "k", product.k, values_of(product.format)));
    CUSHIM_TRY(
        cushim_check_count(what, "w", (int64_t[]){product.m, product.k}, 2, sizeof(float), &n));
    if (is_product ? product.m == 0 : n == 0)
        return CUSHIM_OK;
    if (n > 0)
        CUSHIM_TRY(cushim_check_pointer(what, "w", w, 1));
    if (n > 0 && is_product)
        CUSHIM_TRY(cushim_check_pointer(what, "x", product.x, sizeof(float)));
    CUSHIM_TRY(cushim_check_pointer(what, "y", product.y, sizeof(float)));
    CUSHIM_TRY(cushim_kernel_call_begin(&call, what, &cushim_family_quant, stream));
    if (is_product && !product.x)
        product.x = product.y; /* k is 0, so it is not read */
    if (call.is_cpu)
        return cushim_kernel_call_reference(&call, product_reference, &product, sizeof product);
    return launch_product(&call, &product);
}

enum cushim_status cushim_variant_gemv(const char *what, const struct quant_parts *parts,
                                       enum quant_format format, const float *x, float *y,
                                       int64_t m, int64_t k, struct CUstream_st *stream) {
    return run_product(what, parts->head, (struct product){*parts, format, x, y, m, k}, true,
                       stream);
}

enum cushim_status cushim_variant_dequant(const char *what, const struct quant_parts *parts,
                                          enum quant_format format, float *y, int64_t rows,
                                          int64_t k, struct CUstream_st *stream) {
    return run_product(what, parts->head, (struct product){*parts, format, NULL, y, rows, k}, false,
                       stream);
}

#define FORMAT(name, format)                                                                       \
    enum cushim_status cushim_gemv_##name##_f32(const void *w, const float *x, float *y,           \
                                                int64_t m, int64_t k,                              \
                                                struct CUstream_st *stream) {                      \
        struct product product = {parts_of(format, w), format, x, y, m, k};                        \
        return run_product(__func__, w, product, true, stream);                                    \
    }                                                                                              \
    enum cushim_status cushim_dequant_##name##_f32(const void *w, float *y, int64_t rows,          \
                                                   int64_t k, struct CUstream_st *stream) {        \
        struct product product = {parts_of(format, w), format, NULL, y, rows, k};                  \
        return run_product(__func__, w, product, false, stream);                                   \
    }                                                                                              \
    void cushim_gemv_##name##_f32_ref(const void *w, const float *x, float *y, int64_t m,          \
                                      int64_t k) {                                                 \
        struct quant_parts parts = parts_of(format, w);                                            \
        cushim_variant_gemv_ref(&parts, format, x, y, m, k);                                       \
    }                                                                                              \
    void cushim_dequant_##name##_f32_ref(const void *w, float *y, int64_t rows, int64_t k) {       \
        struct quant_parts parts = parts_of(format, w);                                            \
        cushim_variant_dequant_ref(&parts, format, y, rows, k);                                    \
    }

FORMAT(q5_0, QUANT_Q5_0)
FORMAT(q5k, QUANT_Q5K)
FORMAT(q6k, QUANT_Q6K)
