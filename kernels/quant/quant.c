/* Dequantising, and products of q4k, q5_0, q5k and q6k: arguments and launches. */
#include "cushim/kernels/quant.h"

#include <stdbool.h>

#include "cushim/kernels/gemv.h"
#include "cushim/kernels_ref.h"
#include "companion/shared.h"
#include "kernels/launch/call.h"
#include "kernels/launch/arguments.h"
#include "kernels/launch/variants.h"
#include "kernels/shared/quant_parts.h"

enum kernel {
    DEQUANT_Q4K,
    DEQUANT_Q4K_WIDE,
    GEMM,
    GEMV = GEMM + QUANT_N_FORMATS,
    DEQUANT = GEMV + QUANT_Q4K,
    TERNARY = DEQUANT + QUANT_Q4K,
    E2M1
};

static const struct cushim_kernel kernels[] = {
    [DEQUANT_Q4K] = {.name = "quant_dequant_q4k_f32"},
    [DEQUANT_Q4K_WIDE] = {.name = "quant_dequant_q4k_f32_wide"},
    [GEMM + QUANT_Q5_0] = {.name = "quant_gemm_q5_0_f32"},
    [GEMM + QUANT_Q5K] = {.name = "quant_gemm_q5k_f32"},
    [GEMM + QUANT_Q6K] = {.name = "quant_gemm_q6k_f32"},
    [GEMM + QUANT_Q4K] = {.name = "quant_gemm_q4k_f32"},
    [GEMV + QUANT_Q5_0] = {.name = "quant_gemv_q5_0_f32"},
    [GEMV + QUANT_Q5K] = {.name = "quant_gemv_q5k_f32"},
    [GEMV + QUANT_Q6K] = {.name = "quant_gemv_q6k_f32"},
    [DEQUANT + QUANT_Q5_0] = {.name = "quant_dequant_q5_0_f32"},
    [DEQUANT + QUANT_Q5K] = {.name = "quant_dequant_q5k_f32"},
    [DEQUANT + QUANT_Q6K] = {.name = "quant_dequant_q6k_f32"},
    [TERNARY] = {.name = "quant_gemv_ternary_f32"},
    [E2M1] = {.name = "quant_gemv_e2m1_f16_f32"},
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

/* ---- formats by their parts ---- */

static int64_t values_of(enum quant_format format) {
    return format == QUANT_Q5_0 ? 32 : 256;
}

/* The parts of ggml's blocks; NULL has none. */
static struct quant_parts parts_of(enum quant_format format, const uint8_t *w) {
    if (!w)
        return (struct quant_parts){0};
    switch (format) {
    case QUANT_Q4K: /* 16, 128 bytes; no high bits */
        return (struct quant_parts){w, w, w + 16, 144, 144, 144};
    case QUANT_Q5_0: /* 2, 4, 16 bytes */
        return (struct quant_parts){w, w + 2, w + 6, 22, 22, 22};
    case QUANT_Q5K: /* 16, 32, 128 bytes */
        return (struct quant_parts){w, w + 16, w + 48, 176, 176, 176};
    default: /* 128, 64, 16 + 2 bytes */
        return (struct quant_parts){w + 192, w + 128, w, 210, 210, 210};
    }
}

struct product {
    enum kernel first; /* GEMM, GEMV or DEQUANT */
    enum quant_format format;
    struct quant_parts parts;
    const float *b; /* [k][n] */
    float *c;       /* [m][n], or the values */
    int64_t m, k, n;
};

static void product_reference(const void *args) {
    const struct product *product = args;
    if (product->first == DEQUANT)
        cushim_variant_dequant_ref(&product->parts, product->format, product->c, product->m,
                                   product->k);
    else
        cushim_variant_gemm_ref(&product->parts, product->format, product->b, product->c,
                                product->m, product->k, product->n);
}

static enum cushim_status launch_product(const struct cushim_kernel_call *call,
                                         struct product *product) {
    enum { TILE = 64 };
    int64_t m = product->m, n_values = m * product->k;
    int64_t n_blocks = product->first == GEMM ? ((m - 1) / TILE + 1) * ((product->n - 1) / TILE + 1)
                       : product->first == GEMV
                           ? (m * 32 - 1) / BLOCK_THREADS + 1 /* a warp a row */
                           : (n_values / 8 - 1) / BLOCK_THREADS + 1;
    struct cushim_kernel_shape shape = {.grid = {cushim_n_blocks(n_blocks, 1, INT32_MAX)},
                                        .block = {BLOCK_THREADS},
                                        .is_dependent = product->first != GEMM};
    void *products[] = {&product->parts, &product->b, &product->c,
                        &product->m,     &product->k, &product->n};
    void *dequant[] = {&product->parts, &product->c, &n_values};
    return cushim_kernel_call_launch(call, product->first + product->format, &shape,
                                     product->first == DEQUANT ? dequant : products);
}

/* `w` is what the caller gave for the parts. */
static enum cushim_status run_product(const char *what, const void *w, struct product product,
                                      struct CUstream_st *stream) {
    bool is_dequant = product.first == DEQUANT, is_gemm = product.first == GEMM;
    const char *b = is_gemm ? "b" : "x", *c = is_gemm ? "c" : "y";
    struct cushim_kernel_call call;
    int64_t n_values, n_of_b = product.k, n_outputs = product.m;
    CUSHIM_TRY(cushim_check_size(what, is_dequant ? "rows" : "m", product.m));
    CUSHIM_TRY(cushim_check_size(what, "k", product.k));
    CUSHIM_TRY(cushim_check_size(what, "n", product.n));
    CUSHIM_TRY(cushim_check_multiple(what, "k", product.k, values_of(product.format)));
    CUSHIM_TRY(cushim_check_count(what, "w", (int64_t[]){product.m, product.k}, 2, sizeof(float),
                                  &n_values));
    if (is_gemm) {
        CUSHIM_TRY(cushim_check_count(what, b, (int64_t[]){product.k, product.n}, 2, sizeof(float),
                                      &n_of_b));
        CUSHIM_TRY(cushim_check_count(what, c, (int64_t[]){product.m, product.n}, 2, sizeof(float),
                                      &n_outputs));
    }
    if (is_dequant ? n_values == 0 : n_outputs == 0)
        return CUSHIM_OK;
    if (n_values > 0)
        CUSHIM_TRY(cushim_check_pointer(what, "w", w, product.format == QUANT_Q4K ? 2 : 1));
    if (n_of_b > 0 && !is_dequant)
        CUSHIM_TRY(cushim_check_pointer(what, b, product.b, sizeof(float)));
    CUSHIM_TRY(cushim_check_pointer(what, c, product.c, sizeof(float)));
    if (is_gemm && product.n == 1) {
        if (product.format == QUANT_Q4K)
            return cushim_gemv_q4k_f32(w, product.b, product.c, product.m, product.k, stream);
        product.first = GEMV;
    }
    CUSHIM_TRY(cushim_kernel_call_begin(&call, what, &cushim_family_quant, stream));
    if (call.is_cpu)
        return cushim_kernel_call_reference(&call, product_reference, &product, sizeof product);
    return launch_product(&call, &product);
}

enum cushim_status cushim_variant_gemv(const char *what, const struct quant_parts *parts,
                                       enum quant_format format, const float *x, float *y,
                                       int64_t m, int64_t k, struct CUstream_st *stream) {
    return run_product(what, parts->head, (struct product){GEMV, format, *parts, x, y, m, k, 1},
                       stream);
}

enum cushim_status cushim_variant_dequant(const char *what, const struct quant_parts *parts,
                                          enum quant_format format, float *y, int64_t rows,
                                          int64_t k, struct CUstream_st *stream) {
    return run_product(what, parts->head,
                       (struct product){DEQUANT, format, *parts, NULL, y, rows, k, 1}, stream);
}

#define MANY_COLUMNS(name, format)                                                                 \
    enum cushim_status cushim_gemm_##name##_f32(const void *w, const float *b, float *c,           \
                                                int64_t m, int64_t k, int64_t n,                   \
                                                struct CUstream_st *stream) {                      \
        struct product product = {GEMM, format, parts_of(format, w), b, c, m, k, n};               \
        return run_product(__func__, w, product, stream);                                          \
    }                                                                                              \
    void cushim_gemm_##name##_f32_ref(const void *w, const float *b, float *c, int64_t m,          \
                                      int64_t k, int64_t n) {                                      \
        struct quant_parts parts = parts_of(format, w);                                            \
        cushim_variant_gemm_ref(&parts, format, b, c, m, k, n);                                    \
    }

#define FORMAT(name, format)                                                                       \
    MANY_COLUMNS(name, format)                                                                     \
    enum cushim_status cushim_gemv_##name##_f32(const void *w, const float *x, float *y,           \
                                                int64_t m, int64_t k,                              \
                                                struct CUstream_st *stream) {                      \
        struct product product = {GEMV, format, parts_of(format, w), x, y, m, k, 1};               \
        return run_product(__func__, w, product, stream);                                          \
    }                                                                                              \
    enum cushim_status cushim_dequant_##name##_f32(const void *w, float *y, int64_t rows,          \
                                                   int64_t k, struct CUstream_st *stream) {        \
        struct product product = {DEQUANT, format, parts_of(format, w), NULL, y, rows, k, 1};      \
        return run_product(__func__, w, product, stream);                                          \
    }                                                                                              \
    void cushim_gemv_##name##_f32_ref(const void *w, const float *x, float *y, int64_t m,          \
                                      int64_t k) {                                                 \
        cushim_gemm_##name##_f32_ref(w, x, y, m, k, 1);                                            \
    }                                                                                              \
    void cushim_dequant_##name##_f32_ref(const void *w, float *y, int64_t rows, int64_t k) {       \
        struct quant_parts parts = parts_of(format, w);                                            \
        cushim_variant_dequant_ref(&parts, format, y, rows, k);                                    \
    }

MANY_COLUMNS(q4k, QUANT_Q4K)
FORMAT(q5_0, QUANT_Q5_0)
FORMAT(q5k, QUANT_Q5K)
FORMAT(q6k, QUANT_Q6K)

/* ---- two bits, and e2m1 ---- */

struct few_bits {
    enum kernel kernel;
    const void *w;
    const uint16_t *scales; /* of e2m1 */
    const void *x;
    float *y;
    int64_t m, k;
};

static void few_bits_reference(const void *args) {
    const struct few_bits *of = args;
    if (of->kernel == TERNARY)
        cushim_gemv_ternary_f32_ref(of->w, of->x, of->y, of->m, of->k);
    else
        cushim_gemv_e2m1_f16_f32_ref(of->w, of->scales, of->x, of->y, of->m, of->k);
}

static enum cushim_status run_few_bits(const char *what, struct few_bits of,
                                       struct CUstream_st *stream) {
    bool is_e2m1 = of.kernel == E2M1;
    struct cushim_kernel_call call;
    int64_t n;
    CUSHIM_TRY(cushim_check_size(what, "m", of.m));
    CUSHIM_TRY(cushim_check_size(what, "k", of.k));
    CUSHIM_TRY(cushim_check_multiple(what, "k", of.k, is_e2m1 ? 16 : 1));
    CUSHIM_TRY(cushim_check_count(what, "w", (int64_t[]){of.m, of.k}, 2, sizeof(float), &n));
    if (of.m == 0)
        return CUSHIM_OK;
    if (of.k > 0) {
        CUSHIM_TRY(cushim_check_pointer(what, "w", of.w, 1));
        if (is_e2m1)
            CUSHIM_TRY(cushim_check_pointer(what, "scales", of.scales, sizeof(uint16_t)));
        CUSHIM_TRY(
            cushim_check_pointer(what, "x", of.x, is_e2m1 ? sizeof(uint16_t) : sizeof(float)));
    }
    CUSHIM_TRY(cushim_check_pointer(what, "y", of.y, sizeof(float)));
    CUSHIM_TRY(cushim_kernel_call_begin(&call, what, &cushim_family_quant, stream));
    if (call.is_cpu)
        return cushim_kernel_call_reference(&call, few_bits_reference, &of, sizeof of);
    struct cushim_kernel_shape shape = {
        .grid = {cushim_n_blocks(of.m, BLOCK_THREADS / 32, INT32_MAX)},
        .block = {BLOCK_THREADS},
        .is_dependent = true};
    void *ternary[] = {&of.w, &of.x, &of.y, &of.m, &of.k};
    void *e2m1[] = {&of.w, &of.scales, &of.x, &of.y, &of.m, &of.k};
    return cushim_kernel_call_launch(&call, of.kernel, &shape, is_e2m1 ? e2m1 : ternary);
}

enum cushim_status cushim_gemv_ternary_f32(const void *w, const float *x, float *y, int64_t m,
                                           int64_t k, struct CUstream_st *stream) {
    return run_few_bits(__func__, (struct few_bits){TERNARY, w, NULL, x, y, m, k}, stream);
}

enum cushim_status cushim_gemv_e2m1_f16_f32(const void *w, const uint16_t *scales,
                                            const uint16_t *x, float *y, int64_t m, int64_t k,
                                            struct CUstream_st *stream) {
    return run_few_bits(__func__, (struct few_bits){E2M1, w, scales, x, y, m, k}, stream);
}
