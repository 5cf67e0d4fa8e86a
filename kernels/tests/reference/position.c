/*
 * Counters and rows at a position: the references compared with values by hand, and the errors of
 * wrong calls.
 */
#include "tests/unit/suite.h"

#include <stdint.h>
#include <string.h>

#include "cushim/cushim.h"
#include "cushim/kernels.h"
#include "cushim/kernels_ref.h"

TEST(a_counter_counts_and_wraps) {
    int32_t counter = 40;
    cushim_counter_add_i32_ref(&counter, 2);
    ck_assert_int_eq(counter, 42);
    cushim_counter_add_i32_ref(&counter, -50);
    ck_assert_int_eq(counter, -8);
    cushim_counter_set_i32_ref(&counter, INT32_MAX);
    cushim_counter_add_i32_ref(&counter, 2);
    ck_assert_int_eq(counter, INT32_MIN + 1);
    cushim_counter_add_i32_ref(&counter, INT32_MIN);
    ck_assert_int_eq(counter, 1);
}

enum { DIM = 3, ROWS = 4 };

TEST(a_row_goes_only_to_its_place) {
    const uint32_t row[DIM] = {0x3F800000, 0x7FA00001, 0x80000000}; /* NaN keeps its payload */
    for (int32_t position = -2; position < ROWS + 2; position++) {
        uint32_t table[ROWS][DIM], want[ROWS][DIM];
        memset(table, 0xAB, sizeof table);
        memset(want, 0xAB, sizeof want);
        if (position >= 0 && position < ROWS)
            memcpy(want[position], row, sizeof row);
        cushim_offset_memcpy_f32_ref((const float *)row, &position, (float *)table, DIM, ROWS);
        ck_assert_mem_eq(table, want, sizeof want);
    }
}

TEST(a_row_is_rounded_to_half) {
    const float row[DIM] = {1.0f / 3, -65520, 0x1p-24f};
    const uint16_t halves[DIM] = {0x3555, 0xFC00, 0x0001};
    for (int32_t position = -1; position <= ROWS; position++) {
        uint16_t table[ROWS][DIM], want[ROWS][DIM];
        memset(table, 0xAB, sizeof table);
        memset(want, 0xAB, sizeof want);
        if (position >= 0 && position < ROWS)
            memcpy(want[position], halves, sizeof halves);
        cushim_offset_memcpy_f32_f16_ref(row, &position, &table[0][0], DIM, ROWS);
        ck_assert_mem_eq(table, want, sizeof want);
    }
}

TEST(angles_come_from_the_row_of_the_position) {
    const float cosines[ROWS][2] = {{0, 1}, {2, 3}, {4, 5}, {6, 7}};
    const float sines[ROWS][2] = {{10, 11}, {12, 13}, {14, 15}, {16, 17}};
    for (int32_t position = -1; position <= ROWS; position++) {
        float cosine[2] = {-1, -1}, sine[2] = {-1, -1};
        bool is_inside = position >= 0 && position < ROWS;
        cushim_rope_select_f32_ref(&cosines[0][0], &sines[0][0], &position, cosine, sine, ROWS, 2);
        for (int i = 0; i < 2; i++) {
            ck_assert_float_eq(cosine[i], is_inside ? (float)(2 * position + i) : -1);
            ck_assert_float_eq(sine[i], is_inside ? (float)(10 + 2 * position + i) : -1);
        }
    }
}

/* ---- arguments ---- */

static void assert_error(enum cushim_status status, const char *function, const char *text) {
    ck_assert_int_eq(status, CUSHIM_INVALID);
    ck_assert_msg(strstr(cushim_last_error(), function) && strstr(cushim_last_error(), text),
                  "\"%s\" has no \"%s\" of %s", cushim_last_error(), text, function);
}

static float *const f = (float *)0x10000, *const odd_f = (float *)0x10002;
static uint16_t *const h = (uint16_t *)0x20000, *const odd_h = (uint16_t *)0x20001;
static int32_t *const i = (int32_t *)0x30000, *const odd_i = (int32_t *)0x30002;

TEST(a_wrong_counter_is_refused) {
    assert_error(cushim_counter_add_i32(NULL, 1, NULL), "cushim_counter_add_i32", "counter=NULL");
    assert_error(cushim_counter_add_i32(odd_i, 1, NULL), "cushim_counter_add_i32",
                 "counter=0x30002 is not a multiple of 4");
    assert_error(cushim_counter_set_i32(NULL, 1, NULL), "cushim_counter_set_i32", "counter=NULL");
    assert_error(cushim_counter_set_i32(odd_i, 1, NULL), "cushim_counter_set_i32",
                 "counter=0x30002 is not a multiple of 4");
}

#define ASSERT_APPEND_ERRORS(function, dst, odd_dst)                                               \
    assert_error(function(f, i, dst, -1, 5, NULL), #function, "dim=-1 is negative");               \
    assert_error(function(f, i, dst, 5, -1, NULL), #function, "max_len=-1 is negative");           \
    assert_error(function(f, i, dst, INT64_MAX / 2, 0, NULL), #function, "src=");                  \
    assert_error(function(f, i, dst, INT64_MAX / 8, 9, NULL), #function, "dst has more elements"); \
    assert_error(function(f, i, dst, INT64_MAX / 8, 7, NULL), #function, "dst=");                  \
    assert_error(function(NULL, i, dst, 5, 5, NULL), #function, "src=NULL");                       \
    assert_error(function(f, NULL, dst, 5, 5, NULL), #function, "position=NULL");                  \
    assert_error(function(f, i, NULL, 5, 5, NULL), #function, "dst=NULL");                         \
    assert_error(function(odd_f, i, dst, 5, 5, NULL), #function, "src=0x10002 is not a multiple"); \
    assert_error(function(f, odd_i, dst, 5, 5, NULL), #function, "position=0x30002 is not a");     \
    assert_error(function(f, i, odd_dst, 5, 5, NULL), #function, "is not a multiple of");          \
    ck_assert_int_eq(function(NULL, NULL, NULL, 0, 5, NULL), CUSHIM_OK);                           \
    ck_assert_int_eq(function(NULL, NULL, NULL, 5, 0, NULL), CUSHIM_OK)

TEST(a_wrong_row_is_refused) {
    ASSERT_APPEND_ERRORS(cushim_offset_memcpy_f32, f, odd_f);
    ASSERT_APPEND_ERRORS(cushim_offset_memcpy_f32_f16, h, odd_h);
}

TEST(wrong_angles_are_refused) {
    static const char name[] = "cushim_rope_select_f32";
    assert_error(cushim_rope_select_f32(f, f, i, f, f, -1, 4, NULL), name, "rows=-1 is negative");
    assert_error(cushim_rope_select_f32(f, f, i, f, f, 4, -1, NULL), name,
                 "half_rotary=-1 is negative");
    assert_error(cushim_rope_select_f32(f, f, i, f, f, INT64_MAX, INT64_MAX / 2, NULL), name,
                 "cos_table");
    assert_error(cushim_rope_select_f32(NULL, f, i, f, f, 4, 4, NULL), name, "cos_table=NULL");
    assert_error(cushim_rope_select_f32(f, NULL, i, f, f, 4, 4, NULL), name, "sin_table=NULL");
    assert_error(cushim_rope_select_f32(f, f, NULL, f, f, 4, 4, NULL), name, "position=NULL");
    assert_error(cushim_rope_select_f32(f, f, i, NULL, f, 4, 4, NULL), name, "cosines=NULL");
    assert_error(cushim_rope_select_f32(f, f, i, f, NULL, 4, 4, NULL), name, "sines=NULL");
    assert_error(cushim_rope_select_f32(odd_f, f, i, f, f, 4, 4, NULL), name, "cos_table=0x10002");
    assert_error(cushim_rope_select_f32(f, odd_f, i, f, f, 4, 4, NULL), name, "sin_table=0x10002");
    assert_error(cushim_rope_select_f32(f, f, odd_i, f, f, 4, 4, NULL), name, "position=0x30002");
    assert_error(cushim_rope_select_f32(f, f, i, odd_f, f, 4, 4, NULL), name, "cosines=0x10002");
    assert_error(cushim_rope_select_f32(f, f, i, f, odd_f, 4, 4, NULL), name, "sines=0x10002");
    ck_assert_int_eq(cushim_rope_select_f32(NULL, NULL, NULL, NULL, NULL, 4, 0, NULL), CUSHIM_OK);
    ck_assert_int_eq(cushim_rope_select_f32(NULL, NULL, NULL, NULL, NULL, 0, 4, NULL), CUSHIM_OK);
}

SUITE() {
    return tests_run("reference_position");
}
