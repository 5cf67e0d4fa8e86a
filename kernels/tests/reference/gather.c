/* Gather: the references compared with rows by hand, and the errors of wrong calls. */
#include "tests/unit/suite.h"

#include <stdint.h>
#include <string.h>

#include "cushim/cushim.h"
#include "cushim/kernels.h"
#include "cushim/kernels_ref.h"

enum { V = 4, D = 3 };

static const float table[V * D] = {0, 1, 2, 10, 11, 12, 20, 21, 22, 30, 31, 32};

static void assert_row(const float *out, int row) {
    for (int d = 0; d < D; d++)
        ck_assert_float_eq(out[d], (float)(10 * row + d));
}

TEST(rows_are_copied_by_index) {
    const int64_t wide[] = {2, 0, 3, 3, 1};
    const int32_t narrow[] = {2, 0, 3, 3, 1};
    float out[5 * D];
    cushim_gather_f32_i64_ref(table, wide, out, 5, D, V);
    for (int i = 0; i < 5; i++)
        assert_row(out + i * D, (int)wide[i]);
    memset(out, 0, sizeof out);
    cushim_gather_f32_i32_ref(table, narrow, out, 5, D, V);
    for (int i = 0; i < 5; i++)
        assert_row(out + i * D, narrow[i]);
}

/* 2^32 + 1 is not 1, and -2^32 + 2 is not 2. */
TEST(an_index_is_clamped_in_its_own_width) {
    static const struct {
        int64_t index;
        int row;
    } rows[] = {{-1, 0},        {V, V - 1},           {INT32_MIN, 0},
                {INT32_MAX, 3}, {(1LL << 32) + 1, 3}, {-(1LL << 32) + 2, 0},
                {INT64_MIN, 0}, {INT64_MAX, 3},       {0, 0}};
    float out[D];
    for (unsigned k = 0; k < sizeof rows / sizeof *rows; k++) {
        int32_t narrow = (int32_t)rows[k].index;
        cushim_gather_f32_i64_ref(table, &rows[k].index, out, 1, D, V);
        assert_row(out, rows[k].row);
        if (narrow != rows[k].index)
            continue;
        cushim_gather_f32_i32_ref(table, &narrow, out, 1, D, V);
        assert_row(out, rows[k].row);
    }
}

TEST(rows_of_bytes_are_multiplied_by_their_scales) {
    uint8_t blocks[3 * 36] = {0};
    const int32_t idx[] = {5, -1};
    const float scales[] = {2, 3, 0.5f};
    float out[2 * 32];
    for (int row = 0; row < 3; row++) {
        memcpy(blocks + 36 * row, &scales[row], sizeof *scales);
        blocks[36 * row + 4] = 0xFE;
        blocks[36 * row + 35] = 7;
    }
    cushim_gather_q8f_f32_i32_ref(blocks, idx, out, 2, 32, 3);
    ck_assert(out[0] == -1 && out[1] == 0 && out[31] == 3.5f);
    ck_assert(out[32] == -4 && out[63] == 14);
}

/* ---- arguments ---- */

static void assert_error(enum cushim_status status, const char *function, const char *text) {
    ck_assert_int_eq(status, CUSHIM_INVALID);
    ck_assert_msg(strstr(cushim_last_error(), function) && strstr(cushim_last_error(), text),
                  "\"%s\" has no \"%s\" of %s", cushim_last_error(), text, function);
}

static float *const f = (float *)0x10000, *const odd_f = (float *)0x10002;

#define ASSERT_ERRORS(function, idx, odd_idx)                                                      \
    assert_error(function(f, idx, f, -1, 1, 1, NULL), #function, "n=-1 is negative");              \
    assert_error(function(f, idx, f, 1, -1, 1, NULL), #function, "d=-1 is negative");              \
    assert_error(function(f, idx, f, 1, 1, -1, NULL), #function, "v=-1 is negative");              \
    assert_error(function(f, idx, f, INT64_MAX, 2, 1, NULL), #function, "out has more elements");  \
    assert_error(function(f, idx, f, 1, 2, INT64_MAX, NULL), #function,                            \
                 "table has more elements");                                                       \
    assert_error(function(f, idx, f, 1, 1, 0, NULL), #function, "v=0");                            \
    assert_error(function(NULL, idx, f, 1, 1, 1, NULL), #function, "table=NULL");                  \
    assert_error(function(odd_f, idx, f, 1, 1, 1, NULL), #function, "table=0x10002");              \
    assert_error(function(f, NULL, f, 1, 1, 1, NULL), #function, "idx=NULL");                      \
    assert_error(function(f, odd_idx, f, 1, 1, 1, NULL), #function, "idx=0x2000");                 \
    assert_error(function(f, idx, NULL, 1, 1, 1, NULL), #function, "out=NULL");                    \
    assert_error(function(f, idx, odd_f, 1, 1, 1, NULL), #function, "out=0x10002");                \
    ck_assert_int_eq(function(NULL, NULL, NULL, 0, 1, 0, NULL), CUSHIM_OK);                        \
    ck_assert_int_eq(function(NULL, NULL, NULL, 1, 0, 0, NULL), CUSHIM_OK)

TEST(a_wrong_gather_is_refused) {
    ASSERT_ERRORS(cushim_gather_f32_i64, (int64_t *)0x20000, (int64_t *)0x20004);
    ASSERT_ERRORS(cushim_gather_f32_i32, (int32_t *)0x20000, (int32_t *)0x20002);
}

TEST(a_wrong_gather_of_bytes_is_refused) {
    const char *name = "cushim_gather_q8f_f32_i32";
    int32_t *idx = (int32_t *)0x20000;
    assert_error(cushim_gather_q8f_f32_i32(f, idx, f, 1, 33, 1, NULL), name, "d=33");
    assert_error(cushim_gather_q8f_f32_i32(f, idx, f, 1, 32, 0, NULL), name, "v=0");
    assert_error(cushim_gather_q8f_f32_i32(odd_f, idx, f, 1, 32, 1, NULL), name, "table=0x10002");
    assert_error(cushim_gather_q8f_f32_i32(f, NULL, f, 1, 32, 1, NULL), name, "idx=NULL");
    ck_assert_int_eq(cushim_gather_q8f_f32_i32(NULL, NULL, NULL, 0, 32, 0, NULL), CUSHIM_OK);
}

SUITE() {
    return tests_run("gather");
}
