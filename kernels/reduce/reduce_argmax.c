/* The largest element: arguments, the choice of a path, the launches. */
#include "kernels/reduce/reduce_argmax.h"

#include "cushim/kernels/reduce.h"
#include "cushim/kernels_ref.h"
#include "companion/shared.h"
#include "kernels/launch/arguments.h"
#include "kernels/reduce/reduce.h"
#include "kernels/launch/variants.h"

enum {
    BLOCK_MOST = 8192,      /* elements for which one block is as fast as more */
    CLUSTER_MOST = 1 << 20, /* and one cluster */
    PART = 2048,
    MOST_PARTS = 1024
};

struct argmax {
    const float *x;
    void *index;
    int is_narrow; /* the index is an int32_t */
    int64_t n;
};

static void run_reference(const void *args) {
    const struct argmax *a = args;
    if (a->is_narrow)
        cushim_variant_argmax_f32_i32_ref(a->x, a->index, a->n);
    else
        cushim_argmax_f32_ref(a->x, a->index, a->n);
}

static enum cushim_status launch_alone(const struct cushim_kernel_call *call, struct argmax *a,
                                       unsigned n_cluster) {
    struct cushim_kernel_shape shape = {
        .grid = {n_cluster}, .block = {REDUCE_ARGMAX_THREADS}, .is_dependent = true};
    void *params[] = {&a->x, &a->index, &a->is_narrow, &a->n};
    if (n_cluster > 1) {
        shape.cluster = n_cluster;
        shape.shared_bytes = REDUCE_ARGMAX_PLACE_BYTES;
    }
    return cushim_kernel_call_launch(
        call, n_cluster > 1 ? REDUCE_ARGMAX_CLUSTER : REDUCE_ARGMAX_BLOCK, &shape, params);
}

/* The parts that scratch is for, before a device is known. */
static int most_parts_of(int64_t n) {
    return n <= BLOCK_MOST ? 0 : n / PART < MOST_PARTS ? (int)(n / PART) : MOST_PARTS;
}

static enum cushim_status launch_parts(const struct cushim_kernel_call *call, struct argmax *a,
                                       void *scratch) {
    int n_parts = most_parts_of(a->n), n_places = (int)call->n_sms * REDUCE_ARGMAX_PARTS_PER_SM;
    if (n_parts > n_places)
        n_parts = n_places;
    struct cushim_kernel_shape parts = {.grid = {(unsigned)n_parts},
                                        .block = {REDUCE_ARGMAX_PARTS_THREADS},
                                        .is_dependent = true},
                               last = {.block = {REDUCE_ARGMAX_LAST_THREADS}, .is_dependent = true};
    void *params_of_parts[] = {&a->x, &scratch, &a->n},
         *params_of_last[] = {&scratch, &a->index, &a->is_narrow, &n_parts};
    CUSHIM_TRY(cushim_kernel_call_launch(call, REDUCE_ARGMAX_PARTS, &parts, params_of_parts));
    return cushim_kernel_call_launch(call, REDUCE_ARGMAX_LAST, &last, params_of_last);
}

/*
 * One block does little work, one cluster more, if there are clusters; all of the device does the
 * rest, if there is scratch.
 */
static enum cushim_status launch(const struct cushim_kernel_call *call, struct argmax *a,
                                 void *scratch, bool has_scratch) {
    unsigned n_cluster = 1;
    if (a->n > BLOCK_MOST)
        CUSHIM_TRY(reduce_find_cluster(call, REDUCE_ARGMAX_CLUSTER, &n_cluster));
    return has_scratch && (n_cluster == 1 || a->n > CLUSTER_MOST)
               ? launch_parts(call, a, scratch)
               : launch_alone(call, a, n_cluster);
}

static enum cushim_status run(const char *what, struct argmax a, void *scratch,
                              size_t scratch_bytes, struct CUstream_st *stream) {
    struct cushim_kernel_call call;
    int64_t n;
    bool has_scratch;
    CUSHIM_TRY(cushim_check_size(what, "n", a.n));
    CUSHIM_TRY(cushim_check_count(what, "x", &a.n, 1, sizeof(float), &n));
    if (a.is_narrow && a.n > INT32_MAX)
        return cushim_fail(what, CUSHIM_INVALID, "n=%lld is more than an int32_t can count",
                           (long long)a.n);
    if (n == 0)
        return CUSHIM_OK;
    CUSHIM_TRY(cushim_check_pointer(what, "x", a.x, sizeof(float)));
    CUSHIM_TRY(cushim_check_pointer(what, "index", a.index,
                                    a.is_narrow ? sizeof(int32_t) : sizeof(int64_t)));
    CUSHIM_TRY(reduce_check_scratch(what, scratch, scratch_bytes, cushim_argmax_f32_scratch(a.n),
                                    &has_scratch));
    CUSHIM_TRY(cushim_kernel_call_begin(&call, what, &cushim_family_reduce, stream));
    if (call.is_cpu)
        return cushim_kernel_call_reference(&call, run_reference, &a, sizeof a);
    return launch(&call, &a, scratch, has_scratch);
}

size_t cushim_argmax_f32_scratch(int64_t n) {
    return n <= 0 ? 0 : (size_t)most_parts_of(n) * REDUCE_ARGMAX_WORDS * sizeof(uint32_t);
}

enum cushim_status cushim_argmax_f32(const float *x, int64_t *index, int64_t n, void *scratch,
                                     size_t scratch_bytes, struct CUstream_st *stream) {
    return run(__func__, (struct argmax){x, index, 0, n}, scratch, scratch_bytes, stream);
}

enum cushim_status cushim_variant_argmax_f32_i32(const float *x, int32_t *index, int64_t n,
                                                 void *scratch, size_t scratch_bytes,
                                                 struct CUstream_st *stream) {
    return run(__func__, (struct argmax){x, index, 1, n}, scratch, scratch_bytes, stream);
}
