/*
 * Broadcasting: the references compared with values by hand and identities, and the errors of wrong
 * calls.
 */
#include "tests/unit/suite.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "cushim/cushim.h"
#include "cushim/kernels.h"
#include "cushim/kernels_ref.h"
#include "kernels/shared/divider.h"

TEST(a_row_a_column_and_a_scalar_are_repeated) {
    const float a[] = {1, 2, 3, 4, 5, 6}, row[] = {10, 20, 30}, column[] = {100, 200};
    float c[6];
    cushim_add_broadcast2d_f32_ref(a, row, c, 3, 1, 0, 1, 2, 3);
    ck_assert_mem_eq(c, ((float[]){11, 22, 33, 14, 25, 36}), sizeof c);
    cushim_sub_broadcast2d_f32_ref(column, a, c, 1, 0, 3, 1, 2, 3);
    ck_assert_mem_eq(c, ((float[]){99, 98, 97, 196, 195, 194}), sizeof c);
    cushim_mul_broadcast2d_f32_ref(a, row, c, 3, 1, 0, 0, 2, 3);
    ck_assert_mem_eq(c, ((float[]){10, 20, 30, 40, 50, 60}), sizeof c);
    cushim_div_broadcast2d_f32_ref(row, column, c, 0, 1, 1, 0, 2, 3);
    ck_assert_mem_eq(c, ((float[]){.1f, .2f, .3f, .05f, .1f, .15f}), sizeof c);
}

TEST(negative_strides_walk_back_from_the_pointer) {
    const float a[] = {1, 2, 3, 4, 5, 6}, zero = 0;
    float c[6];
    cushim_add_broadcast2d_f32_ref(a + 5, &zero, c, -3, -1, 0, 0, 2, 3);
    ck_assert_mem_eq(c, ((float[]){6, 5, 4, 3, 2, 1}), sizeof c);
    cushim_add_broadcast2d_f32_ref(a + 3, &zero, c, -3, 1, 0, 0, 2, 3);
    ck_assert_mem_eq(c, ((float[]){4, 5, 6, 1, 2, 3}), sizeof c);
}

TEST(four_axes_are_in_memory_order) {
    const float a[] = {1, 2, 3, 4}, b[] = {10, 20, 30, 40};
    float c[16];
    const int64_t dims[] = {2, 2, 2, 2}, sa[] = {2, 0, 1, 0}, sb[] = {0, 2, 0, 1};
    cushim_add_broadcast4d_f32_ref(a, b, c, dims, sa, sb);
    for (int i = 0; i < 16; i++) {
        int i0 = i >> 3, i1 = i >> 2 & 1, i2 = i >> 1 & 1, i3 = i & 1;
        ck_assert(c[i] == a[2 * i0 + i2] + b[2 * i1 + i3]);
    }
}

TEST(two_axes_are_four_with_ones) {
    float a[35], b[7], c[35], d[35];
    for (int i = 0; i < 35; i++)
        a[i] = (float)(i * i % 11) + .5f;
    for (int i = 0; i < 7; i++)
        b[i] = (float)i - 2.5f;
    const int64_t dims[] = {1, 5, 1, 7}, sa[] = {77, 7, 3, 1}, sb[] = {0, 0, 0, 1};
    cushim_div_broadcast2d_f32_ref(a, b, c, 7, 1, 0, 1, 5, 7);
    cushim_div_broadcast4d_f32_ref(a, b, d, dims, sa, sb);
    ck_assert_mem_eq(c, d, sizeof c);
}

/* What the device does with a divider (kernels/device/math/divide.cuh). */
static int64_t divide(int64_t dividend, struct cushim_divider divider) {
    __extension__ typedef unsigned __int128 wide;
    uint64_t n = (uint64_t)dividend, high = (uint64_t)((wide)n * divider.magic >> 64);
    return (int64_t)((high + n) >> divider.shift);
}

static void assert_divides(int64_t divisor) {
    struct cushim_divider divider = cushim_divider_of(divisor);
    const int64_t near[] = {
        0,         divisor,          INT64_MAX / divisor * divisor,
        INT64_MAX, (int64_t)1 << 62, divisor < INT64_MAX / 3 ? 3 * divisor : divisor};
    for (unsigned i = 0; i < sizeof near / sizeof *near; i++) {
        for (int64_t off = -2; off <= 2; off++) {
            int64_t dividend = off > 0 && near[i] > INT64_MAX - off ? near[i] : near[i] + off;
            if (dividend >= 0)
                ck_assert_int_eq(divide(dividend, divider), dividend / divisor);
        }
    }
}

TEST(a_divider_divides_everything_up_to_the_largest) {
    uint64_t state = 1;
    for (int64_t divisor = 1; divisor < 3000; divisor++)
        assert_divides(divisor);
    for (int bit = 0; bit < 63; bit++) {
        int64_t power = (int64_t)1 << bit;
        assert_divides(power);
        assert_divides(power | 1);
        assert_divides(power - (power > 1));
    }
    assert_divides(INT64_MAX);
    for (int i = 0; i < 100000; i++) {
        int64_t divisor = (int64_t)((suite_random(&state) >> (1 + i % 62)) | 1);
        int64_t dividend = (int64_t)(suite_random(&state) >> (1 + i % 7));
        ck_assert_int_eq(divide(dividend, cushim_divider_of(divisor)), dividend / divisor);
    }
}

/* ---- arguments ---- */

static void assert_error(enum cushim_status status, const char *text) {
    ck_assert_int_eq(status, CUSHIM_INVALID);
    ck_assert_msg(strstr(cushim_last_error(), text) != NULL, "\"%s\" has no \"%s\"",
                  cushim_last_error(), text);
}

static float *const f = (float *)0x10000, *const odd = (float *)0x10001;

typedef enum cushim_status of_two_axes(const float *, const float *, float *, int64_t, int64_t,
                                       int64_t, int64_t, int64_t, int64_t, struct CUstream_st *);
typedef enum cushim_status of_four_axes(const float *, const float *, float *, const int64_t *,
                                        const int64_t *, const int64_t *, struct CUstream_st *);
static of_two_axes *const two_axes[] = {cushim_add_broadcast2d_f32, cushim_sub_broadcast2d_f32,
                                        cushim_mul_broadcast2d_f32, cushim_div_broadcast2d_f32};
static of_four_axes *const four_axes[] = {cushim_add_broadcast4d_f32, cushim_sub_broadcast4d_f32,
                                          cushim_mul_broadcast4d_f32, cushim_div_broadcast4d_f32};
static const char *const words[] = {"add", "sub", "mul", "div"};

TEST(wrong_arguments_of_two_axes_are_refused) {
    const int64_t far = INT64_MAX / 8;
    char name[64];
    for (int i = 0; i < 4; i++) {
        of_two_axes *run = two_axes[i];
        snprintf(name, sizeof name, "cushim_%s_broadcast2d_f32 failed", words[i]);
        assert_error(run(f, f, f, 1, 1, 1, 1, -1, 1, NULL), name);
        assert_error(run(f, f, f, 1, 1, 1, 1, -1, 1, NULL), "rows=-1 is negative");
        assert_error(run(f, f, f, 1, 1, 1, 1, 1, -2, NULL), "cols=-2 is negative");
        assert_error(run(f, f, f, 1, 1, 1, 1, 0, -2, NULL), "cols=-2 is negative");
        assert_error(run(f, f, f, 1, 1, 1, 1, (int64_t)1 << 32, (int64_t)1 << 32, NULL), "c has");
        assert_error(run(f, f, f, 1, 1, 1, 1, (int64_t)1 << 31, (int64_t)1 << 31, NULL), "c=");
        assert_error(run(f, f, f, far, far, 1, 1, 3, 3, NULL), "a: its strides");
        assert_error(run(f, f, f, 1, 1, -far, -far, 3, 3, NULL), "b: its strides");
        assert_error(run(f, f, f, 1, 1, 1, INT64_MIN, 3, 3, NULL), "b: its strides");
        assert_error(run(NULL, f, f, 1, 1, 1, 1, 1, 1, NULL), "a=NULL");
        assert_error(run(f, NULL, f, 1, 1, 1, 1, 1, 1, NULL), "b=NULL");
        assert_error(run(f, f, NULL, 1, 1, 1, 1, 1, 1, NULL), "c=NULL");
        assert_error(run(odd, f, f, 1, 1, 1, 1, 1, 1, NULL), "a=0x10001 is not a multiple of 4");
        assert_error(run(f, odd, f, 1, 1, 1, 1, 1, 1, NULL), "b=0x10001 is not a multiple of 4");
        assert_error(run(f, f, odd, 1, 1, 1, 1, 1, 1, NULL), "c=0x10001 is not a multiple of 4");
        ck_assert_int_eq(run(NULL, NULL, NULL, 1, 1, 1, 1, 0, 7, NULL), CUSHIM_OK);
        ck_assert_int_eq(run(NULL, NULL, NULL, 1, 1, 1, 1, 7, 0, NULL), CUSHIM_OK);
    }
}

TEST(wrong_arguments_of_four_axes_are_refused) {
    const int64_t dims[] = {2, 2, 2, 2}, strides[] = {8, 4, 2, 1}, none[] = {2, 0, 2, 2};
    char name[64], which[16];
    for (int i = 0; i < 4; i++) {
        of_four_axes *run = four_axes[i];
        snprintf(name, sizeof name, "cushim_%s_broadcast4d_f32 failed", words[i]);
        assert_error(run(f, f, f, NULL, strides, strides, NULL), name);
        assert_error(run(f, f, f, NULL, strides, strides, NULL), "dims=NULL");
        assert_error(run(f, f, f, dims, NULL, strides, NULL), "sa=NULL");
        assert_error(run(f, f, f, dims, strides, NULL, NULL), "sb=NULL");
        for (int d = 0; d < 4; d++) {
            int64_t wrong[] = {2, 2, 2, 2};
            wrong[d] = -1;
            snprintf(which, sizeof which, "dims[%d]=-1", d);
            assert_error(run(f, f, f, wrong, strides, strides, NULL), which);
        }
        assert_error(run(NULL, f, f, dims, strides, strides, NULL), "a=NULL");
        assert_error(run(f, NULL, f, dims, strides, strides, NULL), "b=NULL");
        assert_error(run(f, f, odd, dims, strides, strides, NULL), "c=0x10001");
        ck_assert_int_eq(run(NULL, NULL, NULL, none, strides, strides, NULL), CUSHIM_OK);
        assert_error(run(NULL, NULL, NULL, none, NULL, strides, NULL), "sa=NULL");
    }
}

SUITE() {
    return tests_run("reference_broadcast");
}
