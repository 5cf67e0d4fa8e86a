/* Counters, and rows at positions inside, at the ends, and outside. */
#include "kernels/tests/frame/case.h"

/* ---- counters ---- */

static void lay_out_counter(struct kernel_case *c) {
    case_operand(c, "counter", TYPE_I32, ROLE_BOTH, 1);
}

#define COUNTER(word)                                                                              \
    static enum cushim_status run_##word(const struct kernel_case *c,                              \
                                         struct CUstream_st *stream) {                             \
        return cushim_counter_##word##_i32(c->device[0], (int32_t)c->scalars[0], stream);          \
    }                                                                                              \
    static void ref_##word(const struct kernel_case *c) {                                          \
        cushim_counter_##word##_i32_ref(c->host[0], (int32_t)c->scalars[0]);                       \
    }                                                                                              \
    static const struct kernel_subject counter_##word##_i32 = {.name = "counter_" #word "_i32",    \
                                                               .n_scalars = 1,                     \
                                                               .lay_out = lay_out_counter,         \
                                                               .run = run_##word,                  \
                                                               .ref = ref_##word};

COUNTER(add)
COUNTER(set)

static void make_largest(struct kernel_draw *draw, void *values, size_t n) {
    (void)draw;
    for (size_t i = 0; i < n; i++)
        ((int32_t *)values)[i] = INT32_MAX;
}

static void cases_of_counters(struct kernel_table *table) {
    static const double numbers[] = {1, 0, -1, 12345, INT32_MAX, INT32_MIN};
    for (unsigned i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        table_add(table, &counter_add_i32, NULL, NULL, &numbers[i]);
        table_add(table, &counter_set_i32, NULL, NULL, &numbers[i]);
    }
    table_add(table, &counter_add_i32, "wraps", NULL, numbers)->operands[0].make = make_largest;
}

/* ---- rows ---- */

enum { ROWS = 6 };

/* Inside, and right outside of both ends; a different one with each key. */
static void make_around(struct kernel_draw *draw, void *values, size_t n) {
    for (size_t i = 0; i < n; i++)
        ((int32_t *)values)[i] = (int32_t)(draw_bits(draw) % (ROWS + 2)) - 1;
}

#define POSITION(word, value)                                                                      \
    static void make_##word(struct kernel_draw *draw, void *values, size_t n) {                    \
        (void)draw;                                                                                \
        for (size_t i = 0; i < n; i++)                                                             \
            ((int32_t *)values)[i] = (value);                                                      \
    }

POSITION(first, 0)
POSITION(last, ROWS - 1)
POSITION(end, ROWS)
POSITION(before, -1)
POSITION(least, INT32_MIN)

static const struct {
    const char *note;
    kernel_make *make;
} positions[] = {
    {"around", make_around},     {"first row", make_first},     {"last row", make_last},
    {"right behind", make_end},  {"right before", make_before}, {"INT32_MIN", make_least},
    {"INT32_MAX", make_largest},
};

enum { SRC, APPEND_POSITION, DST };

static void lay_out_append(struct kernel_case *c, enum kernel_type type) {
    size_t dim = (size_t)c->sizes[0], n = dim * (size_t)c->sizes[1];
    case_operand(c, "src", TYPE_F32, ROLE_IN, n ? dim : 0)->make = make_special_f32;
    case_operand(c, "position", TYPE_I32, ROLE_IN, n ? 1 : 0)->make = make_around;
    case_operand(c, "dst", type, ROLE_OUT, n);
}

static void lay_out_append_f32(struct kernel_case *c) {
    lay_out_append(c, TYPE_F32);
}

static void lay_out_append_f16(struct kernel_case *c) {
    lay_out_append(c, TYPE_F16);
}

#define APPEND(name_, lay_out_)                                                                    \
    static enum cushim_status run_##name_(const struct kernel_case *c,                             \
                                          struct CUstream_st *stream) {                            \
        return cushim_##name_(c->device[SRC], c->device[APPEND_POSITION], c->device[DST],          \
                              c->sizes[0], c->sizes[1], stream);                                   \
    }                                                                                              \
    static void ref_##name_(const struct kernel_case *c) {                                         \
        if (c->operands[DST].n)                                                                    \
            cushim_##name_##_ref(c->host[SRC], c->host[APPEND_POSITION], c->host[DST],             \
                                 c->sizes[0], c->sizes[1]);                                        \
    }                                                                                              \
    static const struct kernel_subject name_ = {.name = #name_,                                    \
                                                .n_sizes = 2,                                      \
                                                .lay_out = lay_out_,                               \
                                                .run = run_##name_,                                \
                                                .ref = ref_##name_};

APPEND(offset_memcpy_f32, lay_out_append_f32)
APPEND(offset_memcpy_f32_f16, lay_out_append_f16)

enum { COS_TABLE, SIN_TABLE, SELECT_POSITION, COSINES, SINES };

/* sizes: half_rotary, rows in the tables, rows as passed to the function */
static void lay_out_select(struct kernel_case *c) {
    size_t half = (size_t)c->sizes[0], n = half * (size_t)c->sizes[1];
    case_operand(c, "cos_table", TYPE_F32, ROLE_IN, n)->make = make_special_f32;
    case_operand(c, "sin_table", TYPE_F32, ROLE_IN, n)->make = make_special_f32;
    case_operand(c, "position", TYPE_I32, ROLE_IN, n ? 1 : 0)->make = make_around;
    case_operand(c, "cosines", TYPE_F32, ROLE_OUT, n ? half : 0);
    case_operand(c, "sines", TYPE_F32, ROLE_OUT, n ? half : 0);
}

static enum cushim_status run_select(const struct kernel_case *c, struct CUstream_st *stream) {
    return cushim_rope_select_f32(c->device[COS_TABLE], c->device[SIN_TABLE],
                                  c->device[SELECT_POSITION], c->device[COSINES], c->device[SINES],
                                  c->sizes[2], c->sizes[0], stream);
}

static void ref_select(const struct kernel_case *c) {
    if (c->operands[COSINES].n)
        cushim_rope_select_f32_ref(c->host[COS_TABLE], c->host[SIN_TABLE], c->host[SELECT_POSITION],
                                   c->host[COSINES], c->host[SINES], c->sizes[2], c->sizes[0]);
}

static const struct kernel_subject rope_select_f32 = {.name = "rope_select_f32",
                                                      .n_sizes = 3,
                                                      .lay_out = lay_out_select,
                                                      .run = run_select,
                                                      .ref = ref_select};

/* ---- the cases: sizes around the warp, the block, and what one block takes ---- */

static const int64_t widths[] = {0,    1,    2,     3,     4,     7,     8,     31,   32,   33,
                                 64,   127,  128,   1000,  1023,  1024,  1025,  4096, 4097, 4100,
                                 8192, 8195, 16380, 16384, 16385, 16388, 20004, 40001};

static void cases_of_rows(struct kernel_table *table, const struct kernel_subject *subject,
                          int position) {
    for (unsigned i = 0; i < sizeof widths / sizeof *widths; i++)
        table_add(table, subject, NULL, (int64_t[]){widths[i], ROWS, ROWS}, NULL);
    for (unsigned i = 0; i < sizeof positions / sizeof *positions; i++) {
        for (int64_t width = 63; width <= 64; width++)
            table_add(table, subject, positions[i].note, (int64_t[]){width, ROWS, ROWS}, NULL)
                ->operands[position]
                .make = positions[i].make;
    }
    for (int64_t width = 128; width <= 130; width += 2) {
        struct kernel_case *c =
            table_add(table, subject, "last row", (int64_t[]){width, ROWS, ROWS}, NULL);
        c->operands[position].make = make_last;
        table_add_offsets(table, c);
    }
    table_add(table, subject, "no rows", (int64_t[]){16, 0, 0}, NULL);
    table_add(table, subject, "one row", (int64_t[]){16, 1, 1}, NULL)->operands[position].make =
        make_first;
}

void cases_position(struct kernel_table *table) {
    cases_of_counters(table);
    cases_of_rows(table, &offset_memcpy_f32, APPEND_POSITION);
    cases_of_rows(table, &offset_memcpy_f32_f16, APPEND_POSITION);
    cases_of_rows(table, &rope_select_f32, SELECT_POSITION);
    for (int64_t half = 40; half <= 41; half++)
        table_add(table, &rope_select_f32, "rows not given", (int64_t[]){half, ROWS, INT64_MAX},
                  NULL)
            ->operands[SELECT_POSITION]
            .make = make_last;
}
