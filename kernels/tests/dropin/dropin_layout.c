/*
 * libkernels.so: transposes, above all those of many axes, whose strides come as arrays in host or
 * device memory.  They are compared with the walk that this interface defines.
 */
#include <string.h>

#include "cushim/kernels_ref.h"
#include "kernels/tests/dropin/dropin_fixture.h"
#include "tests/unit/companion/core/sim_fixture.h"

TEST(repeats_and_plain_transposes_match_their_references) {
    enum { OUTER = 3, AXIS = 5, INNER = 7, REPS = 2, ROWS = 19, COLS = 35 };
    fixture_open();
    struct buffer x = fixture_floats(ROWS * COLS, -1, 1),
                  y = fixture_room(ROWS * COLS * sizeof(float));
    struct buffer z = fixture_room(OUTER * AXIS * INNER * REPS * sizeof(float));
    ck_done(launch_repeat(x.device, z.device, OUTER, AXIS, INNER, REPS, fixture_stream));
    cushim_repeat_f32_ref(x.host, z.host, OUTER, AXIS, INNER, REPS);
    fixture_assert_bytes("launch_repeat", &z);
    ck_done(launch_transpose_2d(x.device, y.device, ROWS, COLS, fixture_stream));
    cushim_transpose2d_f32_ref(x.host, y.host, ROWS, COLS);
    fixture_assert_bytes("launch_transpose_2d", &y);
    struct buffer half = fixture_halves(ROWS * COLS), turned = fixture_room(half.n_bytes);
    ck_done(launch_transpose_2d_bf16(half.device, turned.device, ROWS, COLS, fixture_stream));
    cushim_transpose2d_u16_ref(half.host, turned.host, ROWS, COLS);
    fixture_assert_bytes("launch_transpose_2d_bf16", &turned);
}

/* ---- many axes ---- */

enum { MOST = 10, ELEMENTS = 4096 };

struct walk {
    int ndim, total;
    int in_strides[MOST], out_strides[MOST], perm[MOST];
};

static int from_of(const struct walk *walk, int i) {
    int from = 0, rest = i;
    for (int d = 0; d < walk->ndim; d++) {
        from += rest / walk->out_strides[d] * walk->in_strides[walk->perm[d]];
        rest %= walk->out_strides[d];
    }
    return from;
}

/* The walk of a permuted shape, as the callers build it. */
static struct walk walk_of(int ndim, const int *shape, const int *perm) {
    struct walk walk = {.ndim = ndim, .total = 1};
    for (int d = ndim - 1; d >= 0; d--) {
        walk.in_strides[d] = walk.total;
        walk.total *= shape[d];
    }
    int stride = 1;
    for (int d = ndim - 1; d >= 0; d--) {
        walk.perm[d] = perm[d];
        walk.out_strides[d] = stride;
        stride *= shape[perm[d]];
    }
    return walk;
}

enum where { HOST, PINNED, DEVICE, MANAGED };

static int *array_in(enum where where, const int *values) {
    CUdeviceptr address;
    void *host;
    switch (where) {
    case HOST:
        return memcpy(malloc(MOST * sizeof(int)), values, MOST * sizeof(int));
    case PINNED:
        ck_assert_int_eq(SIM(cuMemHostAlloc)(&host, MOST * sizeof(int), 0), CUDA_SUCCESS);
        return memcpy(host, values, MOST * sizeof(int));
    case DEVICE:
        return fixture_put(values, MOST * sizeof(int)).device;
    case MANAGED:
        ck_assert_int_eq(SIM(cuMemAllocManaged)(&address, MOST * sizeof(int), CU_MEM_ATTACH_GLOBAL),
                         CUDA_SUCCESS);
        return memcpy((void *)(uintptr_t)address, values, MOST * sizeof(int));
    }
    return NULL;
}

static void assert_walk(const struct walk *walk, enum where where) {
    struct buffer x = fixture_floats(ELEMENTS, -1, 1), y = fixture_room(ELEMENTS * sizeof(float));
    struct buffer z = fixture_room(ELEMENTS * sizeof(uint16_t));
    int *in_strides = array_in(where, walk->in_strides),
        *out_strides = array_in(where, walk->out_strides), *perm = array_in(where, walk->perm);
    ck_done(launch_transpose_nd(x.device, y.device, in_strides, out_strides, perm, walk->ndim,
                                walk->total, fixture_stream));
    ck_done(launch_transpose_nd_bf16(x.device, z.device, in_strides, out_strides, perm, walk->ndim,
                                     walk->total, fixture_stream));
    if (where == HOST) /* passed by value */
        memset(in_strides, 0x55, MOST * sizeof(int));
    for (int i = 0; i < walk->total; i++) {
        ((float *)y.host)[i] = ((float *)x.host)[from_of(walk, i)];
        ((uint16_t *)z.host)[i] = ((uint16_t *)x.host)[from_of(walk, i)];
    }
    fixture_assert_bytes("launch_transpose_nd", &y);
    fixture_assert_bytes("launch_transpose_nd_bf16", &z);
}

static void assert_walks(const struct walk *walk) {
    for (enum where where = HOST; where <= MANAGED; where++)
        assert_walk(walk, where);
}

TEST(permuted_shapes_are_transposed_from_strides_anywhere) {
    fixture_open();
    const struct walk walks[] = {
        walk_of(2, (int[]){19, 35}, (int[]){1, 0}),
        walk_of(3, (int[]){3, 5, 7}, (int[]){2, 0, 1}),
        walk_of(4, (int[]){2, 3, 5, 7}, (int[]){0, 2, 1, 3}),
        walk_of(4, (int[]){2, 3, 5, 7}, (int[]){3, 2, 1, 0}),
        walk_of(4, (int[]){2, 3, 5, 7}, (int[]){0, 1, 2, 3}),
        walk_of(5, (int[]){2, 1, 5, 1, 7}, (int[]){4, 3, 0, 1, 2}),
        walk_of(1, (int[]){77}, (int[]){0}),
    };
    for (unsigned i = 0; i < sizeof walks / sizeof *walks; i++)
        assert_walks(&walks[i]);
}

TEST(more_than_eight_axes_work_if_they_merge_to_eight) {
    const int twos[] = {2, 2, 2, 2, 2, 1, 2, 2, 2, 2}, ones[] = {2, 1, 2, 1, 2, 1, 2, 1, 2, 1};
    const int halves[] = {5, 6, 7, 8, 9, 0, 1, 2, 3, 4}, back[] = {9, 8, 7, 6, 5, 4, 3, 2, 1, 0};
    const int swapped[] = {1, 0, 3, 2, 5, 4, 7, 6};
    fixture_open();
    const struct walk walks[] = {walk_of(10, twos, halves), walk_of(10, ones, back),
                                 walk_of(8, (int[]){2, 2, 2, 2, 2, 2, 2, 2}, swapped)};
    for (unsigned i = 0; i < sizeof walks / sizeof *walks; i++)
        assert_walks(&walks[i]);
}

TEST(strides_of_no_shape_are_walked_as_they_are) {
    fixture_open();
    const struct walk walks[] = {
        {2, 100, {7, 3}, {9, 2}, {0, 1}},          /* 2 does not divide 9, and the last is not 1 */
        {2, 50, {1, 10}, {7, 1}, {1, 0}},          /* 7 does not divide 50 */
        {2, 64, {1, 0}, {8, 1}, {0, 1}},           /* one element for all of a row */
        {3, 60, {1, 2, 3}, {5, 20, 1}, {2, 1, 0}}, /* not in falling order */
        {1, 60, {13}, {4}, {0}},                   /* four times each */
        {2, 60, {-5, -1}, {-12, -3}, {0, 1}},      /* quotients are negative */
    };
    for (unsigned i = 0; i < sizeof walks / sizeof *walks; i++)
        assert_walks(&walks[i]);
}

TEST(without_an_axis_one_element_is_copied) {
    fixture_open();
    struct buffer x = fixture_floats(4, -1, 1), y = fixture_room(4 * sizeof(float));
    ck_done(launch_transpose_nd(x.device, y.device, NULL, NULL, NULL, 0, 1, fixture_stream));
    memcpy(y.host, x.host, sizeof(float));
    fixture_assert_bytes("launch_transpose_nd", &y);
}

TEST(wrong_strides_are_error_1) {
    fixture_open();
    struct buffer x = fixture_floats(ELEMENTS, -1, 1), y = fixture_room(ELEMENTS * sizeof(float));
    const int ones[] = {1, 1}, zero[] = {1, 0}, axes[] = {1, 0}, beyond[] = {2, 0},
              below[] = {-1, 0};
    const struct walk nine =
        walk_of(9, (int[]){2, 2, 2, 2, 2, 2, 2, 2, 2}, (int[]){8, 7, 6, 5, 4, 3, 2, 1, 0});
    int *device = array_in(DEVICE, nine.in_strides);
#define RUN(in, out, perm, ndim, total)                                                            \
    launch_transpose_nd(x.device, y.device, in, out, perm, ndim, total, fixture_stream)
    ck_assert_int_eq(RUN(ones, zero, axes, 2, 4), 1);
    ck_assert_int_eq(RUN(ones, ones, beyond, 2, 4), 1);
    ck_assert_int_eq(RUN(ones, ones, below, 2, 4), 1);
    ck_assert_int_eq(RUN(nine.in_strides, nine.out_strides, nine.perm, 9, 512), 1);
    ck_assert_int_eq(RUN(ones, ones, axes, -1, 4), 1);
    ck_assert_int_eq(RUN(ones, ones, axes, 2, -4), 1);
    ck_assert_int_eq(RUN(NULL, ones, axes, 2, 4), 1);
    ck_assert_int_eq(RUN(ones, NULL, axes, 2, 4), 1);
    ck_assert_int_eq(RUN(ones, ones, NULL, 2, 4), 1);
    ck_assert_int_eq(RUN(device, ones, axes, 2, 4), 1); /* neither can read both */
    ck_assert_int_eq(RUN(NULL, NULL, NULL, 2, 0), 0);
    fixture_assert_bytes("launch_transpose_nd", &y);
    ck_done(RUN(array_in(DEVICE, nine.in_strides), array_in(DEVICE, nine.out_strides),
                array_in(DEVICE, nine.perm), 9, 512));
}

int main(void) {
    return tests_run("dropin_layout");
}
