/* Contexts, pointers, mapped memory, memory of other processes. */
#define CUDA_ENABLE_DEPRECATED /* cuCtxAttach, cuCtxDetach */
#include "fixture.h"
#include "tests/unit/suite.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

TEST(contexts_stack_and_end) {
    CUcontext a, b, top;
    CUdeviceptr address;
    ck_cuda(cuInit(0));
    ck_cuda(cuCtxCreate(&a, NULL, 0, 0));
    ck_cuda(cuCtxCreate(&b, NULL, 0, 0));
    ck_cuda(cuCtxGetCurrent(&top));
    ck_assert_ptr_eq(top, b);
    fixture_alloc(100);
    ck_cuda(cuCtxDestroy(b));
    ck_assert_uint_eq(sim_live_allocations(), 0);
    ck_cuda(cuCtxGetCurrent(&top));
    ck_assert_ptr_eq(top, a);
    ck_cuda_is(cuCtxPushCurrent(b), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    ck_cuda(cuCtxPushCurrent(a));
    ck_cuda(cuCtxDestroy(a));
    ck_cuda_is(cuMemAlloc(&address, 1), CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

TEST(a_context_ends_with_its_last_use) {
    CUcontext a, same, other;
    ck_cuda(cuInit(0));
    ck_cuda_is(cuCtxAttach(&same, 0), CUDA_ERROR_INVALID_CONTEXT);
    ck_cuda(cuCtxCreate(&a, NULL, 0, 0));
    ck_cuda_is(cuCtxAttach(&same, 1), CUDA_ERROR_INVALID_VALUE);
    ck_cuda(cuCtxAttach(&same, 0));
    ck_assert_ptr_eq(same, a);
    CUdeviceptr address = fixture_alloc(100);
    ck_cuda(cuCtxCreate(&other, NULL, 0, 0));
    ck_cuda_is(cuCtxDetach(a), CUDA_ERROR_INVALID_CONTEXT);
    ck_cuda(cuCtxDetach(other));
    ck_cuda(cuCtxDetach(a));
    ck_cuda(cuMemsetD8(address, 1, 100));
    ck_cuda(cuCtxDetach(a));
    ck_assert_uint_eq(sim_live_allocations(), 0);
    ck_cuda_is(cuCtxDetach(a), CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

TEST(a_reset_ends_memory_and_streams_and_the_handle_can_be_revived) {
    CUcontext again;
    int is_active;
    unsigned flags;
    CUdeviceptr b;
    CUcontext context = fixture_context();
    CUdeviceptr a = fixture_alloc(100);
    CUstream stream = fixture_stream(0);
    ck_cuda(cuDevicePrimaryCtxGetState(0, &flags, &is_active));
    ck_assert_int_eq(is_active, 1);
    ck_cuda(cuDevicePrimaryCtxReset(0));
    ck_cuda(cuDevicePrimaryCtxGetState(0, &flags, &is_active));
    ck_assert_int_eq(is_active, 0);
    ck_cuda_is(cuMemAlloc(&b, 1), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    ck_cuda(cuDevicePrimaryCtxRetain(&again, 0));
    ck_assert_ptr_eq(context, again);
    ck_cuda_is(cuStreamQuery(stream), CUDA_ERROR_INVALID_HANDLE);
    ck_cuda_is(cuMemFree(a), CUDA_ERROR_INVALID_VALUE);
    ck_assert_uint_eq(fixture_alloc(1), a);
    ck_cuda(cuDevicePrimaryCtxRelease(0));
    ck_cuda_is(cuDevicePrimaryCtxRelease(0), CUDA_ERROR_INVALID_CONTEXT);
}

TEST(pointers_are_known_until_they_are_freed) {
    CUcontext context = fixture_context(), found;
    unsigned type = 99;
    CUdeviceptr start;
    size_t n_bytes;
    int device = 99;
    CUdeviceptr a = fixture_alloc(1000);
    ck_cuda(cuPointerGetAttribute(&found, CU_POINTER_ATTRIBUTE_CONTEXT, a + 10));
    ck_assert_ptr_eq(found, context);
    ck_cuda(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, a));
    ck_assert_uint_eq(type, CU_MEMORYTYPE_DEVICE);
    ck_cuda(cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, a + 10));
    ck_cuda(cuPointerGetAttribute(&n_bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, a + 10));
    ck_assert_uint_eq(start, a);
    ck_assert_uint_eq(n_bytes, 1000);
    ck_cuda_is(cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_HOST_POINTER, a),
               CUDA_ERROR_INVALID_VALUE);
    ck_cuda(cuMemFree(a));
    ck_cuda_is(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, a),
               CUDA_ERROR_INVALID_VALUE);
    CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    void *data[] = {&type, &device};
    ck_cuda(cuPointerGetAttributes(2, attributes, data, a));
    ck_assert_uint_eq(type, 0);
    ck_assert_int_eq(device, CU_DEVICE_INVALID);
}

TEST(mapped_memory_is_accessible_once_access_is_set) {
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemAccessDesc access = {.location = prop.location,
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUdeviceptr a;
    size_t page, n_free, n_total, n_before;
    fixture_context();
    ck_cuda(cuMemGetInfo(&n_before, &n_total));
    ck_cuda(cuMemGetAllocationGranularity(&page, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    ck_cuda_is(cuMemCreate(&handle, page + 1, &prop, 0), CUDA_ERROR_INVALID_VALUE);
    ck_cuda(cuMemCreate(&handle, page, &prop, 0));
    ck_cuda(cuMemAddressReserve(&a, 2 * page, 0, 0, 0));
    ck_cuda(cuMemMap(a + page, page, 0, handle, 0));
    ck_cuda(cuMemSetAccess(a + page, page, &access, 1));
    ck_cuda(cuMemsetD8(a + page, 5, page));
    ck_cuda_is(cuMemsetD8(a, 5, page), CUDA_ERROR_INVALID_VALUE);
    ck_cuda(cuMemRelease(handle));
    ck_cuda(cuMemGetInfo(&n_free, &n_total));
    ck_assert_uint_eq(n_before - n_free, page);
    ck_cuda(cuCtxSynchronize());
    ck_assert_int_eq(*(char *)(uintptr_t)(a + page), 5);
    ck_cuda_is(cuMemFree(a + page), CUDA_ERROR_INVALID_VALUE);
    ck_cuda_is(cuMemAddressFree(a, 2 * page), CUDA_ERROR_INVALID_VALUE);
    ck_cuda(cuMemUnmap(a + page, page));
    ck_cuda(cuMemAddressFree(a, 2 * page));
    ck_cuda(cuMemGetInfo(&n_free, &n_total));
    ck_assert_uint_eq(n_before, n_free);
}

TEST(mapped_memory_of_the_host_is_the_hosts_until_it_runs_out) {
    enum { PAGE = 2 << 20 };
    CUmemGenericAllocationHandle handle, more;
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_HOST_NUMA, .id = 0}};
    CUdeviceptr a;
    unsigned type;
    size_t n_free, n_total, n_before;
    setenv("CUSHIM_SIM_HOST_MEMORY", "6M", 1);
    setenv("CUSHIM_SIM_UNREACHABLE", "3", 1); /* which is about devices */
    fixture_context();
    ck_cuda(cuMemGetInfo(&n_before, &n_total));
    ck_cuda(cuMemCreate(&handle, 2 * PAGE, &prop, 0));
    ck_cuda_is(cuMemCreate(&more, 2 * PAGE, &prop, 0), CUDA_ERROR_OUT_OF_MEMORY);
    ck_assert_uint_eq(sim_used_bytes(SIM_OF_HOST), 2 * PAGE);
    ck_cuda(cuMemGetInfo(&n_free, &n_total));
    ck_assert_uint_eq(n_before, n_free);
    ck_cuda(cuMemAddressReserve(&a, 2 * PAGE, 0, 0, 0));
    ck_cuda(cuMemMap(a, 2 * PAGE, 0, handle, 0));
    ck_cuda_is(cuMemsetD8(a, 5, PAGE), CUDA_ERROR_INVALID_VALUE);
    for (int device = 0; device < 2; device++) {
        CUmemAccessDesc access = {.location = {CU_MEM_LOCATION_TYPE_DEVICE, device},
                                  .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
        ck_cuda(cuMemSetAccess(a, 2 * PAGE, &access, 1));
    }
    ck_cuda(cuMemsetD8(a, 5, PAGE));
    ck_cuda(cuCtxSynchronize());
    ck_cuda(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, a));
    ck_assert_uint_eq(type, CU_MEMORYTYPE_HOST);
    ck_cuda(cuMemUnmap(a, 2 * PAGE));
    ck_cuda(cuMemRelease(handle));
    ck_assert_uint_eq(sim_used_bytes(SIM_OF_HOST), 0);
    prop.location.id = 1;
    ck_cuda_is(cuMemCreate(&handle, PAGE, &prop, 0), CUDA_ERROR_INVALID_VALUE);
}

TEST(reservations_take_the_lowest_gap_that_fits) {
    enum { N = 100 }; /* more than the initial capacity of their list */
    CUdeviceptr at[N], again, wide, wrong;
    size_t page;
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    fixture_context();
    ck_cuda(cuMemGetAllocationGranularity(&page, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    for (int i = 0; i < N; i++)
        ck_cuda(cuMemAddressReserve(&at[i], page, 0, 0, 0));
    for (int i = 1; i < N; i++)
        ck_assert_uint_eq(at[i], at[i - 1] + page);
    wrong = at[50];
    ck_cuda_is(cuMemAddressFree(wrong, 2 * page), CUDA_ERROR_INVALID_VALUE);
    ck_cuda_is(cuMemAddressFree(wrong + page / 2, page), CUDA_ERROR_INVALID_VALUE);
    for (int i = 0; i < N; i += i == 20 ? 1 : 20) /* 0, 20, 21, 41, 61, 81 */
        ck_cuda(cuMemAddressFree(at[i], page));
    ck_cuda_is(cuMemAddressFree(at[20], page), CUDA_ERROR_INVALID_VALUE);
    ck_cuda(cuMemAddressReserve(&wide, 2 * page, 0, 0, 0)); /* the gap of one page is passed over */
    ck_assert_uint_eq(wide, at[20]);
    ck_cuda(cuMemAddressReserve(&again, page, 0, 0, 0));
    ck_assert_uint_eq(again, at[0]);
    ck_cuda(cuMemAddressReserve(&again, page, 0, at[61], 0)); /* at the requested address */
    ck_assert_uint_eq(again, at[61]);
    ck_cuda(cuMemAddressFree(wide, 2 * page));
    ck_cuda(cuMemAddressFree(at[99], page));
}

/* A set, copies and a kernel of the current context. */
static void check_reach(CUdeviceptr mapped, CUdeviceptr other, CUresult answer) {
    int *target = (int *)(uintptr_t)mapped, value = 7, read = 0;
    CUstream stream = fixture_stream(0);
    ck_cuda_is(cuMemsetD8Async(mapped, 1, 100, stream), answer);
    ck_cuda_is(cuMemcpy(mapped, (CUdeviceptr)(uintptr_t)&value, sizeof value), answer);
    ck_cuda_is(cuMemcpyDtoDAsync(other, mapped, sizeof value, stream), answer);
    ck_cuda_is(cuMemcpyDtoH(&read, mapped, sizeof read), answer);
    ck_cuda_is(cuStreamWriteValue32(stream, mapped, 3, 0), answer);
    void *params[] = {&target, &value};
    ck_cuda_is(cuLaunchKernel(fixture_kernel("store"), 1, 1, 1, 1, 1, 1, 0, stream, params, NULL),
               answer);
    ck_cuda(cuStreamSynchronize(stream));
    ck_assert_int_eq(read, answer == CUDA_SUCCESS ? value : 0);
}

static CUresult let_in(CUdeviceptr mapped, size_t n_bytes, int device) {
    CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    return cuMemSetAccess(mapped, n_bytes, &access, 1);
}

/* A page of device 0 that only device 0 may access, and memory of device 1, in `contexts`. */
static CUdeviceptr map_page(CUcontext contexts[2], size_t *page, CUdeviceptr *other) {
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUdeviceptr mapped;
    contexts[0] = fixture_context();
    ck_cuda(cuMemGetAllocationGranularity(page, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    ck_cuda(cuMemCreate(&handle, *page, &prop, 0));
    ck_cuda(cuMemAddressReserve(&mapped, *page, 0, 0, 0));
    ck_cuda(cuMemMap(mapped, *page, 0, handle, 0));
    ck_cuda(cuDevicePrimaryCtxRetain(&contexts[1], 1));
    ck_cuda(cuCtxSetCurrent(contexts[1]));
    *other = fixture_alloc(100);
    ck_cuda(cuCtxSetCurrent(contexts[0]));
    return mapped;
}

TEST(mapped_memory_is_accessible_to_the_devices_that_have_access) {
    CUcontext contexts[2];
    CUdeviceptr other;
    unsigned long long flags;
    size_t page;
    const CUmemLocation peer = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1};
    CUdeviceptr mapped = map_page(contexts, &page, &other);
    check_reach(mapped, other, CUDA_ERROR_INVALID_VALUE);
    ck_cuda(let_in(mapped, page, 0));
    check_reach(mapped, other, CUDA_SUCCESS);
    ck_cuda(cuCtxSetCurrent(contexts[1]));
    check_reach(mapped, other, CUDA_ERROR_INVALID_VALUE);
    /* each end from its own device */
    ck_cuda(cuMemcpyPeer(other, contexts[1], mapped, contexts[0], 100));
    ck_cuda_is(cuMemcpyPeer(other, contexts[1], mapped, contexts[1], 100),
               CUDA_ERROR_INVALID_VALUE);
    ck_cuda(cuMemGetAccess(&flags, &peer, mapped));
    ck_assert_uint_eq(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
    ck_cuda(let_in(mapped, page, 1));
    check_reach(mapped, other, CUDA_SUCCESS);
    ck_cuda(cuMemGetAccess(&flags, &peer, mapped));
    ck_assert_uint_eq(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    ck_cuda(cuCtxSetCurrent(contexts[0]));
    check_reach(mapped, other, CUDA_SUCCESS); /* earlier access stays */
}

TEST(a_device_that_cannot_reach_another_gets_no_access) {
    CUcontext contexts[2];
    CUdeviceptr other;
    size_t page;
    int reaches;
    setenv("CUSHIM_SIM_UNREACHABLE", "1", 1); /* device 0 */
    CUdeviceptr mapped = map_page(contexts, &page, &other);
    ck_cuda(cuDeviceCanAccessPeer(&reaches, 0, 1));
    ck_assert_int_eq(reaches, 1);
    ck_cuda(cuDeviceCanAccessPeer(&reaches, 1, 0));
    ck_assert_int_eq(reaches, 0);
    ck_cuda(let_in(mapped, page, 0));
    ck_cuda_is(let_in(mapped, page, 1), CUDA_ERROR_INVALID_DEVICE);
    ck_cuda(cuCtxEnablePeerAccess(contexts[1], 0));
    CUdeviceptr plain = fixture_alloc(100);
    ck_cuda(cuCtxSetCurrent(contexts[1]));
    ck_cuda_is(cuCtxEnablePeerAccess(contexts[0], 0), CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
    ck_cuda(cuMemsetD8(plain, 5, 100)); /* unmapped addresses are free again */
}

TEST(internal_memory_accepts_sets_and_is_unknown_to_queries) {
    unsigned type = 99;
    char host[100] = {7};
    setenv("CUSHIM_SIM_INTERNAL", "4M", 1);
    CUcontext context = fixture_context();
    CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
    void *data = &type;
    CUdeviceptr small = fixture_alloc(100), large = fixture_alloc(3 * MIB),
                larger = fixture_alloc(8 * MIB);
    for (int i = 0; i < 2; i++) { /* internal memory is reused as internal memory */
        ck_cuda(cuDevicePrimaryCtxReset(0));
        ck_cuda(cuDevicePrimaryCtxRetain(&context, 0));
        ck_cuda(cuCtxSetCurrent(context));
        ck_cuda(cuMemsetD8(large, 1, 100));
        ck_cuda(cuMemcpyHtoD(large + 2 * MIB, host, sizeof host));
        ck_cuda(cuMemcpyDtoH(host, large, sizeof host));
        ck_assert_int_eq(host[0], 7); /* copies of internal memory move no bytes */
        ck_cuda_is(cuMemFree(large), CUDA_ERROR_INVALID_VALUE);
        ck_cuda_is(cuPointerGetAttribute(&type, attribute, large), CUDA_ERROR_INVALID_VALUE);
        ck_cuda(cuPointerGetAttributes(1, &attribute, &data, large));
        ck_assert_uint_eq(type, 0);
        ck_cuda_is(cuMemGetAddressRange(NULL, NULL, large), CUDA_ERROR_NOT_FOUND);
        ck_cuda_is(cuMemsetD8(small, 1, 100), CUDA_ERROR_INVALID_VALUE);
        ck_cuda_is(cuMemsetD8(larger, 1, 100), CUDA_ERROR_INVALID_VALUE); /* the device has 4 MiB */
        ck_assert_uint_eq(sim_live_allocations(), 0);
    }
    CUdeviceptr fresh = fixture_alloc(8 * MIB); /* the program's memory never overlaps it */
    ck_assert(fresh >= large + 4 * MIB || fresh + 8 * MIB <= large);
}

/* Runs in a process that was forked before CUDA was initialised. */
static int read_shared(int from, int to) {
    CUipcMemHandle handle;
    CUdeviceptr a, again;
    char marked[sizeof handle];
    if (read(from, &handle, sizeof handle) != sizeof handle)
        return 1;
    fixture_context();
    memcpy(marked, &handle, sizeof marked);
    marked[28]++;
    CUipcMemHandle farther;
    memcpy(&farther, marked, sizeof farther);
    if (cuIpcOpenMemHandle(&a, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) != CUDA_SUCCESS)
        return 2;
    if (cuIpcOpenMemHandle(&again, farther, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) !=
        CUDA_ERROR_ALREADY_MAPPED)
        return 3;
    if (cuIpcOpenMemHandle(&again, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) != CUDA_SUCCESS ||
        again != a)
        return 4;
    if (*(char *)(uintptr_t)a != 11 || cuMemsetD8(a, 12, 1) || cuCtxSynchronize())
        return 5;
    if (cuIpcCloseMemHandle(a) || cuIpcCloseMemHandle(a) || !cuIpcCloseMemHandle(a))
        return 6;
    if (cuIpcOpenMemHandle(&a, farther, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) != CUDA_SUCCESS ||
        cuIpcCloseMemHandle(a))
        return 8; /* an open at a free address keeps the address */
    marked[20]++;
    memcpy(&farther, marked, sizeof farther);
    if (cuIpcOpenMemHandle(&a, farther, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) == CUDA_SUCCESS)
        return 9;
    return write(to, "", 1) == 1 ? 0 : 7;
}

TEST(another_process_opens_a_block_by_its_handle) {
    int there[2], back[2], status;
    char byte;
    CUipcMemHandle handle, inner, neighbour;
    ck_assert(pipe(there) == 0 && pipe(back) == 0);
    pid_t pid = fork();
    if (pid == 0)
        _exit(read_shared(there[0], back[1]));
    fixture_context();
    CUdeviceptr a = fixture_alloc(512), b = fixture_alloc(4096);
    ck_cuda(cuMemsetD8(b, 11, 4096));
    ck_cuda(cuCtxSynchronize());
    ck_cuda(cuIpcGetMemHandle(&handle, b));
    ck_cuda(cuIpcGetMemHandle(&inner, b + 100));
    ck_assert_mem_eq(&handle, &inner, sizeof handle);
    ck_cuda(cuIpcGetMemHandle(&neighbour, a));
    ck_assert_int_eq(handle.reserved[28] | handle.reserved[29] << 8, 512);
    ck_assert_int_eq(write(there[1], &handle, sizeof handle), sizeof handle);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(WEXITSTATUS(status), 0);
    ck_assert_int_eq(read(back[0], &byte, 1), 1);
    ck_assert_int_eq(*(char *)(uintptr_t)b, 12);
    ck_cuda_is(cuIpcOpenMemHandle(&a, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
               CUDA_ERROR_INVALID_CONTEXT);
}

/* Otherwise each new context would cost more than the one before. */
TEST(a_walk_over_all_contexts_sees_no_dead_one) {
    CUdevResourceDesc part;
    CUdevResource all;
    CUgreenCtx green[2];
    CUcontext context;
    CUstream stream;
    ck_cuda(cuInit(0));
    for (int i = 0; i < 3; i++) {
        ck_cuda(cuCtxCreate(&context, NULL, 0, 0));
        ck_cuda(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
        ck_cuda(cuMemsetD8Async(fixture_alloc(100), 1, 100, stream));
        ck_assert_uint_eq(sim_listed_contexts(), 1);
        ck_cuda(cuCtxDestroy(context));
        ck_assert_uint_eq(sim_listed_contexts(), 0);
        ck_cuda(cuDevicePrimaryCtxRetain(&context, 0));
        ck_cuda(cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM));
        ck_cuda(cuDevResourceGenerateDesc(&part, &all, 1));
        for (int k = 0; k < 2; k++)
            ck_cuda(cuGreenCtxCreate(&green[k], part, 0, CU_GREEN_CTX_DEFAULT_STREAM));
        ck_assert_uint_eq(sim_listed_contexts(), 3);
        ck_cuda(cuGreenCtxDestroy(green[0]));
        ck_assert_uint_eq(sim_listed_contexts(), 2);
        ck_cuda(cuDevicePrimaryCtxRelease(0));
        ck_assert_uint_eq(sim_listed_contexts(), 0);
    }
}

SUITE() {
    return tests_run("sim context");
}
