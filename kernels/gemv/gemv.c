/* Products with quantised matrices: the kernels of the family, and the calls with their checks. */
#include "cushim/kernels/gemv.h"
#include "cushim/kernels/quant.h"

#include "cushim/kernels_ref.h"
#include "companion/shared.h"
#include "kernels/gemv/gemv_forms.h"
#include "kernels/launch/arguments.h"
#include "kernels/launch/variants.h"

/* The kernel of a format for a path. */
#define OF(FORMAT, format, PATH, path, bytes)                                                      \
    [GEMV_OF(QUANT_##FORMAT, GEMV_##PATH)] = {.name = "gemv_" #format "_" #path,                   \
                                              .shared_bytes = (bytes)}
#define MMA(FORMAT, format, cols, n_bytes, has_scales, chunk, rows)                                \
    OF(FORMAT, format, MMA##cols, mma##cols, GEMV_MMA_BYTES(rows, n_bytes, has_scales, chunk, cols))
#define WGMMA(FORMAT, format, cols, n_bytes, has_scales)                                           \
    OF(FORMAT, format, WGMMA##cols, wgmma##cols, GEMV_WGMMA_BYTES(n_bytes, has_scales, cols, 0)),  \
        OF(FORMAT, format, WGMMA##cols##_OF_TERMS, wgmma##cols##_of_terms,                         \
           GEMV_WGMMA_BYTES(n_bytes, has_scales, cols, 1))
#define MANY(FORMAT, format, n_bytes, has_scales)                                                  \
    MMA(FORMAT, format, 8, n_bytes, has_scales, GEMV_CHUNK_OF_8, GEMV_MMA_ROWS_OF_8(has_scales)),  \
        MMA(FORMAT, format, 32, n_bytes, has_scales, GEMV_CHUNK_OF_MORE, GEMV_MMA_ROWS),           \
        MMA(FORMAT, format, 64, n_bytes, has_scales, GEMV_CHUNK_OF_MORE, GEMV_MMA_ROWS),           \
        WGMMA(FORMAT, format, 32, n_bytes, has_scales),                                            \
        WGMMA(FORMAT, format, 64, n_bytes, has_scales),                                            \
        OF(FORMAT, format, SLICES, slices, GEMV_DIRECT_MOST_BYTES),                                \
        OF(FORMAT, format, TILE, tile, 0)
#define BLOCKS(FORMAT, format, n_bytes, has_scales, wide_bytes)                                    \
    OF(FORMAT, format, C1_WIDE, c1_wide, wide_bytes),                                              \
        OF(FORMAT, format, C2_WIDE, c2_wide, wide_bytes),                                          \
        OF(FORMAT, format, C8, c8, GEMV_COLUMN_BYTES),                                             \
        OF(FORMAT, format, C8_WIDE, c8_wide, wide_bytes),                                          \
        MANY(FORMAT, format, n_bytes, has_scales)
#define DIRECT(FORMAT, format) OF(FORMAT, format, DIRECT, direct, GEMV_DIRECT_MOST_BYTES)
#define DIRECT2(FORMAT, format)                                                                    \
    DIRECT(FORMAT, format), OF(FORMAT, format, DIRECT2, direct2, GEMV_DIRECT_MOST_BYTES)
#define SLICES4(FORMAT, format) OF(FORMAT, format, SLICES4, slices4, GEMV_DIRECT_MOST_BYTES)
#define PARTS(FORMAT, format, n_bytes)                                                             \
    OF(FORMAT, format, ROW, row, 0), DIRECT2(FORMAT, format), MANY(FORMAT, format, n_bytes, 1)
/* A product of q4k with its end, in one kernel, and the end alone. */
#define END(WHAT, what)                                                                            \
    [GEMV_Q4K_##WHAT] = {.name = "gemv_q4k_" #what,                                                \
                         .shared_bytes = GEMV_DIRECT_MOST_BYTES,                                   \
                         .wants_l1 = true},                                                        \
    [GEMV_Q4K_##WHAT##_EARLY] = {.name = "gemv_q4k_" #what "_early",                               \
                                 .shared_bytes = GEMV_DIRECT_MOST_BYTES,                           \
                                 .wants_l1 = true},                                                \
    [GEMV_END_##WHAT] = {.name = "gemv_end_" #what}

static const struct cushim_kernel kernels[] = {
    BLOCKS(Q4_0, q4_0, 16, 0, GEMV_COLUMN_BYTES),
    DIRECT(Q4_0, q4_0),
    SLICES4(Q4_0, q4_0),
    BLOCKS(Q8_0, q8_0, 34, 1, GEMV_STAGED_BYTES(34)),
    DIRECT2(Q8_0, q8_0),
    SLICES4(Q8_0, q8_0),
    BLOCKS(Q8F, q8f, 36, 1, GEMV_STAGED_BYTES(36)),
    DIRECT(Q8F, q8f),
    SLICES4(Q8F, q8f),
    OF(Q4K, q4k, C1, c1, GEMV_Q4K_BYTES),
    OF(Q4K, q4k, C1_WIDE, c1_wide, GEMV_Q4K_BYTES),
    DIRECT2(Q4K, q4k),
    SLICES4(Q4K, q4k),
    MANY(Q4K, q4k, GEMV_Q4K_STAGED, 1),
    PARTS(Q5_0, q5_0, 22),
    SLICES4(Q5_0, q5_0),
    PARTS(Q5K, q5k, GEMV_Q5K_STAGED),
    SLICES4(Q5K, q5k),
    PARTS(Q6K, q6k, GEMV_Q6K_STAGED),
    [GEMV_TERMS] = {.name = "gemv_terms"},
    [GEMV_TERMS_OF_GROUPS] = {.name = "gemv_terms_of_groups"},
    END(ADD, add),
    END(SWIGLU, swiglu),
    END(QKV, qkv),
    [GEMV_F32_R1] = {.name = "gemv_f32_r1"},
    [GEMV_F32_R1_WIDE] = {.name = "gemv_f32_r1_wide"},
    [GEMV_F32_R4_WIDE] = {.name = "gemv_f32_r4_wide"},
    [GEMV_F32_SPLIT_WIDE] = {.name = "gemv_f32_split_wide", .shared_bytes = GEMV_SPLIT_BYTES},
    [GEMV_SMALL_F32] = {.name = "gemv_small_f32"},
    [GEMV_LARGE_F32] = {.name = "gemv_large_f32"},
    [GEMV_LARGE_F32_WIDE] = {.name = "gemv_large_f32_wide"},
    [GEMV_F16] = {.name = "gemv_f16"},
    [GEMV_F16_WIDE] = {.name = "gemv_f16_wide"},
};
CUSHIM_KERNEL_FAMILY(gemv, kernels);

static enum cushim_status check(const char *what, const struct gemv_product *product,
                                int64_t *n_outputs) {
    const struct quant_layout layout = cushim_quant_layout(product->format);
    bool is_q4_0 = product->format == QUANT_Q4_0;
    const char *b = product->is_column ? "x" : "b", *c = product->is_column ? "y" : "c";
    int64_t n_blocks, n_of_b;
    CUSHIM_TRY(cushim_check_size(what, "m", product->m));
    CUSHIM_TRY(cushim_check_size(what, "k", product->k));
    CUSHIM_TRY(cushim_check_size(what, "n", product->n));
    CUSHIM_TRY(cushim_check_multiple(what, "k", product->k, layout.values));
    CUSHIM_TRY(cushim_check_count(what, is_q4_0 ? "nibbles" : "w",
                                  (int64_t[]){product->m, product->k / layout.values}, 2,
                                  (size_t)layout.bytes, &n_blocks));
    CUSHIM_TRY(cushim_check_count(what, b, (int64_t[]){product->k, product->n}, 2, sizeof(float),
                                  &n_of_b));
    CUSHIM_TRY(cushim_check_count(what, c, (int64_t[]){product->m, product->n}, 2, sizeof(float),
                                  n_outputs));
    if (*n_outputs == 0)
        return CUSHIM_OK;
    if (n_blocks)
        CUSHIM_TRY(cushim_check_pointer(what, is_q4_0 ? "scales" : "w", product->w.head,
                                        (size_t)layout.alignment));
    if (n_blocks && is_q4_0)
        CUSHIM_TRY(cushim_check_pointer(what, "nibbles", product->w.low, 1));
    if (n_of_b)
        CUSHIM_TRY(cushim_check_pointer(what, b, product->b, sizeof(float)));
    CUSHIM_TRY(cushim_check_pointer(what, c, product->c, sizeof(float)));
    return product->scratch || product->scratch_bytes
               ? cushim_check_pointer(what, "scratch", product->scratch, sizeof(float))
               : CUSHIM_OK;
}

static void reference(const void *args) {
    const struct gemv_product *product = args;
    cushim_variant_gemm_ref(&product->w, product->format, product->b, product->c, product->m,
                            product->k, product->n);
}

enum cushim_status cushim_gemv_multiply(const char *what, struct gemv_product product,
                                        struct CUstream_st *stream) {
    struct cushim_kernel_call call;
    int64_t n_outputs;
    CUSHIM_TRY(check(what, &product, &n_outputs));
    if (n_outputs == 0)
        return CUSHIM_OK;
    CUSHIM_TRY(cushim_kernel_call_begin(&call, what, &cushim_family_gemv, stream));
    if (call.is_cpu)
        return cushim_kernel_call_reference(&call, reference, &product, sizeof product);
    return cushim_gemv_launch(&call, &product);
}

enum cushim_status cushim_variant_gemv(const char *what, const struct quant_parts *parts,
                                       enum quant_format format, const float *x, float *y,
                                       int64_t m, int64_t k, struct CUstream_st *stream) {
    return cushim_gemv_multiply(
        what, (struct gemv_product){format, *parts, x, y, m, k, .n = 1, .is_column = true}, stream);
}

/* ---- the calls: scales apart, blocks, blocks and one column ---- */

enum cushim_status cushim_gemm_q4_0_f32(const uint16_t *scales, const uint8_t *nibbles,
                                        const float *b, float *c, int64_t m, int64_t k, int64_t n,
                                        void *scratch, size_t scratch_bytes,
                                        struct CUstream_st *stream) {
    struct quant_parts w = cushim_quant_parts(QUANT_Q4_0, scales, nibbles);
    return cushim_gemv_multiply(__func__,
                                (struct gemv_product){QUANT_Q4_0, w, b, c, m, k, n,
                                                      .scratch = scratch,
                                                      .scratch_bytes = scratch_bytes},
                                stream);
}

void cushim_gemm_q4_0_f32_ref(const uint16_t *scales, const uint8_t *nibbles, const float *b,
                              float *c, int64_t m, int64_t k, int64_t n) {
    struct quant_parts w = cushim_quant_parts(QUANT_Q4_0, scales, nibbles);
    cushim_variant_gemm_ref(&w, QUANT_Q4_0, b, c, m, k, n);
}

#define REFERENCE(name, format)                                                                    \
    void cushim_gemm_##name##_f32_ref(const void *w, const float *b, float *c, int64_t m,          \
                                      int64_t k, int64_t n) {                                      \
        struct quant_parts parts = cushim_quant_parts(format, w, w);                               \
        cushim_variant_gemm_ref(&parts, format, b, c, m, k, n);                                    \
    }

#define WITH_SCRATCH(name, format)                                                                 \
    REFERENCE(name, format)                                                                        \
    enum cushim_status cushim_gemm_##name##_f32(                                                   \
        const void *w, const float *b, float *c, int64_t m, int64_t k, int64_t n, void *scratch,   \
        size_t scratch_bytes, struct CUstream_st *stream) {                                        \
        struct gemv_product product = {format,                                                     \
                                       cushim_quant_parts(format, w, w),                           \
                                       b,                                                          \
                                       c,                                                          \
                                       m,                                                          \
                                       k,                                                          \
                                       n,                                                          \
                                       .scratch = scratch,                                         \
                                       .scratch_bytes = scratch_bytes};                            \
        return cushim_gemv_multiply(__func__, product, stream);                                    \
    }

#define WITH_COLUMN(name, format)                                                                  \
    WITH_SCRATCH(name, format)                                                                     \
    enum cushim_status cushim_gemv_##name##_f32(const void *w, const float *x, float *y,           \
                                                int64_t m, int64_t k,                              \
                                                struct CUstream_st *stream) {                      \
        struct quant_parts parts = cushim_quant_parts(format, w, w);                               \
        return cushim_variant_gemv(__func__, &parts, format, x, y, m, k, stream);                  \
    }                                                                                              \
    void cushim_gemv_##name##_f32_ref(const void *w, const float *x, float *y, int64_t m,          \
                                      int64_t k) {                                                 \
        cushim_gemm_##name##_f32_ref(w, x, y, m, k, 1);                                            \
    }

WITH_SCRATCH(q8_0, QUANT_Q8_0)
WITH_SCRATCH(q8f, QUANT_Q8F)
WITH_COLUMN(q4k, QUANT_Q4K)
WITH_COLUMN(q5_0, QUANT_Q5_0)
WITH_COLUMN(q5k, QUANT_Q5K)
WITH_COLUMN(q6k, QUANT_Q6K)
