/* Repetition and transposition at the edges of tiles and vectors. */
#include <string.h>

#include "kernels/tests/frame/case.h"
#include "kernels/tests/cases/cases_layout.h"

enum { X, Y };

/* ---- repeat ---- */

enum { OUTER, AXIS, INNER, REPS };

static void lay_out_repeat(struct kernel_case *c) {
    const int64_t *sizes = c->sizes;
    size_t n = (size_t)(sizes[OUTER] * sizes[AXIS] * sizes[INNER]);
    case_operand(c, "x", TYPE_F32, ROLE_IN, n)->make = make_special_f32;
    case_operand(c, "y", TYPE_F32, ROLE_OUT, n * (size_t)sizes[REPS]);
}

static enum cushim_status run_repeat(const struct kernel_case *c, struct CUstream_st *stream) {
    return cushim_repeat_f32(c->device[X], c->device[Y], c->sizes[OUTER], c->sizes[AXIS],
                             c->sizes[INNER], c->sizes[REPS], stream);
}

static void ref_repeat(const struct kernel_case *c) {
    cushim_repeat_f32_ref(c->host[X], c->host[Y], c->sizes[OUTER], c->sizes[AXIS], c->sizes[INNER],
                          c->sizes[REPS]);
}

static const struct kernel_subject repeat_f32 = {.name = "repeat_f32",
                                                 .n_sizes = 4,
                                                 .lay_out = lay_out_repeat,
                                                 .run = run_repeat,
                                                 .ref = ref_repeat};

static void add_repeats(struct kernel_table *table) {
    static const int64_t sizes[][4] = {{0, 3, 4, 2},
                                       {2, 0, 4, 2},
                                       {2, 3, 0, 2},
                                       {2, 3, 4, 0},
                                       {1, 1, 1, 1},
                                       {2, 3, 1, 5},
                                       {2, 3, 7, 2},
                                       {3, 5, 4, 3},
                                       {1, 7, 32, 4},
                                       {2, 3, 33, 31},
                                       {1, 1, 1000, 7},
                                       {1, 300, 1, 9},
                                       /* large enough to be read once: pieces of 16 bytes, of 4 */
                                       {8, 80, 512, 2},
                                       {8, 81, 508, 3},
                                       {4, 150, 123, 3}};
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++)
        table_add(table, &repeat_f32, NULL, sizes[i], NULL);
    table_add_offsets(table, table_add(table, &repeat_f32, NULL, (int64_t[]){2, 5, 40, 3}, NULL));
    table_add_offsets(table, table_add(table, &repeat_f32, NULL, (int64_t[]){2, 80, 512, 2}, NULL));
}

/* ---- transposition: each once for float and once for 16 bits ---- */

enum { ROWS, COLS };

static void lay_out_2d(struct kernel_case *c, enum kernel_type type) {
    size_t n = (size_t)(c->sizes[ROWS] * c->sizes[COLS]);
    case_operand(c, "x", type, ROLE_IN, n)->make =
        type == TYPE_F32 ? make_special_f32 : make_bits_u16;
    case_operand(c, "y", type, ROLE_OUT, n);
}

/* The shapes of transpose_nd; sizes[0] is the number of one. */
static const struct permutation {
    int ndim;
    int64_t shape[8];
    int32_t perm[8];
} permutations[] = {
    {0, {0}, {0}},
    {1, {37}, {0}},
    {1, {0}, {0}},
    {2, {5, 0}, {1, 0}},
    {2, {33, 65}, {1, 0}},
    {2, {64, 64}, {0, 1}},
    {3, {2, 33, 40}, {0, 2, 1}},
    {3, {3, 64, 72}, {0, 2, 1}},
    {3, {17, 3, 40}, {1, 0, 2}},
    {3, {5, 6, 7}, {2, 1, 0}},
    {3, {40, 48, 3}, {1, 0, 2}},
    {3, {1000, 3, 1}, {1, 0, 2}},
    {4, {2, 20, 5, 32}, {0, 2, 1, 3}},
    {4, {2, 64, 8, 16}, {3, 2, 1, 0}},
    {4, {16, 8, 64, 2}, {3, 2, 1, 0}},
    {4, {2, 24, 6, 40}, {0, 2, 3, 1}},
    {4, {3, 9, 5, 11}, {3, 1, 0, 2}},
    {4, {8, 2, 8, 24}, {2, 3, 0, 1}},
    {4, {4, 4, 36, 36}, {3, 1, 2, 0}},
    {8, {1, 3, 1, 4, 1, 5, 1, 6}, {7, 6, 5, 4, 3, 2, 1, 0}},
    {8, {2, 3, 2, 3, 2, 3, 2, 4}, {1, 3, 5, 7, 0, 2, 4, 6}},
    {8, {2, 2, 2, 2, 2, 2, 2, 2}, {7, 0, 6, 1, 5, 2, 4, 3}},
    {3, {65, 3, 67}, {2, 1, 0}},
};

static size_t n_of(const struct permutation *permutation) {
    size_t n = 1;
    for (int d = 0; d < permutation->ndim; d++)
        n *= (size_t)permutation->shape[d];
    return n;
}

static void lay_out_nd(struct kernel_case *c, enum kernel_type type) {
    size_t n = n_of(&permutations[c->sizes[0]]);
    case_operand(c, "x", type, ROLE_IN, n)->make =
        type == TYPE_F32 ? make_special_f32 : make_bits_u16;
    case_operand(c, "y", type, ROLE_OUT, n);
}

#define TRANSPOSE(word, type)                                                                      \
    static void lay_out_2d_##word(struct kernel_case *c) {                                         \
        lay_out_2d(c, type);                                                                       \
    }                                                                                              \
    static enum cushim_status run_2d_##word(const struct kernel_case *c,                           \
                                            struct CUstream_st *stream) {                          \
        return cushim_transpose2d_##word(c->device[X], c->device[Y], c->sizes[ROWS],               \
                                         c->sizes[COLS], stream);                                  \
    }                                                                                              \
    static void ref_2d_##word(const struct kernel_case *c) {                                       \
        cushim_transpose2d_##word##_ref(c->host[X], c->host[Y], c->sizes[ROWS], c->sizes[COLS]);   \
    }                                                                                              \
    static const struct kernel_subject transpose2d_##word = {.name = "transpose2d_" #word,         \
                                                             .n_sizes = 2,                         \
                                                             .lay_out = lay_out_2d_##word,         \
                                                             .run = run_2d_##word,                 \
                                                             .ref = ref_2d_##word};                \
    static void lay_out_nd_##word(struct kernel_case *c) {                                         \
        lay_out_nd(c, type);                                                                       \
    }                                                                                              \
    static enum cushim_status run_nd_##word(const struct kernel_case *c,                           \
                                            struct CUstream_st *stream) {                          \
        struct permutation p = permutations[c->sizes[0]]; /* gone when the call has returned */    \
        enum cushim_status status = cushim_transpose_nd_##word(c->device[X], c->device[Y],         \
                                                               p.shape, p.perm, p.ndim, stream);   \
        memset(&p, -1, sizeof p);                                                                  \
        return status;                                                                             \
    }                                                                                              \
    static void ref_nd_##word(const struct kernel_case *c) {                                       \
        const struct permutation *p = &permutations[c->sizes[0]];                                  \
        cushim_transpose_nd_##word##_ref(c->host[X], c->host[Y], p->shape, p->perm, p->ndim);      \
    }                                                                                              \
    static const struct kernel_subject transpose_nd_##word = {.name = "transpose_nd_" #word,       \
                                                              .n_sizes = 1,                        \
                                                              .lay_out = lay_out_nd_##word,        \
                                                              .run = run_nd_##word,                \
                                                              .ref = ref_nd_##word};

TRANSPOSE(f32, TYPE_F32)
TRANSPOSE(u16, TYPE_U16)

static void add_transposes(struct kernel_table *table, const struct kernel_subject *of_2d,
                           const struct kernel_subject *of_nd) {
    static const int64_t sizes[][2] = {
        {0, 5},     {5, 0},     {1, 1},     {1, 100},  {100, 1},  {2, 3},     {15, 16},
        {16, 16},   {17, 33},   {31, 32},   {32, 33},  {64, 64},  {63, 65},   {64, 128},
        {65, 64},   {68, 132},  {72, 40},   {96, 200}, {32, 999}, {100, 103}, {257, 20},
        {16, 2048}, {130, 260}, {200, 136}, {32, 260}, {260, 32}, {20, 1000}, {1000, 24}};
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++)
        table_add(table, of_2d, NULL, sizes[i], NULL);
    table_add_offsets(table, table_add(table, of_2d, NULL, (int64_t[]){72, 88}, NULL));
    table_add(table, of_2d, "not so small", (int64_t[]){1601, 1503}, NULL);
    table_add(table, of_2d, "not so small, off", (int64_t[]){1604, 1504}, NULL)
        ->operands[X]
        .offset = 4;
    for (size_t i = 0; i < sizeof permutations / sizeof *permutations; i++)
        table_add(table, of_nd, NULL, &(int64_t){(int64_t)i}, NULL);
    table_add_offsets(table, table_add(table, of_nd, NULL, (int64_t[]){7}, NULL));
    table_add_offsets(table, table_add(table, of_nd, NULL, (int64_t[]){12}, NULL));
}

void cases_layout(struct kernel_table *table) {
    add_repeats(table);
    add_transposes(table, &transpose2d_f32, &transpose_nd_f32);
    add_transposes(table, &transpose2d_u16, &transpose_nd_u16);
    cases_strided_copy(table);
}
