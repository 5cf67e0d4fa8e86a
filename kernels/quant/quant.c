/* Dequantising, and products of two bits: arguments and launches. */
#include "cushim/kernels/quant.h"

#include <stdbool.h>

#include "cushim/kernels_ref.h"
#include "companion/shared.h"
#include "kernels/launch/call.h"
#include "kernels/launch/arguments.h"
#include "kernels/launch/variants.h"
#include "kernels/shared/quant_parts.h"

enum kernel { DEQUANT_Q4K_WIDE = QUANT_N_FORMATS, TERNARY, E2M1 }; /* before them, one per format */

static const struct cushim_kernel kernels[] = {
    [QUANT_Q4K] = {.name = "quant_dequant_q4k_f32"},
    [QUANT_Q5_0] = {.name = "quant_dequant_q5_0_f32"},
    [QUANT_Q5K] = {.name = "quant_dequant_q5k_f32"},
    [QUANT_Q6K] = {.name = "quant_dequant_q6k_f32"},
    [DEQUANT_Q4K_WIDE] = {.name = "quant_dequant_q4k_f32_wide"},
    [TERNARY] = {.name = "quant_gemv_ternary_f32"},
    [E2M1] = {.name = "quant_gemv_e2m1_f16_f32"},
};
CUSHIM_KERNEL_FAMILY(quant, kernels);

enum { BLOCK_THREADS = 256 };

/* ---- dequantising ---- */

struct parts {
    struct quant_parts w;
    enum quant_format format;
    float *y;
    int64_t rows, k;
};

static void parts_reference(const void *args) {
    const struct parts *parts = args;
    cushim_variant_dequant_ref(&parts->w, parts->format, parts->y, parts->rows, parts->k);
}

enum cushim_status cushim_variant_dequant(const char *what, const struct quant_parts *w,
                                          enum quant_format format, float *y, int64_t rows,
                                          int64_t k, struct CUstream_st *stream) {
    enum { AT_ONCE = 8, HALF = 128 }; /* values of a thread; of q4k a warp has half a block */
    const struct quant_layout layout = cushim_quant_layout(format);
    bool is_q4k = format == QUANT_Q4K;
    struct parts parts = {*w, format, y, rows, k};
    struct cushim_kernel_call call;
    int64_t n;
    CUSHIM_TRY(cushim_check_size(what, "rows", rows));
    CUSHIM_TRY(cushim_check_size(what, "k", k));
    CUSHIM_TRY(cushim_check_multiple(what, "k", k, layout.values));
    CUSHIM_TRY(cushim_check_count(what, "y", (int64_t[]){rows, k}, 2, sizeof(float), &n));
    if (n == 0)
        return CUSHIM_OK;
    CUSHIM_TRY(cushim_check_pointer(what, "w", w->head, (size_t)layout.alignment));
    CUSHIM_TRY(cushim_check_pointer(what, "y", y, sizeof(float)));
    CUSHIM_TRY(cushim_kernel_call_begin(&call, what, &cushim_family_quant, stream));
    if (call.is_cpu)
        return cushim_kernel_call_reference(&call, parts_reference, &parts, sizeof parts);
    int64_t n_halves = n / HALF, n_threads = is_q4k ? n_halves * 32 : n / AT_ONCE;
    struct cushim_kernel_shape shape = {
        .grid = {cushim_n_blocks(n_threads, BLOCK_THREADS, INT32_MAX)},
        .block = {BLOCK_THREADS},
        .is_dependent = true};
    void *of_q4k[] = {&parts.w.head, &parts.y, &n_halves}, *params[] = {&parts.w, &parts.y, &n};
    if (!is_q4k)
        return cushim_kernel_call_launch(&call, format, &shape, params);
    bool is_wide = cushim_is_aligned(16, w->head, y, NULL, NULL);
    return cushim_kernel_call_launch(&call, is_wide ? DEQUANT_Q4K_WIDE : (unsigned)format, &shape,
                                     of_q4k);
}

#define FORMAT(name, format)                                                                       \
    enum cushim_status cushim_dequant_##name##_f32(const void *w, float *y, int64_t rows,          \
                                                   int64_t k, struct CUstream_st *stream) {        \
        struct quant_parts parts = cushim_quant_parts(format, w, w);                               \
        return cushim_variant_dequant(__func__, &parts, format, y, rows, k, stream);               \
    }                                                                                              \
    void cushim_dequant_##name##_f32_ref(const void *w, float *y, int64_t rows, int64_t k) {       \
        struct quant_parts parts = cushim_quant_parts(format, w, w);                               \
        cushim_variant_dequant_ref(&parts, format, y, rows, k);                                    \
    }

FORMAT(q4k, QUANT_Q4K)
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
