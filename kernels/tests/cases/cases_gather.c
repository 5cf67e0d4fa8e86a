/* Gather: rows of every length, indices inside, outside and far outside of the table. */
#include <stdint.h>

#include "kernels/tests/frame/case.h"

enum { TABLE, IDX, OUT };
enum { N, D, V };

/*
 * A quarter of the indices are of no row: the nearest neighbours of both ends, and values that a
 * cut to fewer bits would turn into rows.
 */
static int64_t draw_index(struct kernel_draw *draw, const int64_t *strange, int n_strange) {
    uint64_t bits = draw_bits(draw);
    return bits % 4 ? (int64_t)(bits >> 8) : strange[(bits >> 8) % (uint64_t)n_strange];
}

static void make_i64(struct kernel_draw *draw, void *values, size_t n) {
    static const int64_t strange[] = {-1,
                                      INT32_MIN,
                                      (int64_t)1 << 32,
                                      ((int64_t)1 << 32) + 5,
                                      -((int64_t)1 << 32) + 1,
                                      INT64_MIN,
                                      INT64_MAX,
                                      0,
                                      1,
                                      2,
                                      36,
                                      37};
    for (size_t i = 0; i < n; i++) {
        int64_t index = draw_index(draw, strange, sizeof strange / sizeof *strange);
        ((int64_t *)values)[i] = index > INT32_MAX && index % 4 ? index % 37 : index;
    }
}

static void make_i32(struct kernel_draw *draw, void *values, size_t n) {
    static const int64_t strange[] = {-1, INT32_MIN, INT32_MAX, 0, 1, 2, 36, 37};
    for (size_t i = 0; i < n; i++) {
        int64_t index = draw_index(draw, strange, sizeof strange / sizeof *strange);
        ((int32_t *)values)[i] = (int32_t)(index > INT32_MAX ? index % 37 : index);
    }
}

static void lay_out(struct kernel_case *c, enum kernel_type type, kernel_make *make) {
    const int64_t *sizes = c->sizes;
    case_operand(c, "table", TYPE_F32, ROLE_IN, (size_t)(sizes[V] * sizes[D]))->make =
        make_special_f32;
    case_operand(c, "idx", type, ROLE_IN, (size_t)sizes[N])->make = make;
    case_operand(c, "out", TYPE_F32, ROLE_OUT, (size_t)(sizes[N] * sizes[D]));
}

#define GATHER(type, TYPE)                                                                         \
    static void lay_out_##type(struct kernel_case *c) {                                            \
        lay_out(c, TYPE, make_##type);                                                             \
    }                                                                                              \
    static enum cushim_status run_##type(const struct kernel_case *c,                              \
                                         struct CUstream_st *stream) {                             \
        return cushim_gather_f32_##type(c->device[TABLE], c->device[IDX], c->device[OUT],          \
                                        c->sizes[N], c->sizes[D], c->sizes[V], stream);            \
    }                                                                                              \
    static void ref_##type(const struct kernel_case *c) {                                          \
        cushim_gather_f32_##type##_ref(c->host[TABLE], c->host[IDX], c->host[OUT], c->sizes[N],    \
                                       c->sizes[D], c->sizes[V]);                                  \
    }                                                                                              \
    static const struct kernel_subject gather_f32_##type = {.name = "gather_f32_" #type,           \
                                                            .n_sizes = 3,                          \
                                                            .lay_out = lay_out_##type,             \
                                                            .run = run_##type,                     \
                                                            .ref = ref_##type};

GATHER(i64, TYPE_I64)
GATHER(i32, TYPE_I32)

/* ---- blocks of bytes ---- */

static void make_q8f(struct kernel_draw *draw, void *values, size_t n) {
    make_bits_u8(draw, values, n);
    for (size_t block = 0; block < n; block += 36)
        value_set(TYPE_F32, (uint8_t *)values + block, 0, draw_gauss(draw));
}

static void lay_out_q8f(struct kernel_case *c) {
    const int64_t *sizes = c->sizes;
    case_operand(c, "table", TYPE_U8, ROLE_IN, (size_t)(sizes[V] * sizes[D] / 32 * 36))->make =
        make_q8f;
    case_operand(c, "idx", TYPE_I32, ROLE_IN, (size_t)sizes[N])->make = make_i32;
    case_operand(c, "out", TYPE_F32, ROLE_OUT, (size_t)(sizes[N] * sizes[D]));
}

static enum cushim_status run_q8f(const struct kernel_case *c, struct CUstream_st *stream) {
    return cushim_gather_q8f_f32_i32(c->device[TABLE], c->device[IDX], c->device[OUT], c->sizes[N],
                                     c->sizes[D], c->sizes[V], stream);
}

static void ref_q8f(const struct kernel_case *c) {
    cushim_gather_q8f_f32_i32_ref(c->host[TABLE], c->host[IDX], c->host[OUT], c->sizes[N],
                                  c->sizes[D], c->sizes[V]);
}

static const struct kernel_subject gather_q8f = {.name = "gather_q8f_f32_i32",
                                                 .n_sizes = 3,
                                                 .lay_out = lay_out_q8f,
                                                 .run = run_q8f,
                                                 .ref = ref_q8f};

static void add_q8f(struct kernel_table *table) {
    static const int64_t sizes[][3] = {{0, 32, 3},  {3, 0, 3},    {1, 32, 1},   {7, 64, 37},
                                       {5, 96, 37}, {9, 4096, 5}, {700, 32, 37}};
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++)
        table_add(table, &gather_q8f, NULL, sizes[i], NULL);
    for (int operand = TABLE; operand <= OUT; operand++)
        table_add(table, &gather_q8f, "off 16", sizes[3], NULL)->operands[operand].offset = 4;
}

void cases_gather(struct kernel_table *table) {
    static const int64_t sizes[][3] = {
        {0, 8, 3},     {3, 0, 3},     {0, 0, 0},     {1, 1, 1},     {1, 4, 37},     {5, 3, 37},
        {7, 8, 1},     {33, 1, 37},   {64, 31, 37},  {100, 32, 37}, {257, 33, 37},  {129, 64, 37},
        {3, 1000, 37}, {2, 1025, 37}, {2, 4096, 37}, {1, 8192, 2},  {300, 100, 37}, {9, 4100, 5}};
    const struct kernel_subject *subjects[] = {&gather_f32_i64, &gather_f32_i32};
    add_q8f(table);
    for (unsigned s = 0; s < sizeof subjects / sizeof *subjects; s++) {
        for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++)
            table_add(table, subjects[s], NULL, sizes[i], NULL);
        table_add_offsets(table,
                          table_add(table, subjects[s], NULL, (int64_t[]){50, 36, 37}, NULL));
    }
}
