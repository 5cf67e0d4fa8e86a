/*
 * The account of memory that no request of ours serves: of graphs, imported from other processes
 * and interfaces, and what contexts and modules take.
 */
#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cushim/preload.h"
#include "tests/preload/fixture/fixture.h"

enum { PAGE = 2 * MIB };

static struct cushim_preload_stats counted(int kind) {
    struct cushim_preload_stats stats = {.struct_size = sizeof stats};
    int (*ask)(int, int, struct cushim_preload_stats *);
    *(void **)&ask = dlsym(RTLD_DEFAULT, "cushim_preload_stats");
    ck_assert(ask && ask(-1, kind, &stats) == 0);
    return stats;
}

static void check(int kind, size_t n_bytes) {
    if (!fixture_is_preloaded())
        return;
    uint64_t live_bytes =
        counted(kind).live_bytes; /* contexts are in the sum if they are measured */
    if (kind == CUSHIM_PRELOAD_ALL)
        live_bytes -= counted(CUSHIM_PRELOAD_CONTEXT).live_bytes;
    ck_assert_uint_eq(live_bytes, n_bytes);
}

/* ---- graphs ---- */

static cuuint64_t of_graphs(void) {
    cuuint64_t n_bytes;
    OK(cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &n_bytes));
    return n_bytes;
}

TEST(memory_of_a_graph_is_counted_from_its_launch_until_it_goes) {
    CUdeviceptr address;
    CUgraph graph;
    CUgraphExec exec;
    fixture_use_device(0);
    CUstream stream = fixture_stream();
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuMemAllocAsync(&address, 3 * MIB, stream));
    OK(cuStreamEndCapture(stream, &graph));
    check(CUSHIM_PRELOAD_ASYNC, 0);
    check(CUSHIM_PRELOAD_GRAPH, 0);
    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphLaunch(exec, stream));
    ck_assert_uint_ge(of_graphs(), 3 * MIB);
    check(CUSHIM_PRELOAD_GRAPH, of_graphs());
    check(CUSHIM_PRELOAD_ALL, of_graphs());
    OK(cuMemFreeAsync(address, stream));
    OK(cuStreamSynchronize(stream));
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
    OK(cuDeviceGraphMemTrim(0));
    ck_assert_uint_eq(of_graphs(), 0);
    check(CUSHIM_PRELOAD_GRAPH, 0);
    if (fixture_is_preloaded())
        ck_assert_uint_eq(counted(CUSHIM_PRELOAD_ASYNC).n_requests, 0);
}

TEST(memory_of_a_graph_goes_with_its_context) {
    CUdeviceptr address;
    CUgraph graph;
    CUgraphExec exec;
    fixture_use_device(0);
    CUstream stream = fixture_stream();
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuMemAllocAsync(&address, 3 * MIB, stream));
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphLaunch(exec, stream));
    check(CUSHIM_PRELOAD_GRAPH, of_graphs());
    OK(cuDevicePrimaryCtxReset(0));
    check(CUSHIM_PRELOAD_GRAPH, 0);
}

/* ---- imported memory ---- */

/* A process that was forked before CUDA; what it made lives until the socket is closed. */
static int start_exporter(int (*give)(int), pid_t *child) {
    int pair[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    *child = fork();
    ck_assert_int_ge(*child, 0);
    if (*child == 0) {
        char byte;
        close(pair[0]);
        fixture_use_device(0);
        int status = give(pair[1]);
        while (read(pair[1], &byte, 1) > 0) {
        }
        exit(status);
    }
    close(pair[1]);
    return pair[0];
}

static void stop_exporter(int to, pid_t child) {
    int status;
    close(to);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
}

static int give_handles(int to) {
    static const size_t sizes[] = {4 * PAGE, 1000};
    for (int i = 0; i < 2; i++) {
        CUipcMemHandle handle;
        OK(cuIpcGetMemHandle(&handle, fixture_alloc(sizes[i])));
        ck_assert_int_eq(write(to, &handle, sizeof handle), sizeof handle);
    }
    return 0;
}

TEST(memory_that_an_ipc_handle_opened_is_told_and_not_summed) {
    CUipcMemHandle handles[2];
    CUdeviceptr opened[3];
    pid_t child;
    int from = start_exporter(give_handles, &child);
    fixture_use_device(0);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(recv(from, &handles[i], sizeof *handles, MSG_WAITALL), sizeof *handles);
    for (int i = 0; i < 2; i++) /* the second time nothing is added */
        OK(cuIpcOpenMemHandle(&opened[i], handles[0], CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    check(CUSHIM_PRELOAD_IMPORTED, 4 * PAGE);
    OK(cuIpcOpenMemHandle(&opened[2], handles[1], CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    if (fixture_is_preloaded()) /* the driver opened a page of 2 MiB for it */
        ck_assert_uint_eq(counted(CUSHIM_PRELOAD_IMPORTED).live_bytes, 5 * PAGE);
    check(CUSHIM_PRELOAD_ALL, 0);
    OK(cuIpcCloseMemHandle(opened[2]));
    OK(cuIpcCloseMemHandle(opened[1]));
    check(CUSHIM_PRELOAD_IMPORTED, 4 * PAGE);
    OK(cuIpcCloseMemHandle(opened[0]));
    check(CUSHIM_PRELOAD_IMPORTED, 0);
    OK(cuIpcOpenMemHandle(&opened[0], handles[0], CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    OK(cuDevicePrimaryCtxReset(0));
    check(CUSHIM_PRELOAD_IMPORTED, 0);
    fixture_use_device(0);
    OK(cuIpcOpenMemHandle(&opened[0], handles[0], CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    check(CUSHIM_PRELOAD_IMPORTED, 4 * PAGE);
    stop_exporter(from, child);
}

TEST(memory_of_another_interface_is_told_and_not_summed) {
    CUexternalMemory external;
    fixture_use_device(0);
    int file = memfd_create("external", MFD_CLOEXEC);
    ck_assert_int_eq(ftruncate(file, PAGE), 0);
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC handle = {
        .type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD, .handle.fd = file, .size = PAGE};
    OK(cuImportExternalMemory(&external, &handle));
    check(CUSHIM_PRELOAD_IMPORTED, PAGE);
    check(CUSHIM_PRELOAD_ALL, 0);
    OK(cuDestroyExternalMemory(external));
    check(CUSHIM_PRELOAD_IMPORTED, 0);
}

static int give_file(int to) {
    CUmemGenericAllocationHandle handle;
    const CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                            .requestedHandleTypes =
                                                CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {.bytes = {0}};
    char byte = 0;
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof control};
    int file;
    OK(cuMemCreate(&handle, 2 * PAGE, &properties, 0));
    OK(cuMemExportToShareableHandle(&file, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    *head = (struct cmsghdr){
        .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof file)};
    memcpy(CMSG_DATA(head), &file, sizeof file);
    ck_assert_int_eq(sendmsg(to, &message, 0), 1);
    return 0;
}

static int take_file(int from) {
    char control[CMSG_SPACE(sizeof(int))], byte;
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof control};
    int file;
    ck_assert_int_eq(recvmsg(from, &message, 0), 1);
    memcpy(&file, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof file);
    return file;
}

TEST(mapped_memory_of_another_process_is_told_from_its_map_on) {
    CUmemGenericAllocationHandle handle;
    CUdeviceptr address;
    pid_t child;
    int from = start_exporter(give_file, &child);
    fixture_use_device(0);
    int file = take_file(from);
    OK(cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)file,
                                      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    check(CUSHIM_PRELOAD_IMPORTED, 0); /* no call tells how large it is */
    OK(cuMemAddressReserve(&address, 2 * PAGE, 0, 0, 0));
    OK(cuMemMap(address, 2 * PAGE, 0, handle, 0));
    check(CUSHIM_PRELOAD_IMPORTED, 2 * PAGE);
    check(CUSHIM_PRELOAD_MAPPED, 0);
    check(CUSHIM_PRELOAD_ALL, 0);
    OK(cuMemRelease(handle));
    check(CUSHIM_PRELOAD_IMPORTED, 2 * PAGE);
    OK(cuMemUnmap(address, 2 * PAGE));
    check(CUSHIM_PRELOAD_IMPORTED, 0);
    OK(cuMemAddressFree(address, 2 * PAGE));
    stop_exporter(from, child);
}

/* ---- contexts and modules ---- */

/* With sites, the software device's contexts taking memory. */
static bool is_measured(void) {
    return fixture_is_preloaded() && getenv("CUSHIM_SITES") && getenv("CUSHIM_SIM_CONTEXT");
}

TEST_IF(is_measured(), what_contexts_and_modules_take_is_measured) {
    CUcontext other;
    CUmodule module;
    fixture_use_device(0);
    check(CUSHIM_PRELOAD_CONTEXT, 64 * MIB);
    fixture_use_device(0); /* it is there */
    fixture_alloc(PAGE);
    OK(cuModuleLoadData(&module, SIM_MODULE_IMAGE "\n.global table 8388608\n"));
    check(CUSHIM_PRELOAD_CONTEXT, 72 * MIB);
    OK(cuModuleUnload(module));
    check(CUSHIM_PRELOAD_CONTEXT, 64 * MIB);
    OK(cuModuleLoadData(&module, SIM_MODULE_IMAGE "\n.global table 8388608\n"));
    OK(cuCtxCreate(&other, NULL, 0, 0));
    check(CUSHIM_PRELOAD_CONTEXT, 136 * MIB);
    ck_assert_uint_eq(counted(CUSHIM_PRELOAD_ALL).live_bytes, 136 * MIB + PAGE);
    OK(cuCtxDestroy(other));
    check(CUSHIM_PRELOAD_CONTEXT, 72 * MIB);
    OK(cuDevicePrimaryCtxReset(0));
    check(CUSHIM_PRELOAD_CONTEXT, 0);
}

TEST_IF(is_measured(), what_is_loaded_at_a_first_launch_is_measured_afterwards) {
    uint64_t most_bytes = 0;
    fixture_use_device(0);
    CUdeviceptr block = fixture_alloc(PAGE);
    fixture_launch_write(block, 5, NULL);
    for (int i = 0; i < 500 && most_bytes < 80 * MIB; i++) { /* looks are apart */
        OK(cuCtxSynchronize());
        usleep(10000);
        most_bytes = counted(CUSHIM_PRELOAD_CONTEXT).live_bytes;
    }
    check(CUSHIM_PRELOAD_CONTEXT, 80 * MIB);
    OK(cuDevicePrimaryCtxReset(0));
    check(CUSHIM_PRELOAD_CONTEXT, 0);
}

/* As when another process takes memory while a module is loaded. */
TEST_IF(is_measured(), what_a_module_did_not_take_is_counted_until_the_next_look) {
    __typeof__(&cuModuleUnload) unload;
    CUmodule module;
    fixture_use_device(0);
    fixture_alloc(PAGE);
    OK(cuModuleLoadData(&module, SIM_MODULE_IMAGE "\n.global table 8388608\n"));
    check(CUSHIM_PRELOAD_CONTEXT, 72 * MIB);
    *(void **)&unload = fixture_entry_of_driver("cuModuleUnload");
    OK(unload(module));
    for (int i = 0; i < 500 && counted(CUSHIM_PRELOAD_CONTEXT).live_bytes > 64 * MIB; i++) {
        OK(cuCtxSynchronize());
        usleep(10000);
    }
    check(CUSHIM_PRELOAD_CONTEXT, 64 * MIB);
    OK(cuDevicePrimaryCtxReset(0));
    check(CUSHIM_PRELOAD_CONTEXT, 0);
}

int main(void) {
    return fixture_run("account");
}
