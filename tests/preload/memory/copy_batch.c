/*
 * Staged copies of a batch (docs/internals/interposition.md, C15): all copies are staged or none,
 * and the answer is the driver's.
 */
#define __CUDA_API_VERSION_INTERNAL /* every name is its own, none is an alias */
#include "tests/preload/fixture/fixture.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* It is built twice. */
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
#define SZ(abi) abi##_ptsz
#else
#define SZ(abi) abi
#endif

enum { LEAST = 64 * KIB, N_BYTES = 3 * LEAST, N_COPIES = 3, PAGE = 4096 };

/* Only a staged copy waits for events. */
static unsigned long n_staged_waits(void) {
    return sim_calls("cuEventSynchronize");
}

static bool is_staging(void) {
    cpu_set_t set;
    return fixture_is_preloaded() && sched_getaffinity(0, sizeof set, &set) == 0 &&
           CPU_COUNT(&set) > 1;
}

/* Two copies up and one down, each between its own two places. */
struct batch {
    CUdeviceptr to[N_COPIES], from[N_COPIES], device;
    size_t sizes[N_COPIES], first[2], n_attributes, failed;
    CUmemcpyAttributes attributes[2];
    unsigned char *host;
    CUstream stream;
};

static CUdeviceptr address_of(const void *host) {
    return (CUdeviceptr)(uintptr_t)host;
}

static struct batch prepare(void) {
    struct batch batch = {.n_attributes = 1, .first = {0, 1}, .failed = 77};
    fixture_use_device(0);
    batch.device = fixture_alloc(N_COPIES * N_BYTES);
    batch.host = malloc((size_t)N_COPIES * N_BYTES);
    batch.stream = fixture_stream();
    fixture_fill(batch.device, 9, N_COPIES * N_BYTES);
    OK(cuCtxSynchronize());
    for (int i = 0; i < N_COPIES; i++) {
        CUdeviceptr host = address_of(batch.host + i * N_BYTES),
                    device = batch.device + i * N_BYTES;
        memset(batch.host + i * N_BYTES, i + 1, N_BYTES);
        batch.to[i] = i < 2 ? device : host;
        batch.from[i] = i < 2 ? host : device;
        batch.sizes[i] = N_BYTES;
    }
    for (int i = 0; i < 2; i++)
        batch.attributes[i].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    return batch;
}

static CUresult copy_lines_v1(struct batch *batch) {
    return SZ(cuMemcpyBatchAsync)(batch->to, batch->from, batch->sizes, N_COPIES, batch->attributes,
                                  batch->first, batch->n_attributes, &batch->failed, batch->stream);
}

static CUresult copy_lines(struct batch *batch) {
    return SZ(cuMemcpyBatchAsync_v2)(batch->to, batch->from, batch->sizes, N_COPIES,
                                     batch->attributes, batch->first, batch->n_attributes,
                                     batch->stream);
}

/* Four rows each, which lie without gaps. */
static void shape(const struct batch *batch, CUDA_MEMCPY3D_BATCH_OP *ops) {
    memset(ops, 0, N_COPIES * sizeof *ops);
    for (int i = 0; i < N_COPIES; i++) {
        ops[i].src.type = ops[i].dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
        ops[i].src.op.ptr.ptr = batch->from[i];
        ops[i].dst.op.ptr.ptr = batch->to[i];
        ops[i].extent = (CUextent3D){batch->sizes[i] / 4, 2, 2};
        ops[i].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    }
}

static CUresult copy_boxes_v1(struct batch *batch) {
    CUDA_MEMCPY3D_BATCH_OP ops[N_COPIES];
    shape(batch, ops);
    return SZ(cuMemcpy3DBatchAsync)(N_COPIES, ops, &batch->failed, 0, batch->stream);
}

static CUresult copy_boxes(struct batch *batch) {
    CUDA_MEMCPY3D_BATCH_OP ops[N_COPIES];
    shape(batch, ops);
    return SZ(cuMemcpy3DBatchAsync_v2)(N_COPIES, ops, 0, batch->stream);
}

static CUresult (*const forms[])(struct batch *) = {copy_lines_v1, copy_lines, copy_boxes_v1,
                                                    copy_boxes};
enum { N_FORMS = sizeof forms / sizeof *forms };

static void expect_moved(const struct batch *batch) {
    OK(cuStreamSynchronize(batch->stream));
    ck_assert(fixture_is_filled(batch->device, 1, N_BYTES));
    ck_assert(fixture_is_filled(batch->device + N_BYTES, 2, N_BYTES));
    const unsigned char *back = batch->host + 2 * N_BYTES;
    ck_assert(back[0] == 9 && memcmp(back, back + 1, N_BYTES - 1) == 0);
}

static void expect_native(CUresult (*copy)(struct batch *), struct batch *batch) {
    unsigned long n = n_staged_waits();
    OK(copy(batch));
    ck_assert_uint_eq(n_staged_waits(), n);
}

TEST(each_form_is_staged_and_moves_what_it_says, .n = N_FORMS) {
    static const CUmemcpySrcAccessOrder orders[] = {CU_MEMCPY_SRC_ACCESS_ORDER_STREAM,
                                                    CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL,
                                                    CU_MEMCPY_SRC_ACCESS_ORDER_ANY};
    struct batch batch = prepare();
    unsigned long n = n_staged_waits();
    batch.attributes[0].srcAccessOrder = orders[_i % 3];
    OK(forms[_i](&batch));
    ck_assert(!is_staging() || n_staged_waits() > n);
    ck_assert_uint_eq(batch.failed, 77); /* it is set if one failed */
    memset(batch.host, 0, 2 * N_BYTES);  /* the device has read them */
    expect_moved(&batch);
    free(batch.host);
}

TEST(where_each_copy_lies_is_asked_once, .n = N_FORMS) {
    struct batch batch = prepare();
    sim_calls_reset();
    OK(forms[_i](&batch));
    if (is_staging())
        ck_assert_uint_eq(sim_calls("cuMemGetAddressRange_v2"), N_COPIES);
    expect_moved(&batch);
    free(batch.host);
}

/* ---- none is staged if one cannot be ---- */

TEST(one_that_cannot_be_staged_leaves_all_to_the_driver, .n = N_FORMS) {
    struct batch batch = prepare();
    void *pinned;
    batch.sizes[1] = LEAST - 4;
    expect_native(forms[_i], &batch);
    batch.sizes[1] = N_BYTES;
    OK(cuMemHostAlloc(&pinned, N_BYTES, 0));
    batch.from[1] = address_of(pinned);
    expect_native(forms[_i], &batch);
    batch.from[1] = batch.device + 2 * N_BYTES;
    expect_native(forms[_i], &batch);
    batch.from[1] = address_of(batch.host + N_BYTES);
    OK(forms[_i](&batch));
    expect_moved(&batch);
    free(batch.host);
}

TEST(attributes_that_may_be_refused_are_the_drivers_to_judge) {
    struct batch batch = prepare();
    batch.n_attributes = 2;
    expect_native(copy_lines, &batch);
    batch.n_attributes = 1;
    batch.attributes[0].flags = CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE;
    expect_native(copy_lines, &batch);
    batch.attributes[0].flags = 0;
    batch.attributes[0].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_INVALID;
    expect_native(copy_lines, &batch);
    batch.attributes[0].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    batch.attributes[0].srcLocHint.type = CU_MEM_LOCATION_TYPE_DEVICE;
    expect_native(copy_lines, &batch);
    batch.attributes[0].srcLocHint.type = CU_MEM_LOCATION_TYPE_INVALID;
    batch.attributes[0].dstLocHint.type = CU_MEM_LOCATION_TYPE_DEVICE;
    expect_native(copy_lines, &batch);
    batch.attributes[0].dstLocHint.type = CU_MEM_LOCATION_TYPE_INVALID;
    batch.first[0] = 1;
    expect_native(copy_lines, &batch);
    OK(cuStreamSynchronize(batch.stream));
    batch.first[0] = 0;
    unsigned long n = n_staged_waits();
    OK(copy_lines(&batch));
    ck_assert(!is_staging() || n_staged_waits() > n);
    expect_moved(&batch);
    free(batch.host);
}

TEST(what_boxes_are_told_and_may_be_refused_for_is_the_drivers_to_judge) {
    struct batch batch = prepare();
    CUDA_MEMCPY3D_BATCH_OP ops[N_COPIES];
    unsigned long n = n_staged_waits();
    shape(&batch, ops);
    OK(SZ(cuMemcpy3DBatchAsync_v2)(N_COPIES, ops, 1, batch.stream));
    ops[1].flags = CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE;
    OK(SZ(cuMemcpy3DBatchAsync_v2)(N_COPIES, ops, 0, batch.stream));
    ops[1].flags = 0;
    ops[2].dst.op.ptr.locHint.type = CU_MEM_LOCATION_TYPE_DEVICE;
    OK(SZ(cuMemcpy3DBatchAsync_v2)(N_COPIES, ops, 0, batch.stream));
    ops[2].dst.op.ptr.locHint.type = CU_MEM_LOCATION_TYPE_INVALID;
    ops[0].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_INVALID;
    OK(SZ(cuMemcpy3DBatchAsync_v2)(N_COPIES, ops, 0, batch.stream));
    ops[0].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    ops[0].src.op.ptr.rowLength = ops[0].extent.width - 4;
    ANSWERS(SZ(cuMemcpy3DBatchAsync_v2)(N_COPIES, ops, 0, batch.stream), CUDA_ERROR_INVALID_VALUE);
    ck_assert_uint_eq(n_staged_waits(), n);
    free(batch.host);
}

/* ---- order ---- */

TEST(a_batch_waits_for_nobody, .n = N_FORMS) {
    struct batch batch = prepare();
    sim_hold();
    for (int i = 0; i < N_COPIES; i++)
        fixture_launch_write(batch.device + i * N_BYTES, 0x09090909, batch.stream);
    batch.to[2] = batch.device + 2 * N_BYTES; /* the driver waits for a copy down */
    batch.from[2] = address_of(batch.host + 2 * N_BYTES);
    expect_native(forms[_i], &batch);
    sim_release_hold();
    OK(cuStreamSynchronize(batch.stream));
    for (int i = 0; i < N_COPIES; i++)
        ck_assert(fixture_is_filled(batch.device + i * N_BYTES, (unsigned char)(i + 1), N_BYTES));
    free(batch.host);
}

TEST(the_legacy_stream_and_one_that_went_are_refused_as_natively, .n = N_FORMS) {
    struct batch batch = prepare();
    CUstream stream = batch.stream;
    unsigned long n = n_staged_waits();
    batch.stream = CU_STREAM_LEGACY;
    ANSWERS(forms[_i](&batch), CUDA_ERROR_INVALID_VALUE);
#ifndef CUDA_API_PER_THREAD_DEFAULT_STREAM
    batch.stream = NULL;
    ANSWERS(forms[_i](&batch), CUDA_ERROR_INVALID_VALUE);
#endif
    batch.stream = stream;
    OK(cuStreamDestroy_v2(stream));
    ck_assert_int_ne(forms[_i](&batch), CUDA_SUCCESS);
    ck_assert_uint_eq(n_staged_waits(), n);
    ck_assert(fixture_is_filled(batch.device, 9, N_COPIES * N_BYTES));
    free(batch.host);
}

TEST(while_a_capture_is_open_the_driver_copies, .n = N_FORMS) {
    struct batch batch = prepare();
    CUstream other = fixture_stream();
    CUgraph graph;
    OK(cuStreamBeginCapture_v2(other, CU_STREAM_CAPTURE_MODE_RELAXED));
    expect_native(forms[_i], &batch);
    OK(cuStreamEndCapture(other, &graph));
    OK(cuGraphDestroy(graph));
    expect_moved(&batch);
    free(batch.host);
}

/* ---- answers ---- */

TEST(one_that_leaves_its_block_refuses_all_before_a_byte_moves, .n = N_FORMS) {
    struct batch batch = prepare();
    unsigned long n = n_staged_waits();
    batch.to[1] = batch.device + N_COPIES * N_BYTES - LEAST;
    ANSWERS(forms[_i](&batch), CUDA_ERROR_INVALID_VALUE);
    ck_assert_uint_eq(n_staged_waits(), n);
    if (fixture_is_preloaded()) /* the software device queues those before it */
        ck_assert(fixture_is_filled(batch.device, 9, N_COPIES * N_BYTES));
    OK(cuStreamSynchronize(batch.stream));
    free(batch.host);
}

TEST(a_batch_is_whole_whichever_driver_call_fails, .n = N_FORMS) {
    struct batch batch = prepare();
    bool has_failed = true;
    setenv("CUSHIM_COPY_THREADS", "0", 1); /* so that only one thread makes the n-th call */
    for (unsigned long n = 1; has_failed; n++) {
        fixture_fill(batch.device, 9, N_COPIES * N_BYTES);
        OK(cuCtxSynchronize());
        memset(batch.host + 2 * N_BYTES, 3, N_BYTES);
        sim_fail_at(n, CUDA_ERROR_UNKNOWN);
        CUresult answer = forms[_i](&batch);
        has_failed = sim_has_failed();
        sim_fail_at(0, CUDA_SUCCESS);
        if (answer != CUDA_SUCCESS) {
            ck_assert(has_failed);
            ANSWERS(answer, CUDA_ERROR_UNKNOWN);
            OK(forms[_i](&batch));
        }
        expect_moved(&batch);
    }
    free(batch.host);
}

/* Each runs in its own child, because the driver faults without cushim. */
static bool is_refused_or_faults(int form) {
    int status;
    pid_t child = fork();
    if (child == 0) {
        struct batch batch = prepare();
        signal(SIGSEGV, SIG_DFL); /* a sanitizer has its own */
        unsigned char *pages =
            mmap(NULL, N_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        batch.from[1] = address_of(pages);
        if (pages == MAP_FAILED || mprotect(pages + LEAST, PAGE, PROT_NONE) != 0)
            _exit(0);
        _exit(forms[form](&batch) == CUDA_SUCCESS ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) || WEXITSTATUS(status) == 1;
}

TEST(host_memory_that_is_not_there_is_the_drivers_to_answer, .n = N_FORMS) {
    ck_assert(is_refused_or_faults(_i));
}

int main(void) {
    char least[16];
    snprintf(least, sizeof least, "%d", LEAST);
    setenv("CUSHIM_COPY_STAGE", "on", 0);
    setenv("CUSHIM_COPY_STAGE_MIN", least, 0);
    setenv("CUSHIM_COPY_RING", "1M", 0);
    return fixture_run("memory/copy_batch");
}
