/*
 * Broadcasting: arguments, axes merged to rows of columns, the choice of a path, the launch.
 *
 * Axes of size 1 are dropped, and neighbours that one stride walks in both operands become one.  If
 * all is contiguous then, the elementwise kernels do it.  The innermost axis makes the columns, the
 * others (up to three) the rows.
 */
#include "kernels/broadcast/broadcast_rows.h"

#include "cushim/kernels/broadcast.h"
#include "cushim/kernels/elementwise.h"
#include "cushim/kernels_ref.h"
#include "companion/shared.h"
#include "kernels/launch/call.h"
#include "kernels/launch/arguments.h"

enum { MOST_AXES = 4, VECTOR_ELEMENTS = 4 };

/* The kernels of an operation: plain; wide, by how a and b are read; wide by tiles, likewise. */
enum kernel { PLAIN, WIDE_VV, WIDE_VS, WIDE_SV, TILE_VV, TILE_VS, TILE_SV, KERNELS_PER_OP };
enum op { ADD, SUB, MUL, DIV };

#define NAMED(OP, kernel, text) [OP * KERNELS_PER_OP + kernel] = {.name = text}
#define KERNELS(OP, text)                                                                          \
    NAMED(OP, PLAIN, text), NAMED(OP, WIDE_VV, text "_vv"), NAMED(OP, WIDE_VS, text "_vs"),        \
        NAMED(OP, WIDE_SV, text "_sv"), NAMED(OP, TILE_VV, text "_tile_vv"),                       \
        NAMED(OP, TILE_VS, text "_tile_vs"), NAMED(OP, TILE_SV, text "_tile_sv")
static const struct cushim_kernel kernels[] = {
    KERNELS(ADD, "broadcast_add"),
    KERNELS(SUB, "broadcast_sub"),
    KERNELS(MUL, "broadcast_mul"),
    KERNELS(DIV, "broadcast_div"),
};
CUSHIM_KERNEL_FAMILY(broadcast, kernels);

/*
 * With short blocks, many of them, those that run together have neighbouring addresses.  Beyond
 * this many, a thread goes down more rows instead, and reads what is the same in them once.
 */
enum { BLOCK_THREADS = 256, BLOCKS_PER_SM = 32, MOST_GRID_Y = 65535 };

/*
 * Rows of whole tiles go by tiles if the output has up to this many bytes.  Outputs of 32 MiB are
 * done 3 to 6 % sooner on an H200, which has 50 MB of L2.  Far above that the walk reaches the
 * ceiling of memory.
 */
enum { LARGEST_OF_TILES = 64 << 20, ACCESS_BYTES = VECTOR_ELEMENTS * sizeof(float) };
_Static_assert(LARGEST_OF_TILES / (BROADCAST_TILE_COLS * ACCESS_BYTES) <= MOST_GRID_Y, "rows");

typedef enum cushim_status contiguous_fn(const float *a, const float *b, float *c, int64_t n,
                                         struct CUstream_st *stream);

static contiguous_fn *const contiguous[] = {
    [ADD] = cushim_add_f32, [SUB] = cushim_sub_f32, [MUL] = cushim_mul_f32, [DIV] = cushim_div_f32};

struct axis {
    int64_t size, sa, sb;
};

struct broadcast {
    const float *a, *b;
    float *c;
    struct axis axes[MOST_AXES]; /* as the caller gave them */
    int n_axes;
};

/* ---- merging ---- */

/* Whether one step of the outer axis goes as far as all steps of the inner one. */
static bool is_continued(int64_t outer_stride, int64_t inner_stride, int64_t inner_size) {
    int64_t span;
    return !__builtin_mul_overflow(inner_stride, inner_size, &span) && span == outer_stride;
}

/* Returns the number of axes, at least one, outermost first. */
static int merge(const struct broadcast *args, struct axis merged[MOST_AXES]) {
    int n = 0;
    merged[0] = (struct axis){1, 0, 0};
    for (int i = 0; i < args->n_axes; i++) {
        const struct axis *axis = &args->axes[i];
        struct axis *last = &merged[n ? n - 1 : 0];
        if (axis->size == 1)
            continue;
        if (n && is_continued(last->sa, axis->sa, axis->size) &&
            is_continued(last->sb, axis->sb, axis->size))
            *last = (struct axis){last->size * axis->size, axis->sa, axis->sb};
        else
            merged[n++] = *axis;
    }
    return n ? n : 1;
}

static bool is_fixed(const struct cushim_broadcast_rows *rows,
                     const struct cushim_broadcast_operand *operand) {
    const int64_t *strides = operand->strides;
    return rows->n_rows == 1 || (!strides[0] && !strides[1] && !strides[2]);
}

static struct cushim_broadcast_rows rows_of(const struct axis *axes, int n_axes) {
    const struct axis *inner = &axes[n_axes - 1];
    int64_t sizes[3] = {1, 1, 1};
    struct cushim_broadcast_rows rows = {.n_rows = 1,
                                         .n_cols = inner->size,
                                         .a.col_stride = inner->sa,
                                         .b.col_stride = inner->sb,
                                         .is_flat = n_axes <= 2};
    for (int i = 0; i < n_axes - 1; i++) {
        int digit = i + 3 - (n_axes - 1); /* the last axis is digit 2 */
        rows.n_rows *= axes[i].size;
        sizes[digit] = axes[i].size;
        rows.a.strides[digit] = axes[i].sa;
        rows.b.strides[digit] = axes[i].sb;
    }
    rows.by_1 = cushim_divider_of(sizes[1]);
    rows.by_2 = cushim_divider_of(sizes[2]);
    rows.a.is_fixed = is_fixed(&rows, &rows.a);
    rows.b.is_fixed = is_fixed(&rows, &rows.b);
    return rows;
}

/* ---- the path ---- */

/*
 * Whether an operand can be read in accesses of four elements, as a vector or as one element per
 * row.
 */
static bool can_be_wide(const float *base, const struct cushim_broadcast_operand *operand) {
    const int64_t *strides = operand->strides;
    if (operand->col_stride == 0)
        return true;
    return operand->col_stride == 1 && cushim_is_aligned(16, base, NULL, NULL, NULL) &&
           (strides[0] | strides[1] | strides[2]) % VECTOR_ELEMENTS == 0;
}

static enum kernel choose(const struct broadcast *args, const struct cushim_broadcast_rows *rows) {
    if (rows->n_cols % VECTOR_ELEMENTS || !cushim_is_aligned(16, args->c, NULL, NULL, NULL) ||
        !can_be_wide(args->a, &rows->a) || !can_be_wide(args->b, &rows->b))
        return PLAIN;
    if (rows->a.col_stride && rows->b.col_stride)
        return WIDE_VV;
    /* rows in which both sides have one element are too rare for a kernel */
    return rows->a.col_stride ? WIDE_VS : rows->b.col_stride ? WIDE_SV : PLAIN;
}

/* n_cols counts accesses.  There must be no more rows than a grid has blocks along y. */
static bool is_for_tiles(const struct cushim_broadcast_rows *rows) {
    return rows->n_cols % BROADCAST_TILE_COLS == 0 &&
           rows->n_rows * rows->n_cols <= LARGEST_OF_TILES / ACCESS_BYTES;
}

/* Threads of a block cover columns first, then rows; blocks cover all columns, then rows. */
static struct cushim_kernel_shape shape_of(const struct cushim_kernel_call *call,
                                           const struct cushim_broadcast_rows *rows,
                                           int64_t n_in_flight) {
    int64_t n_tiles = (rows->n_cols - 1) / BLOCK_THREADS + 1;
    int64_t width = (rows->n_cols - 1) / n_tiles + 1; /* tiles of nearly the same size */
    int64_t height = BLOCK_THREADS / width;
    unsigned grid_x = cushim_n_blocks(rows->n_cols, width, INT32_MAX);
    int64_t most_y = (int64_t)call->n_sms * BLOCKS_PER_SM / grid_x + 1;
    if (most_y > MOST_GRID_Y)
        most_y = MOST_GRID_Y;
    unsigned grid_y = cushim_n_blocks(rows->n_rows, height * n_in_flight, most_y);
    return (struct cushim_kernel_shape){.grid = {grid_x, grid_y},
                                        .block = {(unsigned)width, (unsigned)height}};
}

static enum cushim_status launch(const struct cushim_kernel_call *call, enum op op,
                                 struct broadcast *args, const struct axis *axes, int n_axes) {
    struct cushim_broadcast_rows rows = rows_of(axes, n_axes);
    enum kernel kernel = choose(args, &rows);
    if (kernel != PLAIN)
        rows.n_cols /= VECTOR_ELEMENTS;
    struct cushim_kernel_shape shape;
    if (kernel != PLAIN && is_for_tiles(&rows)) {
        kernel += TILE_VV - WIDE_VV;
        shape = (struct cushim_kernel_shape){
            .grid = {(unsigned)(rows.n_cols / BROADCAST_TILE_COLS), (unsigned)rows.n_rows},
            .block = {BROADCAST_TILE_THREADS}};
    } else {
        shape = shape_of(call, &rows, kernel == PLAIN ? 4 : 2);
    }
    void *params[] = {&args->a, &args->b, &args->c, &rows};
    return cushim_kernel_call_launch(call, op * KERNELS_PER_OP + kernel, &shape, params);
}

/* ---- arguments ---- */

/* The distance from an operand's first element to either end, in bytes, must not overflow. */
static enum cushim_status check_strides(const char *what, const char *name,
                                        const struct broadcast *args, bool is_a) {
    int64_t ahead = 0, behind = 0, span, bytes;
    bool is_over = false;
    for (int i = 0; i < args->n_axes; i++) {
        const struct axis *axis = &args->axes[i];
        int64_t *end = (is_a ? axis->sa : axis->sb) < 0 ? &behind : &ahead;
        is_over |= __builtin_mul_overflow(axis->size - 1, is_a ? axis->sa : axis->sb, &span);
        is_over |= __builtin_add_overflow(*end, span, end);
    }
    is_over |= __builtin_mul_overflow(ahead, (int64_t)sizeof(float), &bytes);
    is_over |= __builtin_mul_overflow(behind, (int64_t)sizeof(float), &bytes);
    return is_over ? cushim_fail(what, CUSHIM_INVALID,
                                 "%s: its strides reach further than can be counted", name)
                   : CUSHIM_OK;
}

static enum cushim_status check(const char *what, const struct broadcast *args,
                                const char *const names[MOST_AXES], int64_t *n) {
    int64_t sizes[MOST_AXES];
    for (int i = 0; i < args->n_axes; i++) {
        sizes[i] = args->axes[i].size;
        CUSHIM_TRY(cushim_check_size(what, names[i], sizes[i]));
    }
    CUSHIM_TRY(cushim_check_count(what, "c", sizes, args->n_axes, sizeof(float), n));
    if (*n == 0)
        return CUSHIM_OK;
    CUSHIM_TRY(check_strides(what, "a", args, true));
    CUSHIM_TRY(check_strides(what, "b", args, false));
    CUSHIM_TRY(cushim_check_pointer(what, "a", args->a, sizeof(float)));
    CUSHIM_TRY(cushim_check_pointer(what, "b", args->b, sizeof(float)));
    return cushim_check_pointer(what, "c", args->c, sizeof(float));
}

static enum cushim_status run(const char *what, enum op op, void (*reference)(const void *args),
                              struct broadcast args, const char *const names[MOST_AXES],
                              struct CUstream_st *stream) {
    struct cushim_kernel_call call;
    struct axis axes[MOST_AXES];
    int64_t n;
    CUSHIM_TRY(check(what, &args, names, &n));
    if (n == 0)
        return CUSHIM_OK;
    CUSHIM_TRY(cushim_kernel_call_begin(&call, what, &cushim_family_broadcast, stream));
    if (call.is_cpu)
        return cushim_kernel_call_reference(&call, reference, &args, sizeof args);
    int n_axes = merge(&args, axes);
    if (n_axes == 1 && axes[0].sa == 1 && axes[0].sb == 1)
        return contiguous[op](args.a, args.b, args.c, n, stream);
    return launch(&call, op, &args, axes, n_axes);
}

/* ---- public ---- */

static const char *const names_2d[MOST_AXES] = {"rows", "cols"};
static const char *const names_4d[MOST_AXES] = {"dims[0]", "dims[1]", "dims[2]", "dims[3]"};

#define BROADCAST2D(op, OP)                                                                        \
    static void op##_2d_reference(const void *args) {                                              \
        const struct broadcast *bc = args;                                                         \
        const struct axis *row = &bc->axes[0], *col = &bc->axes[1];                                \
        cushim_##op##_broadcast2d_f32_ref(bc->a, bc->b, bc->c, row->sa, col->sa, row->sb, col->sb, \
                                          row->size, col->size);                                   \
    }                                                                                              \
    enum cushim_status cushim_##op##_broadcast2d_f32(                                              \
        const float *a, const float *b, float *c, int64_t sa_row, int64_t sa_col, int64_t sb_row,  \
        int64_t sb_col, int64_t rows, int64_t cols, struct CUstream_st *stream) {                  \
        struct broadcast args = {a, b, c, {{rows, sa_row, sb_row}, {cols, sa_col, sb_col}}, 2};    \
        return run(__func__, OP, op##_2d_reference, args, names_2d, stream);                       \
    }

BROADCAST2D(add, ADD)
BROADCAST2D(sub, SUB)
BROADCAST2D(mul, MUL)
BROADCAST2D(div, DIV)

static enum cushim_status run_4d(const char *what, enum op op, void (*reference)(const void *args),
                                 struct broadcast args, const int64_t *dims, const int64_t *sa,
                                 const int64_t *sb, struct CUstream_st *stream) {
    CUSHIM_TRY(cushim_check_host(what, "dims", dims));
    CUSHIM_TRY(cushim_check_host(what, "sa", sa));
    CUSHIM_TRY(cushim_check_host(what, "sb", sb));
    args.n_axes = MOST_AXES;
    for (int i = 0; i < MOST_AXES; i++)
        args.axes[i] = (struct axis){dims[i], sa[i], sb[i]};
    return run(what, op, reference, args, names_4d, stream);
}

#define BROADCAST4D(op, OP)                                                                        \
    static void op##_4d_reference(const void *args) {                                              \
        const struct broadcast *bc = args;                                                         \
        int64_t dims[MOST_AXES], sa[MOST_AXES], sb[MOST_AXES];                                     \
        for (int i = 0; i < MOST_AXES; i++) {                                                      \
            dims[i] = bc->axes[i].size;                                                            \
            sa[i] = bc->axes[i].sa;                                                                \
            sb[i] = bc->axes[i].sb;                                                                \
        }                                                                                          \
        cushim_##op##_broadcast4d_f32_ref(bc->a, bc->b, bc->c, dims, sa, sb);                      \
    }                                                                                              \
    enum cushim_status cushim_##op##_broadcast4d_f32(                                              \
        const float *a, const float *b, float *c, const int64_t *dims, const int64_t *sa,          \
        const int64_t *sb, struct CUstream_st *stream) {                                           \
        return run_4d(__func__, OP, op##_4d_reference, (struct broadcast){.a = a, .b = b, .c = c}, \
                      dims, sa, sb, stream);                                                       \
    }

BROADCAST4D(add, ADD)
BROADCAST4D(sub, SUB)
BROADCAST4D(mul, MUL)
BROADCAST4D(div, DIV)
