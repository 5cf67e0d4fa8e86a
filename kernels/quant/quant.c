/* Dequantising: arguments, the choice of a path, the launch. */
#include "cushim/kernels/quant.h"

#include "cushim/kernels_ref.h"
#include "companion/shared.h"
#include "kernels/launch/call.h"
#include "kernels/launch/arguments.h"

enum kernel { DEQUANT_Q4K, DEQUANT_Q4K_WIDE };

static const struct cushim_kernel kernels[] = {
    [DEQUANT_Q4K] = {.name = "quant_dequant_q4k_f32"},
    [DEQUANT_Q4K_WIDE] = {.name = "quant_dequant_q4k_f32_wide"},
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
