/*
 * Staged copies (docs/internals/interposition.md, C15): which ends they may have, and the answers
 * for other ends.  Everything else is in copy_stage.c.
 */
#include "tests/preload/fixture/fixture.h"

#include <sched.h>
#include <stdint.h>
#include <stdio.h>

enum { LEAST = 64 * KIB, N_BYTES = 3 * LEAST, PAGE = 4096 };

/* Only a staged copy waits for events, so if this did not grow, the driver's own call copied. */
static unsigned long n_staged_waits(void) {
    return sim_calls("cuEventSynchronize");
}

static void expect_answer(CUresult answer, CUresult expected, unsigned long n_before) {
    ANSWERS(answer, expected);
    ck_assert_uint_eq(n_staged_waits(), n_before);
}

static void expect_native(CUresult answer, unsigned long n_before) {
    expect_answer(answer, CUDA_SUCCESS, n_before);
}

/* With only one processor nothing is staged. */
static void expect_staged(CUresult answer, unsigned long n_before) {
    cpu_set_t set;
    OK(answer);
    bool may_be = fixture_is_preloaded() && sched_getaffinity(0, sizeof set, &set) == 0 &&
                  CPU_COUNT(&set) > 1;
    ck_assert(!may_be || n_staged_waits() > n_before);
}

static CUdeviceptr address_of(const void *host) {
    return (CUdeviceptr)(uintptr_t)host;
}

/* ---- what an end is ---- */

TEST(what_is_small_pinned_mapped_registered_or_managed_is_left_alone) {
    fixture_use_device(0);
    CUdeviceptr device = fixture_alloc(N_BYTES), managed, mapped_device;
    void *pinned, *mapped, *plain = aligned_alloc(PAGE, N_BYTES);
    unsigned long n = n_staged_waits();
    memset(plain, 1, N_BYTES);
    expect_native(cuMemcpyHtoD(device, plain, LEAST - 1), n);
    OK(cuMemHostAlloc(&pinned, N_BYTES, 0));
    expect_native(cuMemcpyHtoD(device, pinned, N_BYTES), n);
    expect_native(cuMemcpyDtoH(pinned, device, N_BYTES), n);
    OK(cuMemHostAlloc(&mapped, N_BYTES, CU_MEMHOSTALLOC_DEVICEMAP));
    OK(cuMemHostGetDevicePointer(&mapped_device, mapped, 0));
    expect_native(cuMemcpyHtoD(device, mapped, N_BYTES), n);
    OK(cuMemAllocManaged(&managed, N_BYTES, CU_MEM_ATTACH_GLOBAL));
    expect_native(cuMemcpyHtoD(managed, plain, N_BYTES), n);
    expect_native(cuMemcpyDtoH(plain, managed, N_BYTES), n);
    expect_native(cuMemcpyDtoD(device, managed, N_BYTES), n);
    OK(cuMemHostRegister(plain, N_BYTES, 0));
    expect_native(cuMemcpyHtoD(device, plain, N_BYTES), n);
    OK(cuMemHostUnregister(plain));
    for (size_t at = 0; at < N_BYTES; at += N_BYTES - PAGE) { /* only its first page, or its last */
        OK(cuMemHostRegister((char *)plain + at, PAGE, 0));
        expect_native(cuMemcpyHtoD(device, plain, N_BYTES), n);
        OK(cuMemHostUnregister((char *)plain + at));
    }
    expect_staged(cuMemcpyHtoD(device, plain, LEAST), n);
    free(plain);
}

/* The ring belongs to the wrong context, and only the driver copies between devices. */
TEST(memory_of_another_device_is_left_alone) {
    for (int is_peer = 0; is_peer < 2; is_peer++) {
        CUcontext first, second = fixture_use_device(1);
        CUdeviceptr there = fixture_alloc(N_BYTES), here;
        first = fixture_use_device(0);
        here = fixture_alloc(N_BYTES);
        if (is_peer)
            OK(cuCtxEnablePeerAccess(second, 0));
        CUstream stream = fixture_stream();
        char *host = calloc(1, N_BYTES);
        unsigned long n = n_staged_waits();
        expect_native(cuMemcpyHtoD(there, host, N_BYTES), n);
        expect_native(cuMemcpyDtoH(host, there, N_BYTES), n);
        expect_native(cuMemcpyHtoDAsync(there, host, N_BYTES, stream), n);
        expect_native(cuMemcpyDtoHAsync(host, there, N_BYTES, stream), n);
        expect_native(cuMemcpy(there, address_of(host), N_BYTES), n);
        expect_native(cuMemcpy(address_of(host), there, N_BYTES), n);
        expect_native(cuMemcpy(there, here, N_BYTES), n);
        expect_native(cuMemcpyPeer(there, second, here, first, N_BYTES), n);
        expect_native(cuMemcpyPeerAsync(here, first, there, second, N_BYTES, stream), n);
        OK(cuStreamSynchronize(stream));
        expect_staged(cuMemcpyHtoD(here, host, N_BYTES), n);
        free(host);
    }
}

TEST(ends_that_overlap_are_the_drivers_to_copy) {
    fixture_use_device(0);
    CUdeviceptr device = fixture_alloc(2 * N_BYTES);
    unsigned char *host = malloc(2 * N_BYTES);
    unsigned long n = n_staged_waits();
    for (size_t i = 0; i < 2 * N_BYTES; i++)
        host[i] = (unsigned char)(i / 251);
    expect_native(cuMemcpyDtoD(device + LEAST, device, N_BYTES), n);
    expect_native(cuMemcpy(device, device + LEAST, N_BYTES), n);
    expect_native(cuMemcpy(device, device, N_BYTES), n);
    expect_native(cuMemcpy(address_of(host), address_of(host), N_BYTES), n);
    for (size_t i = 0; i < 2 * N_BYTES; i++)
        ck_assert_int_eq(host[i], (unsigned char)(i / 251));
    free(host);
}

/* ---- rows that overlap ---- */

static CUDA_MEMCPY3D box_of(CUdeviceptr device, void *host, bool is_to_device) {
    CUDA_MEMCPY3D box = {.WidthInBytes = LEAST, .Height = 2, .Depth = 2};
    box.srcMemoryType = is_to_device ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    box.dstMemoryType = is_to_device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
    box.srcHost = box.dstHost = host;
    box.srcDevice = box.dstDevice = device;
    box.srcPitch = box.dstPitch = LEAST;
    box.srcHeight = box.dstHeight = 2;
    return box;
}

static CUDA_MEMCPY2D rows_of(CUdeviceptr device, void *host, bool is_to_device) {
    CUDA_MEMCPY2D rows = {.WidthInBytes = LEAST, .Height = 4};
    rows.srcMemoryType = is_to_device ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    rows.dstMemoryType = is_to_device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
    rows.srcHost = rows.dstHost = host;
    rows.srcDevice = rows.dstDevice = device;
    rows.srcPitch = rows.dstPitch = LEAST;
    return rows;
}

TEST(rows_that_overlap_are_refused_as_natively, .n = 2) {
    bool is_up = _i;
    fixture_use_device(0);
    CUdeviceptr device = fixture_alloc(4 * LEAST);
    void *host = calloc(4, LEAST);
    CUDA_MEMCPY2D rows = rows_of(device, host, is_up);
    CUDA_MEMCPY3D box = box_of(device, host, is_up);
    unsigned long n = n_staged_waits();
    fixture_fill(device, 9, 4 * LEAST);
    rows.srcPitch = LEAST - 4;
    expect_answer(cuMemcpy2D(&rows), CUDA_ERROR_INVALID_VALUE, n);
    rows.srcPitch = LEAST;
    rows.dstPitch = LEAST - 4;
    expect_answer(cuMemcpy2D(&rows), CUDA_ERROR_INVALID_VALUE, n);
    box.srcPitch = LEAST - 4;
    expect_answer(cuMemcpy3D(&box), CUDA_ERROR_INVALID_VALUE, n);
    box.srcPitch = LEAST;
    box.dstPitch = LEAST - 4;
    expect_answer(cuMemcpy3D(&box), CUDA_ERROR_INVALID_VALUE, n);
    box.dstPitch = LEAST;
    box.dstHeight = 1;
    expect_answer(cuMemcpy3D(&box), CUDA_ERROR_INVALID_VALUE, n);
    box.dstHeight = 2;
    box.srcHeight = 1;
    expect_answer(cuMemcpy3D(&box), CUDA_ERROR_INVALID_VALUE, n);
    ck_assert(fixture_is_filled(device, 9, 4 * LEAST));
    ck_assert_int_eq(*(char *)host, 0);
    box.srcHeight = 2;
    expect_staged(cuMemcpy3D(&box), n);
    free(host);
}

/* ---- ends that leave their allocation, or fit no size ---- */

TEST(what_leaves_its_allocation_is_refused_before_a_byte_moves) {
    fixture_use_device(0);
    size_t pitch;
    CUdeviceptr ours = fixture_alloc(2 * MIB), driver_s;
    OK(cuMemAllocPitch(&driver_s, &pitch, MIB, 2, 16));
    char *host = calloc(1, 8 * MIB);
    CUdeviceptr blocks[] = {ours, driver_s};
    for (int i = 0; i < 2; i++) {
        fixture_fill(blocks[i], 9, 2 * MIB);
        ANSWERS(cuMemcpyHtoD(blocks[i], host, 8 * MIB), CUDA_ERROR_INVALID_VALUE);
        ANSWERS(cuMemcpyDtoH(host, blocks[i], 8 * MIB), CUDA_ERROR_INVALID_VALUE);
        ck_assert(fixture_is_filled(blocks[i], 9, 2 * MIB));
        ck_assert_int_eq(host[0], 0);
    }
    free(host);
}

/* Some wrap to a size that would fit. */
TEST(sizes_that_wrap_are_refused_before_a_byte_moves, .n = 2) {
    static const size_t counts[] = {SIZE_MAX, SIZE_MAX / LEAST, SIZE_MAX / LEAST + 1,
                                    SIZE_MAX / LEAST + 2, SIZE_MAX / LEAST + 5};
    bool is_up = _i;
    fixture_use_device(0);
    CUdeviceptr device = fixture_alloc(4 * LEAST);
    char *host = calloc(4, LEAST);
    unsigned long n = n_staged_waits();
    fixture_fill(device, 9, 4 * LEAST);
    for (size_t n_bytes = SIZE_MAX; n_bytes > SIZE_MAX - 4 * LEAST; n_bytes -= LEAST - 1)
        expect_answer(is_up ? cuMemcpyHtoD(device, host, n_bytes)
                            : cuMemcpyDtoH(host, device, n_bytes),
                      CUDA_ERROR_INVALID_VALUE, n);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        CUDA_MEMCPY2D rows = rows_of(device, host, is_up);
        CUDA_MEMCPY3D box = box_of(device, host, is_up);
        rows.Height = counts[i];
        expect_answer(cuMemcpy2D(&rows), CUDA_ERROR_INVALID_VALUE, n);
        expect_answer(cuMemcpy2DAsync(&rows, NULL), CUDA_ERROR_INVALID_VALUE, n);
        box.Height = box.srcHeight = box.dstHeight = counts[i];
        expect_answer(cuMemcpy3D(&box), CUDA_ERROR_INVALID_VALUE, n);
        box = box_of(device, host, is_up);
        box.Depth = counts[i];
        expect_answer(cuMemcpy3D(&box), CUDA_ERROR_INVALID_VALUE, n);
    }
    ck_assert(fixture_is_filled(device, 9, 4 * LEAST));
    for (size_t i = 0; i < 4 * LEAST; i++)
        ck_assert_int_eq(host[i], 0);
    free(host);
}

/* ---- when memory is short ---- */

/* Each pinned block is a driver call here, because a pool would try a smaller piece first. */
TEST(the_ring_goes_back_where_memory_is_short_and_comes_again) {
    setenv("CUSHIM_PINNED", "0", 1);
    fixture_use_device(0);
    CUdeviceptr device = fixture_alloc(N_BYTES);
    char *host = calloc(1, N_BYTES);
    void *pinned;
    unsigned long n = n_staged_waits();
    expect_staged(cuMemcpyHtoD(device, host, N_BYTES), n);
    unsigned long n_given = sim_calls("cuMemFreeHost"), n_streams = sim_calls("cuStreamDestroy_v2");
    if (fixture_is_preloaded()) {
        sim_fail_at(1, CUDA_ERROR_OUT_OF_MEMORY);
        OK(cuMemHostAlloc(&pinned, 16 * MIB, 0));
        ck_assert(sim_has_failed());
        ck_assert_uint_eq(sim_calls("cuMemFreeHost"), n_given + 1);
        ck_assert_uint_gt(sim_calls("cuStreamDestroy_v2"), n_streams);
        OK(cuMemFreeHost(pinned));
    }
    memset(host, 5, N_BYTES);
    n = n_staged_waits();
    expect_staged(cuMemcpyHtoD(device, host, N_BYTES), n);
    ck_assert(fixture_is_filled(device, 5, N_BYTES));
    free(host);
}

int main(void) {
    char least[16];
    snprintf(least, sizeof least, "%d", LEAST);
    setenv("CUSHIM_COPY_STAGE", "on", 0);
    setenv("CUSHIM_COPY_STAGE_MIN", least, 0);
    setenv("CUSHIM_COPY_RING", "1M", 0);
    return fixture_run("memory/copy_place");
}
