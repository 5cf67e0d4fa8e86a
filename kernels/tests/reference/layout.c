/*
 * Copies in another order: the references compared with identities, and the errors of wrong calls.
 */
#include "tests/unit/suite.h"

#include <stdint.h>
#include <string.h>

#include "cushim/cushim.h"
#include "cushim/kernels.h"
#include "cushim/kernels_ref.h"

enum { MOST = 5005 };

static float numbers[MOST], there[MOST], back[MOST];
static uint16_t shorts[MOST], shorts_there[MOST], shorts_back[MOST];

static void count(void) {
    for (int i = 0; i < MOST; i++) {
        numbers[i] = (float)i;
        shorts[i] = (uint16_t)(i * 13);
    }
}

TEST(each_element_is_repeated) {
    float y[12];
    const float x[] = {1, 2, 3, 4, 5, 6}, of_elements[] = {1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6},
                of_pairs[] = {1, 2, 1, 2, 3, 4, 3, 4, 5, 6, 5, 6};
    cushim_repeat_f32_ref(x, y, 2, 3, 1, 2);
    ck_assert_mem_eq(y, of_elements, sizeof y);
    cushim_repeat_f32_ref(x, y, 1, 3, 2, 2);
    ck_assert_mem_eq(y, of_pairs, sizeof y);
    cushim_repeat_f32_ref(x, y, 1, 3, 2, 0);
    ck_assert_mem_eq(y, of_pairs, sizeof y);
}

TEST(a_transpose_has_columns_for_rows_and_is_its_own_inverse) {
    count();
    cushim_transpose2d_f32_ref(numbers, there, 37, 53);
    cushim_transpose2d_u16_ref(shorts, shorts_there, 37, 53);
    for (int r = 0; r < 37; r++) {
        for (int c = 0; c < 53; c++) {
            ck_assert_float_eq(there[c * 37 + r], (float)(r * 53 + c));
            ck_assert_uint_eq(shorts_there[c * 37 + r], (uint16_t)((r * 53 + c) * 13));
        }
    }
    cushim_transpose2d_f32_ref(there, back, 53, 37);
    cushim_transpose2d_u16_ref(shorts_there, shorts_back, 53, 37);
    ck_assert_mem_eq(back, numbers, 37 * 53 * sizeof *back);
    ck_assert_mem_eq(shorts_back, shorts, 37 * 53 * sizeof *shorts_back);
}

/* perm sends axes 5, 7, 11, 13 to 11, 5, 13, 7; its inverse brings them back. */
TEST(a_permutation_is_undone_by_its_inverse) {
    static const int64_t shape[] = {5, 7, 11, 13}, permuted[] = {11, 5, 13, 7};
    static const int32_t perm[] = {2, 0, 3, 1}, inverse[] = {1, 3, 0, 2};
    count();
    cushim_transpose_nd_f32_ref(numbers, there, shape, perm, 4);
    ck_assert_float_eq(there[((3 * 5 + 4) * 13 + 2) * 7 + 6],
                       (float)(((4 * 7 + 6) * 11 + 3) * 13 + 2));
    cushim_transpose_nd_f32_ref(there, back, permuted, inverse, 4);
    ck_assert_mem_eq(back, numbers, sizeof *back * 5 * 7 * 11 * 13);
    cushim_transpose_nd_u16_ref(shorts, shorts_there, shape, perm, 4);
    cushim_transpose_nd_u16_ref(shorts_there, shorts_back, permuted, inverse, 4);
    ck_assert_mem_eq(shorts_back, shorts, sizeof *shorts * 5 * 7 * 11 * 13);
}

TEST(two_axes_swapped_are_a_transpose) {
    count();
    cushim_transpose_nd_f32_ref(numbers, there, (const int64_t[]){40, 30}, (const int32_t[]){1, 0},
                                2);
    cushim_transpose2d_f32_ref(numbers, back, 40, 30);
    ck_assert_mem_eq(there, back, 1200 * sizeof *back);
}

TEST(strides_lead_to_elements) {
    const char text[] = "abcdefghijkl";
    char out[7] = "......";
    cushim_strided_copy_ref(text + 11, out, (const int64_t[]){6}, (const int64_t[]){-2}, 1, 1);
    ck_assert_str_eq(out, "ljhfdb");
    cushim_strided_copy_ref(text, out, (const int64_t[]){3, 2}, (const int64_t[]){0, 5}, 2, 1);
    ck_assert_str_eq(out, "afafaf");
    cushim_strided_copy_ref(text, out, (const int64_t[]){2}, (const int64_t[]){3}, 1, 3);
    ck_assert_str_eq(out, "abcjkl");
    memcpy(out, "......", 7);
    cushim_strided_copy_ref(text, out, NULL, NULL, 0, 5);
    ck_assert_str_eq(out, "abcde.");
    cushim_strided_copy_ref(text, out, (const int64_t[]){2, 0}, (const int64_t[]){1, 1}, 2, 1);
    ck_assert_str_eq(out, "abcde.");
}

/* ---- arguments ---- */

static void assert_error(enum cushim_status status, const char *function, const char *text) {
    ck_assert_int_eq(status, CUSHIM_INVALID);
    ck_assert_msg(strstr(cushim_last_error(), function) && strstr(cushim_last_error(), text),
                  "\"%s\" has no \"%s\" of %s", cushim_last_error(), text, function);
}

static float *const f = (float *)0x10000, *const odd_f = (float *)0x10002;
static uint16_t *const h = (uint16_t *)0x20000, *const odd_h = (uint16_t *)0x20001;

TEST(a_wrong_repeat_is_refused) {
    const char *what = "cushim_repeat_f32";
    assert_error(cushim_repeat_f32(f, f, -1, 1, 1, 1, NULL), what, "outer=-1 is negative");
    assert_error(cushim_repeat_f32(f, f, 1, -1, 1, 1, NULL), what, "axis=-1 is negative");
    assert_error(cushim_repeat_f32(f, f, 1, 1, -1, 1, NULL), what, "inner=-1 is negative");
    assert_error(cushim_repeat_f32(f, f, 1, 1, 1, -1, NULL), what, "reps=-1 is negative");
    assert_error(cushim_repeat_f32(f, f, 1, 1, 2, INT64_MAX, NULL), what, "y has more elements");
    assert_error(cushim_repeat_f32(NULL, f, 1, 1, 1, 1, NULL), what, "x=NULL");
    assert_error(cushim_repeat_f32(odd_f, f, 1, 1, 1, 1, NULL), what, "x=0x10002");
    assert_error(cushim_repeat_f32(f, NULL, 1, 1, 1, 1, NULL), what, "y=NULL");
    assert_error(cushim_repeat_f32(f, odd_f, 1, 1, 1, 1, NULL), what, "y=0x10002");
    ck_assert_int_eq(cushim_repeat_f32(NULL, NULL, 1, 1, 1, 0, NULL), CUSHIM_OK);
}

#define ASSERT_2D_ERRORS(function, p, odd_p)                                                       \
    assert_error(function(p, p, -1, 1, NULL), #function, "rows=-1 is negative");                   \
    assert_error(function(p, p, 1, -1, NULL), #function, "cols=-1 is negative");                   \
    assert_error(function(p, p, INT64_MAX, 2, NULL), #function, "y has more elements");            \
    assert_error(function(NULL, p, 1, 1, NULL), #function, "x=NULL");                              \
    assert_error(function(odd_p, p, 1, 1, NULL), #function, "x=0x");                               \
    assert_error(function(p, NULL, 1, 1, NULL), #function, "y=NULL");                              \
    assert_error(function(p, odd_p, 1, 1, NULL), #function, "is not a multiple of");               \
    ck_assert_int_eq(function(NULL, NULL, 0, 5, NULL), CUSHIM_OK)

#define ASSERT_ND_ERRORS(function, p, odd_p)                                                       \
    assert_error(function(p, p, NULL, perm, 2, NULL), #function, "shape=NULL");                    \
    assert_error(function(p, p, shape, NULL, 2, NULL), #function, "perm=NULL");                    \
    assert_error(function(p, p, shape, perm, -1, NULL), #function, "ndim=-1");                     \
    assert_error(function(p, p, shape, perm, 9, NULL), #function, "ndim=9 is not in 0 .. 8");      \
    assert_error(function(p, p, (int64_t[]){2, -3}, perm, 2, NULL), #function, "=-3 is negative"); \
    assert_error(function(p, p, (int64_t[]){2, INT64_MAX}, perm, 2, NULL), #function, "more");     \
    assert_error(function(p, p, shape, (int32_t[]){0, 0}, 2, NULL), #function, "perm[1]=0");       \
    assert_error(function(p, p, shape, (int32_t[]){0, 2}, 2, NULL), #function, "perm[1]=2");       \
    assert_error(function(p, p, shape, (int32_t[]){-1, 0}, 2, NULL), #function, "perm[0]=-1");     \
    assert_error(function(NULL, p, shape, perm, 2, NULL), #function, "x=NULL");                    \
    assert_error(function(p, NULL, NULL, NULL, 0, NULL), #function, "y=NULL");                     \
    assert_error(function(odd_p, p, shape, perm, 2, NULL), #function, "x=0x");                     \
    assert_error(function(p, odd_p, shape, perm, 2, NULL), #function, "is not a multiple of");     \
    ck_assert_int_eq(function(NULL, NULL, (int64_t[]){2, 0}, perm, 2, NULL), CUSHIM_OK)

TEST(a_wrong_transpose_is_refused) {
    static const int64_t shape[9] = {2, 3, 1, 1, 1, 1, 1, 1, 1};
    static const int32_t perm[9] = {1, 0, 2, 3, 4, 5, 6, 7, 8};
    ASSERT_2D_ERRORS(cushim_transpose2d_f32, f, odd_f);
    ASSERT_2D_ERRORS(cushim_transpose2d_u16, h, odd_h);
    ASSERT_ND_ERRORS(cushim_transpose_nd_f32, f, odd_f);
    ASSERT_ND_ERRORS(cushim_transpose_nd_u16, h, odd_h);
}

TEST(a_wrong_strided_copy_is_refused) {
    const char *what = "cushim_strided_copy";
    static const int64_t two[] = {2, 2}, far[] = {1, INT64_MAX / 4};
    assert_error(cushim_strided_copy(f, f, NULL, two, 2, 4, NULL), what, "shape=NULL");
    assert_error(cushim_strided_copy(f, f, two, NULL, 2, 4, NULL), what, "strides=NULL");
    assert_error(cushim_strided_copy(f, f, two, two, -1, 4, NULL), what, "ndim=-1");
    assert_error(cushim_strided_copy(f, f, two, two, 9, 4, NULL), what, "ndim=9");
    assert_error(cushim_strided_copy(f, f, two, two, 2, 0, NULL), what, "elem_bytes=0");
    assert_error(cushim_strided_copy(f, f, (int64_t[]){-2}, two, 1, 4, NULL), what, "=-2 is neg");
    assert_error(cushim_strided_copy(f, f, two, two, 2, INT64_MAX, NULL), what, "more bytes");
    assert_error(cushim_strided_copy(f, f, two, far, 2, 8, NULL), what, "strides[1]=");
    assert_error(cushim_strided_copy(NULL, f, two, two, 2, 4, NULL), what, "src=NULL");
    assert_error(cushim_strided_copy(f, NULL, NULL, NULL, 0, 4, NULL), what, "dst=NULL");
    ck_assert_int_eq(cushim_strided_copy(NULL, NULL, (int64_t[]){0, 2}, far, 2, 8, NULL),
                     CUSHIM_OK);
}

SUITE() {
    return tests_run("layout");
}
