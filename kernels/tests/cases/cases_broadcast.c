/*
 * Broadcasting: every way in which an operand can be read, around every choice of the launcher.
 *
 * A case describes an operand only by sizes and strides.  It is laid out from its lowest to its
 * highest element, and the function gets the address of index 0, wherever that is.
 */
#include <string.h>

#include "kernels/tests/frame/case.h"

enum { A, B, C };
enum { DIMS = 0, SA = 4, SB = 8 }; /* in sizes; two axes are the last two of four */

/* The elements from the lowest to index 0, and all of them. */
struct extent {
    int64_t before, all;
};

static struct extent extent_of(const int64_t *dims, const int64_t *strides) {
    struct extent extent = {0, 1};
    for (int d = 0; d < 4; d++) {
        int64_t span = (dims[d] - 1) * strides[d];
        if (dims[d] == 0)
            return (struct extent){0, 0};
        extent.before -= span < 0 ? span : 0;
        extent.all += span < 0 ? -span : span;
    }
    return extent;
}

static void lay_out(struct kernel_case *c) {
    const int64_t *sizes = c->sizes;
    struct extent a = extent_of(sizes + DIMS, sizes + SA), b = extent_of(sizes + DIMS, sizes + SB);
    size_t n = (size_t)(sizes[0] * sizes[1] * sizes[2] * sizes[3]);
    case_operand(c, "a", TYPE_F32, ROLE_IN, (size_t)a.all)->make = make_special_f32;
    case_operand(c, "b", TYPE_F32, ROLE_IN, (size_t)b.all)->make = make_special_f32;
    case_operand(c, "c", TYPE_F32, ROLE_OUT, n);
}

/* The element at index 0. */
static const float *start(const struct kernel_case *c, void *const *memory, int operand) {
    const float *base = memory[operand];
    return base ? base + extent_of(c->sizes, c->sizes + (operand == A ? SA : SB)).before : NULL;
}

#define BROADCAST(op)                                                                              \
    static enum cushim_status run_2d_##op(const struct kernel_case *c,                             \
                                          struct CUstream_st *stream) {                            \
        const int64_t *s = c->sizes;                                                               \
        return cushim_##op##_broadcast2d_f32(start(c, c->device, A), start(c, c->device, B),       \
                                             c->device[C], s[SA + 2], s[SA + 3], s[SB + 2],        \
                                             s[SB + 3], s[2], s[3], stream);                       \
    }                                                                                              \
    static void ref_2d_##op(const struct kernel_case *c) {                                         \
        const int64_t *s = c->sizes;                                                               \
        cushim_##op##_broadcast2d_f32_ref(start(c, c->host, A), start(c, c->host, B), c->host[C],  \
                                          s[SA + 2], s[SA + 3], s[SB + 2], s[SB + 3], s[2], s[3]); \
    }                                                                                              \
    static enum cushim_status run_4d_##op(const struct kernel_case *c,                             \
                                          struct CUstream_st *stream) {                            \
        int64_t arrays[12];                                                                        \
        memcpy(arrays, c->sizes, sizeof arrays);                                                   \
        return cushim_##op##_broadcast4d_f32(start(c, c->device, A), start(c, c->device, B),       \
                                             c->device[C], arrays, arrays + SA, arrays + SB,       \
                                             stream);                                              \
    }                                                                                              \
    static void ref_4d_##op(const struct kernel_case *c) {                                         \
        cushim_##op##_broadcast4d_f32_ref(start(c, c->host, A), start(c, c->host, B), c->host[C],  \
                                          c->sizes, c->sizes + SA, c->sizes + SB);                 \
    }

BROADCAST(add)
BROADCAST(sub)
BROADCAST(mul)
BROADCAST(div)

#define SUBJECTS(op)                                                                               \
    {                                                                                              \
        {.name = #op "_broadcast2d_f32",                                                           \
         .n_sizes = 12,                                                                            \
         .lay_out = lay_out,                                                                       \
         .run = run_2d_##op,                                                                       \
         .ref = ref_2d_##op},                                                                      \
        {                                                                                          \
            .name = #op "_broadcast4d_f32", .n_sizes = 12, .lay_out = lay_out, .run = run_4d_##op, \
            .ref = ref_4d_##op                                                                     \
        }                                                                                          \
    }

static const struct kernel_subject subjects[][2] = {SUBJECTS(sub), SUBJECTS(add), SUBJECTS(mul),
                                                    SUBJECTS(div)};

/* ---- cases ---- */

struct row {
    const char *note;
    int64_t sizes[12]; /* dims, strides of a, strides of b */
};

static const struct row of_two_axes[] = {
    {"row vector b", {1, 1, 37, 64, 0, 0, 64, 1, 0, 0, 0, 1}},
    {"row vector a", {1, 1, 37, 64, 0, 0, 0, 1, 0, 0, 64, 1}},
    {"column b", {1, 1, 37, 64, 0, 0, 64, 1, 0, 0, 1, 0}},
    {"column a", {1, 1, 37, 64, 0, 0, 1, 0, 0, 0, 64, 1}},
    {"scalar b", {1, 1, 37, 64, 0, 0, 64, 1, 0, 0, 0, 0}},
    {"scalar a", {1, 1, 37, 64, 0, 0, 0, 0, 0, 0, 64, 1}},
    {"both scalar", {1, 1, 37, 64, 0, 0, 0, 0, 0, 0, 0, 0}},
    {"both the same row", {1, 1, 37, 64, 0, 0, 0, 1, 0, 0, 0, 1}},
    {"row and column", {1, 1, 37, 64, 0, 0, 0, 1, 0, 0, 1, 0}},
    {"both columns", {1, 1, 37, 64, 0, 0, 1, 0, 0, 0, 1, 0}},
    {"contiguous", {1, 1, 37, 64, 0, 0, 64, 1, 0, 0, 64, 1}},
    {"padded rows", {1, 1, 37, 64, 0, 0, 68, 1, 0, 0, 72, 1}},
    {"rows of no vector", {1, 1, 37, 64, 0, 0, 65, 1, 0, 0, 64, 1}},
    {"odd row vector", {1, 1, 37, 63, 0, 0, 63, 1, 0, 0, 0, 1}},
    {"transposed b", {1, 1, 37, 64, 0, 0, 64, 1, 0, 0, 1, 37}},
    {"backwards b", {1, 1, 37, 64, 0, 0, 64, 1, 0, 0, -64, -1}},
    {"rows backwards", {1, 1, 37, 64, 0, 0, 64, 1, 0, 0, -64, 1}},
    {"columns backwards", {1, 1, 37, 64, 0, 0, 64, -1, 0, 0, 64, 1}},
    {"every other", {1, 1, 37, 64, 0, 0, 128, 2, 0, 0, 64, 1}},
    {"one row", {1, 1, 1, 1000, 0, 0, 7, 1, 0, 0, -3, 1}},
    {"one row, scalar b", {1, 1, 1, 1000, 0, 0, 0, 1, 0, 0, 0, 0}},
    {"one column", {1, 1, 1000, 1, 0, 0, 1, 5, 0, 0, 0, 9}},
    {"one element", {1, 1, 1, 1, 0, 0, 5, -5, 0, 0, 0, 0}},
    {"two columns", {1, 1, 3001, 2, 0, 0, 2, 1, 0, 0, 0, 1}},
    {"three columns", {1, 1, 3001, 3, 0, 0, 3, 1, 0, 0, 1, 0}},
    {"four columns", {1, 1, 3001, 4, 0, 0, 4, 1, 0, 0, 0, 1}},
    {"more than a block's width", {1, 1, 9, 1028, 0, 0, 1028, 1, 0, 0, 1, 0}},
    {"many tiles", {1, 1, 3, 9 * 1024 + 4, 0, 0, 9 * 1024 + 4, 1, 0, 0, 0, 1}},
    {"a tile, row b", {1, 1, 9, 1024, 0, 0, 1024, 1, 0, 0, 0, 1}},
    {"a tile, column b", {1, 1, 9, 1024, 0, 0, 1024, 1, 0, 0, 1, 0}},
    {"a tile, column a", {1, 1, 9, 1024, 0, 0, 1, 0, 0, 0, 1024, 1}},
    {"tiles, row a", {1, 1, 5, 3072, 0, 0, 0, 1, 0, 0, 3072, 1}},
    {"tiles, column b", {1, 1, 5, 3072, 0, 0, 3072, 1, 0, 0, 1, 0}},
    {"tiles, padded rows", {1, 1, 5, 2048, 0, 0, 2052, 1, 0, 0, -2048, 1}},
    {"half a tile more", {1, 1, 5, 2560, 0, 0, 2560, 1, 0, 0, 0, 1}},
    {"odd, more than a block", {1, 1, 9, 257, 0, 0, 257, 1, 0, 0, 0, 1}},
    {"no rows", {1, 1, 0, 64, 0, 0, 64, 1, 0, 0, 0, 1}},
    {"no columns", {1, 1, 64, 0, 0, 0, 64, 1, 0, 0, 0, 1}},
};

static const struct row of_four_axes[] = {
    {"mask over heads", {2, 3, 8, 16, 384, 128, 16, 1, 128, 0, 16, 1}},
    {"mask over batch and heads", {2, 3, 8, 16, 384, 128, 16, 1, 0, 0, 16, 1}},
    {"every other axis a", {3, 4, 5, 8, 40, 0, 8, 0, 0, 8, 0, 1}},
    {"no axes merge", {3, 4, 5, 8, 160, 40, 8, 1, 1, 3, 12, 60}},
    {"last axis fixed", {3, 4, 5, 8, 160, 40, 8, 1, 20, 5, 1, 0}},
    {"first and last fixed", {3, 4, 5, 8, 160, 40, 8, 1, 0, 5, 1, 0}},
    {"a is the small one", {3, 4, 5, 8, 0, 5, 1, 0, 160, 40, 8, 1}},
    {"digits of one", {3, 1, 5, 8, 40, 99, 8, 1, 0, 99, 1, 8}},
    {"only the first", {1000, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0}},
    {"contiguous", {3, 4, 5, 8, 160, 40, 8, 1, 160, 40, 8, 1}},
    {"all backwards", {3, 4, 5, 8, -160, -40, -8, -1, 160, 40, 8, 1}},
    {"padded", {3, 4, 5, 8, 400, 80, 12, 1, 0, 16, 0, 1}},
    {"odd inner axis", {7, 5, 3, 11, 165, 33, 11, 1, 33, 0, 11, 1}},
    {"inner axis of one", {7, 5, 33, 1, 165, 33, 1, 0, 33, 0, 1, 0}},
    {"sizes of primes", {13, 11, 7, 4, 308, 28, 4, 1, 0, 4, 44, 1}},
    {"tiles", {3, 4, 5, 2048, 40960, 10240, 2048, 1, 10240, 0, 2048, 1}},
    {"tiles, last axis fixed", {3, 4, 5, 2048, 40960, 10240, 2048, 1, 20, 5, 1, 0}},
    {"an axis of none", {3, 0, 5, 8, 0, 40, 8, 1, 0, 40, 8, 1}},
};

static void add_in_place(struct kernel_table *table, const struct kernel_subject *subject) {
    static const struct row with_a[] = {
        {"in place of a, wide", {1, 1, 37, 64, 0, 0, 64, 1, 0, 0, 0, 1}},
        {"in place of a, tiles", {1, 1, 3, 2048, 0, 0, 2048, 1, 0, 0, 0, 1}},
        {"in place of a, one row", {1, 1, 1, 64, 0, 0, 0, 1, 0, 0, 0, 0}},
        {"in place of a, plain", {1, 1, 37, 63, 0, 0, 63, 1, 0, 0, 1, 0}}};
    static const struct row with_b = {"in place of b", {1, 1, 37, 64, 0, 0, 1, 0, 0, 0, 64, 1}};
    for (unsigned i = 0; i < sizeof with_a / sizeof *with_a; i++)
        table_add(table, subject, with_a[i].note, with_a[i].sizes, NULL)->operands[C].in_place_of =
            1 + A;
    table_add(table, subject, with_b.note, with_b.sizes, NULL)->operands[C].in_place_of = 1 + B;
}

void cases_broadcast(struct kernel_table *table) {
    for (unsigned s = 0; s < sizeof subjects / sizeof *subjects; s++) {
        for (unsigned i = 0; i < sizeof of_two_axes / sizeof *of_two_axes; i++)
            table_add(table, &subjects[s][0], of_two_axes[i].note, of_two_axes[i].sizes, NULL);
        for (unsigned i = 0; i < sizeof of_four_axes / sizeof *of_four_axes; i++)
            table_add(table, &subjects[s][1], of_four_axes[i].note, of_four_axes[i].sizes, NULL);
        for (int i = 0; i < n_edge_sizes; i++) {
            int64_t n = edge_sizes[i];
            int64_t sizes[] = {1, 1, 3, n, 0, 0, n, 1, 0, 0, 0, 1};
            if (n < 100000 || s == 0) {
                table_add(table, &subjects[s][0], "rows", sizes, NULL);
                sizes[SB + 2] = 1, sizes[SB + 3] = 0;
                table_add(table, &subjects[s][0], "columns", sizes, NULL);
            }
        }
        table_add_offsets(table,
                          table_add(table, &subjects[s][0], NULL, of_two_axes[0].sizes, NULL));
        table_add_offsets(table,
                          table_add(table, &subjects[s][1], NULL, of_four_axes[3].sizes, NULL));
        add_in_place(table, &subjects[s][0]);
        add_in_place(table, &subjects[s][1]);
    }
}
