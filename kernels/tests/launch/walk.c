/*
 * What libkernels.so needs of the layout and reduce families besides their public functions,
 * compared with the references: walks by value and by arrays on the device, and the index of 32
 * bits.
 *
 * A device buffer is the software device's memory, which the host reads and writes directly.
 */
#include "kernels/launch/variants.h"

#include <string.h>

#include "cushim/kernels.h"
#include "kernels/tests/launch/fixture.h"

enum { MOST = 1 << 17 };

static void *device_array(size_t n_bytes) {
    CUdeviceptr array = 0;
    ck_assert_int_eq(SIM(cuMemAlloc_v2)(&array, n_bytes), CUDA_SUCCESS);
    return (void *)(uintptr_t)array; // NOLINT
}

static const int32_t *device_copy(const int32_t *values, int n) {
    int32_t *copy = device_array((size_t)(n ? n : 1) * sizeof *copy);
    memcpy(copy, values, (size_t)n * sizeof *copy);
    return copy;
}

struct strides {
    int ndim;
    int32_t in[4], out[4], perm[4];
    int64_t total;
};

/*
 * A shape of two axes swapped, three rotated, steps that do not divide each other, and an empty
 * one.
 */
static const struct strides all_strides[] = {
    {2, {35, 1}, {19, 1}, {1, 0}, 665},
    {3, {70, 10, 1}, {21, 3, 1}, {2, 1, 0}, 210},
    {3, {5, 900, 1}, {100, 7, 3}, {0, 2, 1}, 950},
    {4, {1, 2, 3, 4}, {500, 60, 60, 1}, {3, 3, 0, 1}, 3001},
    {0, {0}, {0}, {0}, 5},
};

static void assert_walks(const struct strides *s, size_t elem_bytes) {
    size_t n_bytes = (size_t)s->total * elem_bytes;
    static unsigned char wanted[MOST];
    unsigned char *x = device_array(MOST), *y = device_array(MOST);
    struct cushim_walk walk = {.ndim = s->ndim};
    uint64_t state = 88172645463325252;
    for (int i = 0; i < MOST; i++)
        x[i] = (unsigned char)suite_random(&state);
    for (int d = 0; d < s->ndim; d++) {
        walk.out_strides[d] = s->out[d];
        walk.strides[d] = s->in[s->perm[d]];
    }
    cushim_variant_transpose_walk_ref(x, wanted, &walk, s->total, elem_bytes);
    ck_ok(cushim_variant_transpose_walk(x, y, &walk, s->total, elem_bytes, NULL));
    SIM(cuCtxSynchronize)();
    ck_assert_mem_eq(y, wanted, n_bytes);
    memset(y, 0, n_bytes);
    ck_ok(cushim_variant_transpose_walk_device(
        x, y, device_copy(s->in, s->ndim), device_copy(s->out, s->ndim),
        device_copy(s->perm, s->ndim), s->ndim, s->total, elem_bytes, NULL));
    SIM(cuCtxSynchronize)();
    ck_assert_mem_eq(y, wanted, n_bytes);
}

TEST(walks_equal_their_references) {
    fixture_context(0);
    for (unsigned i = 0; i < sizeof all_strides / sizeof *all_strides; i++) {
        assert_walks(&all_strides[i], 2);
        assert_walks(&all_strides[i], 4);
    }
}

TEST(a_wrong_walk_is_refused) {
    struct cushim_walk walk = {.ndim = 1, .out_strides = {1}, .strides = {1}};
    float *f = (float *)0x10000;
    ck_is(cushim_variant_transpose_walk(f, f, NULL, 1, 4, NULL), CUSHIM_INVALID);
    ck_said("walk=NULL");
    ck_is(cushim_variant_transpose_walk(f, f, &walk, 1, 8, NULL), CUSHIM_INVALID);
    ck_said("elem_bytes=8");
    ck_is(cushim_variant_transpose_walk(f, f, &walk, -1, 4, NULL), CUSHIM_INVALID);
    ck_said("total=-1");
    ck_is(cushim_variant_transpose_walk(NULL, f, &walk, 1, 4, NULL), CUSHIM_INVALID);
    ck_said("x=NULL");
    walk.out_strides[0] = 0;
    ck_is(cushim_variant_transpose_walk(f, f, &walk, 1, 4, NULL), CUSHIM_INVALID);
    ck_said("out_strides[0]=0");
    walk.ndim = 9;
    ck_is(cushim_variant_transpose_walk(f, f, &walk, 1, 4, NULL), CUSHIM_INVALID);
    ck_said("ndim=9");
    ck_is(cushim_variant_transpose_walk_device(f, f, NULL, NULL, NULL, 1, 1, 4, NULL),
          CUSHIM_INVALID);
    ck_said("in_strides=NULL");
}

TEST(an_index_may_have_32_bits) {
    fixture_context(0);
    float *x = device_array(MOST);
    int32_t *index = device_array(8), n = MOST / 4, wanted;
    for (int has_scratch = 0; has_scratch < 2; has_scratch++) {
        size_t scratch_bytes = has_scratch ? cushim_argmax_f32_scratch(n) : 0;
        for (int i = 0; i < n; i++)
            x[i] = (float)(i % 1000);
        index[1] = 77;
        ck_ok(cushim_variant_argmax_f32_i32(
            x, index, n, has_scratch ? device_array(scratch_bytes) : NULL, scratch_bytes, NULL));
        SIM(cuCtxSynchronize)();
        cushim_variant_argmax_f32_i32_ref(x, &wanted, n);
        ck_assert_int_eq(wanted, 999);
        ck_assert_int_eq(index[0], wanted);
        ck_assert_int_eq(index[1], 77);
    }
    ck_is(cushim_variant_argmax_f32_i32(x, index, (int64_t)INT32_MAX + 1, NULL, 0, NULL),
          CUSHIM_INVALID);
    ck_said("more than an int32_t can count");
}

int main(void) {
    return tests_run("walk");
}
