/* Gathering rows: arguments, the choice of a path, the launch. */
#include "cushim/kernels/gather.h"

#include "cushim/kernels_ref.h"
#include "companion/shared.h"
#include "kernels/launch/call.h"
#include "kernels/launch/arguments.h"
#include "kernels/shared/divider.h"

/* Each is followed by its counterpart for outputs of 2^31 pieces and more. */
enum kernel {
    I64,
    I64_LARGE,
    I64_WIDE,
    I64_WIDE_LARGE,
    I32,
    I32_LARGE,
    I32_WIDE,
    I32_WIDE_LARGE,
    Q8F
};

static const struct cushim_kernel kernels[] = {
    [I64] = {.name = "gather_i64"},           [I64_LARGE] = {.name = "gather_i64_large"},
    [I64_WIDE] = {.name = "gather_i64_wide"}, [I64_WIDE_LARGE] = {.name = "gather_i64_wide_large"},
    [I32] = {.name = "gather_i32"},           [I32_LARGE] = {.name = "gather_i32_large"},
    [I32_WIDE] = {.name = "gather_i32_wide"}, [I32_WIDE_LARGE] = {.name = "gather_i32_wide_large"},
    [Q8F] = {.name = "gather_q8f"},
};
CUSHIM_KERNEL_FAMILY(gather, kernels);

enum { BLOCK_THREADS = 256, LEAST_THREADS = 64, PIECES_PER_THREAD = 4, BLOCKS_PER_SM = 1024 };
enum { FLOATS_A_PIECE = 4, Q8F_VALUES = 32 };

struct gather {
    const void *table;
    const void *idx;
    float *out;
    int64_t n, d, v;
};

static void run_reference_i64(const void *args) {
    const struct gather *g = args;
    cushim_gather_f32_i64_ref(g->table, g->idx, g->out, g->n, g->d, g->v);
}

static void run_reference_i32(const void *args) {
    const struct gather *g = args;
    cushim_gather_f32_i32_ref(g->table, g->idx, g->out, g->n, g->d, g->v);
}

static void run_reference_q8f(const void *args) {
    const struct gather *g = args;
    cushim_gather_q8f_f32_i32_ref(g->table, g->idx, g->out, g->n, g->d, g->v);
}

/*
 * Outputs that fill no block are cut finer, so that more of the device works on them; the smallest
 * have one thread per piece.
 */
static struct cushim_kernel_shape shape_of(const struct cushim_kernel_call *call,
                                           int64_t n_pieces) {
    unsigned n_threads = BLOCK_THREADS;
    while (n_threads > LEAST_THREADS &&
           n_pieces < (int64_t)call->n_sms * n_threads * PIECES_PER_THREAD)
        n_threads /= 2;
    bool has_few_pieces = n_pieces < (int64_t)call->n_sms * LEAST_THREADS * PIECES_PER_THREAD;
    return (struct cushim_kernel_shape){
        .grid = {cushim_n_blocks(n_pieces,
                                 (int64_t)n_threads * (has_few_pieces ? 1 : PIECES_PER_THREAD),
                                 (int64_t)call->n_sms * BLOCKS_PER_SM)},
        .block = {n_threads}};
}

static enum cushim_status launch(const struct cushim_kernel_call *call, enum kernel kernel,
                                 struct gather *g) {
    if (kernel == Q8F) {
        int64_t n = g->n * g->d;
        struct cushim_kernel_shape shape = {
            .grid = {cushim_n_blocks(n, BLOCK_THREADS, (int64_t)call->n_sms * BLOCKS_PER_SM)},
            .block = {BLOCK_THREADS}};
        void *params[] = {&g->table, &g->idx, &g->out, &n, &g->d, &g->v};
        return cushim_kernel_call_launch(call, Q8F, &shape, params);
    }
    bool is_wide =
        g->d % FLOATS_A_PIECE == 0 && cushim_is_aligned(16, g->table, g->out, NULL, NULL);
    int64_t row = is_wide ? g->d / FLOATS_A_PIECE : g->d, n_pieces = g->n * row;
    struct cushim_divider divider = cushim_divider_of(row);
    struct cushim_kernel_shape shape = shape_of(call, n_pieces);
    void *params[] = {&g->table, &g->idx, &g->out, &n_pieces, &divider, &g->v};
    return cushim_kernel_call_launch(call,
                                     kernel + (is_wide ? I64_WIDE - I64 : 0) +
                                         (n_pieces > INT32_MAX ? I64_LARGE - I64 : 0),
                                     &shape, params);
}

static enum cushim_status run(const char *what, enum kernel kernel, size_t index_bytes,
                              void (*reference)(const void *args), struct gather g,
                              struct CUstream_st *stream) {
    struct cushim_kernel_call call;
    int64_t n, n_table;
    CUSHIM_TRY(cushim_check_size(what, "n", g.n));
    CUSHIM_TRY(cushim_check_size(what, "d", g.d));
    CUSHIM_TRY(cushim_check_size(what, "v", g.v));
    if (kernel == Q8F)
        CUSHIM_TRY(cushim_check_multiple(what, "d", g.d, Q8F_VALUES));
    CUSHIM_TRY(cushim_check_count(what, "out", (int64_t[]){g.n, g.d}, 2, sizeof(float), &n));
    CUSHIM_TRY(
        cushim_check_count(what, "table", (int64_t[]){g.v, g.d}, 2, sizeof(float), &n_table));
    if (n == 0)
        return CUSHIM_OK;
    if (g.v == 0)
        return cushim_fail(what, CUSHIM_INVALID, "v=0: no row to copy");
    CUSHIM_TRY(cushim_check_pointer(what, "table", g.table, sizeof(float)));
    CUSHIM_TRY(cushim_check_pointer(what, "idx", g.idx, index_bytes));
    CUSHIM_TRY(cushim_check_pointer(what, "out", g.out, sizeof(float)));
    CUSHIM_TRY(cushim_kernel_call_begin(&call, what, &cushim_family_gather, stream));
    if (call.is_cpu)
        return cushim_kernel_call_reference(&call, reference, &g, sizeof g);
    return launch(&call, kernel, &g);
}

enum cushim_status cushim_gather_f32_i64(const float *table, const int64_t *idx, float *out,
                                         int64_t n, int64_t d, int64_t v,
                                         struct CUstream_st *stream) {
    return run(__func__, I64, sizeof *idx, run_reference_i64,
               (struct gather){table, idx, out, n, d, v}, stream);
}

enum cushim_status cushim_gather_f32_i32(const float *table, const int32_t *idx, float *out,
                                         int64_t n, int64_t d, int64_t v,
                                         struct CUstream_st *stream) {
    return run(__func__, I32, sizeof *idx, run_reference_i32,
               (struct gather){table, idx, out, n, d, v}, stream);
}

enum cushim_status cushim_gather_q8f_f32_i32(const void *table, const int32_t *idx, float *out,
                                             int64_t n, int64_t d, int64_t v,
                                             struct CUstream_st *stream) {
    return run(__func__, Q8F, sizeof *idx, run_reference_q8f,
               (struct gather){table, idx, out, n, d, v}, stream);
}
