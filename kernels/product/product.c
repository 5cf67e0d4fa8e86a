/* Products of matrices at any strides: arguments and launches. */
#include "cushim/kernels/product.h"

#include "cushim/kernels_ref.h"
#include "companion/shared.h"
#include "kernels/launch/arguments.h"
#include "kernels/launch/call.h"
#include "kernels/product/product.h"

enum kernel { STRIDED_F32, E4M3_F16 };

static const struct cushim_kernel kernels[] = {
    [STRIDED_F32] = {.name = "product_gemm_strided_f32"},
    [E4M3_F16] = {.name = "product_gemm_e4m3_f16"},
};
CUSHIM_KERNEL_FAMILY(product, kernels);

static struct product_place place_of(const struct cushim_matrix_strides *of) {
    return (struct product_place){of->batch, of->row, of->column};
}

static void strided_reference(const void *of) {
    const struct product_args *args = of;
    const struct product_place *a = &args->of_a, *b = &args->of_b, *c = &args->of_c;
    cushim_gemm_strided_f32_ref(args->a, args->b, args->c, args->alpha, args->beta, args->batch,
                                args->m, args->n, args->k,
                                &(struct cushim_matrix_strides){a->batch, a->row, a->column},
                                &(struct cushim_matrix_strides){b->batch, b->row, b->column},
                                &(struct cushim_matrix_strides){c->batch, c->row, c->column});
}

/* alpha is the product of the scales. */
static void e4m3_reference(const void *of) {
    const struct product_args *args = of;
    cushim_gemm_e4m3_f16_ref(args->a, args->b, args->c, args->alpha, 1, args->m, args->n, args->k);
}

/* The bytes up to the last of [batch][rows][columns] can be counted. */
static enum cushim_status check_strides(const char *what, const char *name, int64_t batch,
                                        int64_t rows, int64_t columns, size_t elem_bytes,
                                        const struct product_place *of) {
    int64_t i, r, c;
    CUSHIM_TRY(cushim_check_size(what, "stride", of->batch));
    CUSHIM_TRY(cushim_check_size(what, "stride", of->row));
    CUSHIM_TRY(cushim_check_size(what, "stride", of->column));
    if (!batch || !rows || !columns)
        return CUSHIM_OK;
    if (__builtin_mul_overflow(batch - 1, of->batch, &i) ||
        __builtin_mul_overflow(rows - 1, of->row, &r) ||
        __builtin_mul_overflow(columns - 1, of->column, &c) || __builtin_add_overflow(i, r, &i) ||
        __builtin_add_overflow(i, c, &i) || i >= INT64_MAX / (int64_t)elem_bytes)
        return cushim_fail(what, CUSHIM_INVALID, "%s reaches more bytes than can be counted", name);
    return CUSHIM_OK;
}

static enum cushim_status run(const char *what, enum kernel kernel, const struct product_args *args,
                              struct CUstream_st *stream) {
    size_t in = kernel == STRIDED_F32 ? 4 : 1, out = kernel == STRIDED_F32 ? 4 : 2;
    struct cushim_kernel_call call;
    int64_t n;
    CUSHIM_TRY(cushim_check_size(what, "batch", args->batch));
    CUSHIM_TRY(cushim_check_size(what, "m", args->m));
    CUSHIM_TRY(cushim_check_size(what, "n", args->n));
    CUSHIM_TRY(cushim_check_size(what, "k", args->k));
    CUSHIM_TRY(
        cushim_check_count(what, "c", (int64_t[]){args->batch, args->m, args->n}, 3, out, &n));
    CUSHIM_TRY(check_strides(what, "a", args->batch, args->m, args->k, in, &args->of_a));
    CUSHIM_TRY(check_strides(what, "b", args->batch, args->k, args->n, in, &args->of_b));
    CUSHIM_TRY(check_strides(what, "c", args->batch, args->m, args->n, out, &args->of_c));
    if (n == 0)
        return CUSHIM_OK;
    if (args->k) {
        CUSHIM_TRY(cushim_check_pointer(what, "a", args->a, in));
        CUSHIM_TRY(cushim_check_pointer(what, "b", args->b, in));
    }
    CUSHIM_TRY(cushim_check_pointer(what, "c", args->c, out));
    CUSHIM_TRY(cushim_kernel_call_begin(&call, what, &cushim_family_product, stream));
    if (call.is_cpu)
        return cushim_kernel_call_reference(
            &call, kernel == STRIDED_F32 ? strided_reference : e4m3_reference, args, sizeof *args);
    enum { MOST_BATCH = 1024 }; /* blocks; each does more of a batch */
    int64_t n_tiles = ((args->m - 1) / PRODUCT_TILE + 1) * ((args->n - 1) / PRODUCT_TILE + 1);
    struct cushim_kernel_shape shape = {.grid = {cushim_n_blocks(n_tiles, 1, INT32_MAX),
                                                 cushim_n_blocks(args->batch, 1, MOST_BATCH)},
                                        .block = {PRODUCT_THREADS}};
    struct product_args copy = *args;
    void *params[] = {&copy};
    return cushim_kernel_call_launch(&call, kernel, &shape, params);
}

enum cushim_status cushim_gemm_strided_f32(const float *a, const float *b, float *c, float alpha,
                                           float beta, int64_t batch, int64_t m, int64_t n,
                                           int64_t k, const struct cushim_matrix_strides *of_a,
                                           const struct cushim_matrix_strides *of_b,
                                           const struct cushim_matrix_strides *of_c,
                                           struct CUstream_st *stream) {
    CUSHIM_TRY(cushim_check_host(__func__, "of_a", of_a));
    CUSHIM_TRY(cushim_check_host(__func__, "of_b", of_b));
    CUSHIM_TRY(cushim_check_host(__func__, "of_c", of_c));
    struct product_args args = {a, b, c, alpha,          beta,           batch,
                                m, n, k, place_of(of_a), place_of(of_b), place_of(of_c)};
    return run(__func__, STRIDED_F32, &args, stream);
}

enum cushim_status cushim_gemm_e4m3_f16(const uint8_t *a, const uint8_t *b, uint16_t *c,
                                        float scale_a, float scale_b, int64_t m, int64_t n,
                                        int64_t k, struct CUstream_st *stream) {
    struct product_args args = {a, b, c, scale_a * scale_b, 0,         1,
                                m, n, k, {0, k, 1},         {0, n, 1}, {0, n, 1}};
    CUSHIM_TRY(cushim_check_size(__func__, "k", k));
    return run(__func__, E4M3_F16, &args, stream);
}
