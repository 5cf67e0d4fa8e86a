/*
 * Counters and rows at a position: arguments and launch.
 *
 * Each is launched dependent on the kernel ahead.  One block does a row of up to some thousand
 * elements; a longer one gets more blocks, each of which reads the position.
 */
#include "cushim/kernels/position.h"

#include "cushim/kernels_ref.h"
#include "companion/shared.h"
#include "kernels/launch/call.h"
#include "kernels/launch/arguments.h"

enum kernel {
    COUNTER_ADD,
    COUNTER_SET,
    OFFSET_MEMCPY_F32,
    OFFSET_MEMCPY_F32_WIDE,
    OFFSET_MEMCPY_F32_F16,
    OFFSET_MEMCPY_F32_F16_WIDE,
    ROPE_SELECT,
    ROPE_SELECT_WIDE,
};

static const struct cushim_kernel kernels[] = {
    [COUNTER_ADD] = {.name = "position_counter_add"},
    [COUNTER_SET] = {.name = "position_counter_set"},
    [OFFSET_MEMCPY_F32] = {.name = "position_offset_memcpy_f32"},
    [OFFSET_MEMCPY_F32_WIDE] = {.name = "position_offset_memcpy_f32_wide"},
    [OFFSET_MEMCPY_F32_F16] = {.name = "position_offset_memcpy_f32_f16"},
    [OFFSET_MEMCPY_F32_F16_WIDE] = {.name = "position_offset_memcpy_f32_f16_wide"},
    [ROPE_SELECT] = {.name = "position_rope_select"},
    [ROPE_SELECT_WIDE] = {.name = "position_rope_select_wide"},
};
CUSHIM_KERNEL_FAMILY(position, kernels);

enum { WARP_THREADS = 32, MOST_THREADS = 1024, STEPS = 4, WIDE = 4 };

/*
 * At most as many threads as pieces, in whole warps; a thread takes up to four before blocks are
 * added.
 */
static struct cushim_kernel_shape shape_of(const struct cushim_kernel_call *call,
                                           int64_t n_pieces) {
    unsigned n_threads = n_pieces < MOST_THREADS ? (unsigned)n_pieces : MOST_THREADS;
    return (struct cushim_kernel_shape){
        .grid = {cushim_n_blocks(n_pieces, MOST_THREADS * STEPS, call->n_sms)},
        .block = {(n_threads + WARP_THREADS - 1) / WARP_THREADS * WARP_THREADS},
        .is_dependent = true};
}

/* ---- counters ---- */

struct counter {
    int32_t *counter;
    int32_t value;
};

static enum cushim_status run_counter(const char *what, enum kernel kernel,
                                      void (*reference)(const void *args), struct counter args,
                                      struct CUstream_st *stream) {
    struct cushim_kernel_call call;
    CUSHIM_TRY(cushim_check_pointer(what, "counter", args.counter, sizeof(int32_t)));
    CUSHIM_TRY(cushim_kernel_call_begin(&call, what, &cushim_family_position, stream));
    if (call.is_cpu)
        return cushim_kernel_call_reference(&call, reference, &args, sizeof args);
    struct cushim_kernel_shape shape = shape_of(&call, 1);
    return cushim_kernel_call_launch(&call, kernel, &shape, (void *[]){&args.counter, &args.value});
}

static void counter_add_reference(const void *args) {
    const struct counter *of = args;
    cushim_counter_add_i32_ref(of->counter, of->value);
}

enum cushim_status cushim_counter_add_i32(int32_t *counter, int32_t delta,
                                          struct CUstream_st *stream) {
    return run_counter(__func__, COUNTER_ADD, counter_add_reference,
                       (struct counter){counter, delta}, stream);
}

static void counter_set_reference(const void *args) {
    const struct counter *of = args;
    cushim_counter_set_i32_ref(of->counter, of->value);
}

enum cushim_status cushim_counter_set_i32(int32_t *counter, int32_t value,
                                          struct CUstream_st *stream) {
    return run_counter(__func__, COUNTER_SET, counter_set_reference,
                       (struct counter){counter, value}, stream);
}

/* ---- a row to the position ---- */

struct append {
    const float *src;
    const int32_t *position;
    void *dst;
    int64_t dim, max_len;
};

static enum cushim_status run_append(const char *what, enum kernel kernel, size_t elem_bytes,
                                     void (*reference)(const void *args), struct append args,
                                     struct CUstream_st *stream) {
    struct cushim_kernel_call call;
    int64_t n;
    CUSHIM_TRY(cushim_check_size(what, "dim", args.dim));
    CUSHIM_TRY(cushim_check_size(what, "max_len", args.max_len));
    CUSHIM_TRY(cushim_check_count(what, "src", &args.dim, 1, sizeof(float), &n));
    CUSHIM_TRY(
        cushim_check_count(what, "dst", (int64_t[]){args.max_len, args.dim}, 2, elem_bytes, &n));
    if (n == 0)
        return CUSHIM_OK;
    CUSHIM_TRY(cushim_check_pointer(what, "src", args.src, sizeof(float)));
    CUSHIM_TRY(cushim_check_pointer(what, "position", args.position, sizeof(int32_t)));
    CUSHIM_TRY(cushim_check_pointer(what, "dst", args.dst, elem_bytes));
    CUSHIM_TRY(cushim_kernel_call_begin(&call, what, &cushim_family_position, stream));
    if (call.is_cpu)
        return cushim_kernel_call_reference(&call, reference, &args, sizeof args);
    bool is_wide = args.dim % WIDE == 0 && cushim_is_aligned(16, args.src, NULL, NULL, NULL) &&
                   cushim_is_aligned(WIDE * elem_bytes, args.dst, NULL, NULL, NULL);
    int64_t n_pieces = is_wide ? args.dim / WIDE : args.dim;
    struct cushim_kernel_shape shape = shape_of(&call, n_pieces);
    return cushim_kernel_call_launch(
        &call, kernel + is_wide, &shape,
        (void *[]){&args.src, &args.position, &args.dst, &n_pieces, &args.max_len});
}

static void append_reference(const void *args) {
    const struct append *of = args;
    cushim_offset_memcpy_f32_ref(of->src, of->position, of->dst, of->dim, of->max_len);
}

enum cushim_status cushim_offset_memcpy_f32(const float *src, const int32_t *position, float *dst,
                                            int64_t dim, int64_t max_len,
                                            struct CUstream_st *stream) {
    return run_append(__func__, OFFSET_MEMCPY_F32, sizeof *dst, append_reference,
                      (struct append){src, position, dst, dim, max_len}, stream);
}

static void append_half_reference(const void *args) {
    const struct append *of = args;
    cushim_offset_memcpy_f32_f16_ref(of->src, of->position, of->dst, of->dim, of->max_len);
}

enum cushim_status cushim_offset_memcpy_f32_f16(const float *src, const int32_t *position,
                                                uint16_t *dst, int64_t dim, int64_t max_len,
                                                struct CUstream_st *stream) {
    return run_append(__func__, OFFSET_MEMCPY_F32_F16, sizeof *dst, append_half_reference,
                      (struct append){src, position, dst, dim, max_len}, stream);
}

/* ---- the row of the position from two tables ---- */

struct angles {
    const float *cos_table, *sin_table;
    const int32_t *position;
    float *cosines, *sines;
    int64_t rows, half_rotary;
};

static void angles_reference(const void *args) {
    const struct angles *of = args;
    cushim_rope_select_f32_ref(of->cos_table, of->sin_table, of->position, of->cosines, of->sines,
                               of->rows, of->half_rotary);
}

/* A position has 32 bits, so rows beyond are never reached and need not be counted. */
static enum cushim_status check_angles(const char *what, const struct angles *args, int64_t *n) {
    int64_t n_reached = args->rows <= INT32_MAX ? args->rows : (int64_t)INT32_MAX + 1;
    CUSHIM_TRY(cushim_check_size(what, "rows", args->rows));
    CUSHIM_TRY(cushim_check_size(what, "half_rotary", args->half_rotary));
    CUSHIM_TRY(cushim_check_count(what, "cos_table", (int64_t[]){n_reached, args->half_rotary}, 2,
                                  sizeof(float), n));
    if (*n == 0)
        return CUSHIM_OK;
    CUSHIM_TRY(cushim_check_pointer(what, "cos_table", args->cos_table, sizeof(float)));
    CUSHIM_TRY(cushim_check_pointer(what, "sin_table", args->sin_table, sizeof(float)));
    CUSHIM_TRY(cushim_check_pointer(what, "position", args->position, sizeof(int32_t)));
    CUSHIM_TRY(cushim_check_pointer(what, "cosines", args->cosines, sizeof(float)));
    return cushim_check_pointer(what, "sines", args->sines, sizeof(float));
}

enum cushim_status cushim_rope_select_f32(const float *cos_table, const float *sin_table,
                                          const int32_t *position, float *cosines, float *sines,
                                          int64_t rows, int64_t half_rotary,
                                          struct CUstream_st *stream) {
    struct angles args = {cos_table, sin_table, position, cosines, sines, rows, half_rotary};
    struct cushim_kernel_call call;
    int64_t n;
    CUSHIM_TRY(check_angles(__func__, &args, &n));
    if (n == 0)
        return CUSHIM_OK;
    CUSHIM_TRY(cushim_kernel_call_begin(&call, __func__, &cushim_family_position, stream));
    if (call.is_cpu)
        return cushim_kernel_call_reference(&call, angles_reference, &args, sizeof args);
    bool is_wide =
        half_rotary % WIDE == 0 && cushim_is_aligned(16, cos_table, sin_table, cosines, sines);
    int64_t n_pieces = is_wide ? half_rotary / WIDE : half_rotary;
    struct cushim_kernel_shape shape = shape_of(&call, n_pieces);
    return cushim_kernel_call_launch(&call, ROPE_SELECT + is_wide, &shape,
                                     (void *[]){&args.cos_table, &args.sin_table, &args.position,
                                                &args.cosines, &args.sines, &args.rows, &n_pieces});
}
