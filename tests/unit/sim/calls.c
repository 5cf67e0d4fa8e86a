/* The driver's interface: look-ups, failures, counts, and the start and end of a process. */
#include "fixture.h"
#include "tests/unit/suite.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void *look_up(const char *name, int version, cuuint64_t flags,
                     CUdriverProcAddressQueryResult *status) {
    void *address = (void *)1;
    ck_cuda(cuGetProcAddress(name, &address, version, flags, status));
    return address;
}

/* Check that the look-up returns the export `abi`. */
static void check_name(const char *name, int version, cuuint64_t flags, const char *abi) {
    CUdriverProcAddressQueryResult status;
    void *address = look_up(name, version, flags, &status);
    ck_assert_int_eq(status, CU_GET_PROC_ADDRESS_SUCCESS);
    ck_assert_ptr_nonnull(address);
    ck_assert_msg(address == dlsym(RTLD_DEFAULT, abi), "%s at %d is not %s", name, version, abi);
}

TEST(a_name_a_version_and_flags_name_an_export) {
    check_name("cuMemAlloc", 13000, 0, "cuMemAlloc_v2");
    check_name("cuMemAlloc", 3020, 0, "cuMemAlloc_v2");
    check_name("cuMemAlloc", 3010, 0, "cuMemAlloc");
    check_name("cuStreamBeginCapture", 10000, 0, "cuStreamBeginCapture");
    check_name("cuStreamBeginCapture", 10010, 0, "cuStreamBeginCapture_v2");
    check_name("cuStreamGetCaptureInfo", 11030, 2, "cuStreamGetCaptureInfo_v2_ptsz");
    check_name("cuDevicePrimaryCtxReset", 7000, 0, "cuDevicePrimaryCtxReset");
    check_name("cuDevicePrimaryCtxReset", 11000, 0, "cuDevicePrimaryCtxReset_v2");
    check_name("cuMemcpyHtoD", 13000, 2, "cuMemcpyHtoD_v2_ptds");
    check_name("cuMemcpyHtoD", 13000, 1, "cuMemcpyHtoD_v2");
    check_name("cuMemFree", 13000, 2, "cuMemFree_v2");
    check_name("cuCtxCreate", 12050, 0, "cuCtxCreate_v4");
    check_name("cuCtxCreate", 11040, 0, "cuCtxCreate_v3");
    check_name("cuGetProcAddress", 11030, 0, "cuGetProcAddress");
    check_name("cuGetProcAddress", 12000, 0, "cuGetProcAddress_v2");
}

TEST(a_missing_name_says_why) {
    CUdriverProcAddressQueryResult status;
    void *address;
    ck_assert_ptr_null(look_up("cuNoSuchThing", 13000, 0, &status));
    ck_assert_int_eq(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    ck_assert_ptr_null(look_up("", 13000, 0, &status));
    ck_assert_int_eq(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    ck_assert_ptr_null(look_up("cuCtxRecordEvent", 12000, 0, &status));
    ck_assert_int_eq(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
    ck_cuda_is(cuGetProcAddress("cuInit", &address, 13000, 64, &status), CUDA_ERROR_INVALID_VALUE);
}

/* Its extension module does not load where one of them is missing. */
TEST(old_names_that_pycuda_asks_for_are_there) {
    char names[] =
        "cuFuncSetBlockShape cuFuncSetSharedSize cuLaunch cuLaunchGrid cuLaunchGridAsync "
        "cuLinkAddFile_v2 cuModuleGetSurfRef cuModuleGetTexRef cuParamSetSize "
        "cuParamSetTexRef cuParamSetf cuParamSeti cuParamSetv cuProfilerInitialize "
        "cuSurfRefGetArray cuSurfRefSetArray cuTexRefCreate cuTexRefDestroy "
        "cuTexRefGetAddressMode cuTexRefGetAddress_v2 cuTexRefGetArray "
        "cuTexRefGetFilterMode cuTexRefGetFlags cuTexRefGetFormat cuTexRefSetAddress2D_v3 "
        "cuTexRefSetAddressMode cuTexRefSetAddress_v2 cuTexRefSetArray "
        "cuTexRefSetFilterMode cuTexRefSetFlags cuTexRefSetFormat";
    for (char *name = strtok(names, " "); name; name = strtok(NULL, " "))
        ck_assert_msg(dlsym(RTLD_DEFAULT, name), "%s is missing", name);
}

TEST(nothing_works_before_init) {
    CUdeviceptr a;
    int n;
    ck_cuda_is(cuMemAlloc(&a, 1), CUDA_ERROR_NOT_INITIALIZED);
    ck_cuda_is(cuDeviceGetCount(&n), CUDA_ERROR_NOT_INITIALIZED);
    ck_cuda(cuDriverGetVersion(&n));
    ck_assert_int_eq(n, 13000);
    ck_cuda(cuInit(0));
    ck_cuda(cuDeviceGetCount(&n));
    ck_assert_int_eq(n, 2);
    ck_cuda_is(cuMemAlloc(&a, 1), CUDA_ERROR_INVALID_CONTEXT);
}

TEST(the_device_describes_itself) {
    char name[100];
    CUuuid a, b;
    int major;
    fixture_context();
    ck_cuda(cuDeviceGetName(name, sizeof name, 0));
    ck_assert_str_eq(name, "cushim software device");
    ck_cuda(cuDeviceGetUuid(&a, 0));
    ck_cuda(cuDeviceGetUuid(&b, 1));
    ck_assert_mem_ne(&a, &b, sizeof a);
    ck_cuda(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
    ck_assert_int_eq(major, 9);
    ck_cuda_is(cuDeviceGetName(name, sizeof name, 2), CUDA_ERROR_INVALID_DEVICE);
}

TEST(the_nth_call_fails_and_changes_nothing) {
    CUdeviceptr a = 0;
    fixture_context();
    sim_fail_at(2, CUDA_ERROR_OUT_OF_MEMORY);
    ck_cuda(cuMemFree(0));
    ck_assert_int_eq(sim_has_failed(), 0);
    ck_cuda_is(cuMemAlloc(&a, 100), CUDA_ERROR_OUT_OF_MEMORY);
    ck_assert_int_eq(sim_has_failed(), 1);
    ck_assert_uint_eq(sim_live_bytes(), 0);
    ck_cuda(cuMemAlloc(&a, 100));
    sim_fail_at(1, CUDA_ERROR_UNKNOWN);
    sim_fail_at(0, CUDA_SUCCESS);
    ck_cuda(cuMemFree(a));
    ck_assert_int_eq(sim_has_failed(), 0);
}

TEST(calls_are_counted_and_their_order_is_kept) {
    fixture_context();
    sim_calls_reset();
    ck_cuda(cuMemFree(fixture_alloc(1)));
    ck_assert_uint_eq(sim_calls("cuMemAlloc_v2"), 1);
    ck_assert_uint_eq(sim_calls("cuMemFree_v2"), 1);
    ck_assert_uint_eq(sim_calls("cuMemAlloc"), 0);
    ck_assert_uint_eq(sim_calls("cuNoSuchThing"), ULONG_MAX);
    ck_assert_uint_eq(sim_calls_total(), 2);
    ck_assert_str_eq(sim_call_name(0), "cuMemAlloc_v2");
    ck_assert_str_eq(sim_call_name(1), "cuMemFree_v2");
    ck_assert_ptr_null(sim_call_name(2));
}

static int exit_code_of(void (*child)(void)) {
    int status;
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        child();
        _exit(100);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void use_cuda(void) {
    CUdeviceptr a;
    if (cuInit(0) != CUDA_SUCCESS)
        _exit((int)cuInit(0));
    fixture_context();
    _exit((int)cuMemAlloc(&a, 1));
}

TEST(a_child_of_an_initialised_process_gets_errors) {
    ck_assert_int_eq(exit_code_of(use_cuda), 0);
    fixture_context();
    fixture_store(NULL, (int *)(uintptr_t)fixture_alloc(4), 1);
    ck_assert_int_eq(exit_code_of(use_cuda), CUDA_ERROR_NOT_INITIALIZED);
    ck_cuda(cuCtxSynchronize());
}

static CUdeviceptr late;

static void free_late(void) {
    _exit((int)cuMemFree(late));
}

static void end_process(void) {
    atexit(free_late);
    fixture_context();
    late = fixture_alloc(100);
    fixture_store(NULL, (int *)(uintptr_t)late, 1);
    exit(99);
}

static void end_process_in_a_kernel(void) {
    static atomic_int never;
    fixture_context();
    fixture_spin(NULL, &never);
    exit(7);
}

TEST(a_call_after_the_end_gets_an_error) {
    ck_assert_int_eq(exit_code_of(end_process), CUDA_ERROR_DEINITIALIZED);
    ck_assert_int_eq(exit_code_of(end_process_in_a_kernel), 7);
}

/* ---- waits while the process ends ---- */

static CUdeviceptr waited_for;
static void *waited_for_on_host;
static CUevent behind_all;
static struct fixture_thread *waiter;

static CUresult wait_for_event(void *unused) {
    (void)unused;
    return cuEventSynchronize(behind_all);
}

static CUresult wait_for_stream(void *unused) {
    (void)unused;
    return cuStreamSynchronize(NULL);
}

static CUresult wait_for_context(void *unused) {
    (void)unused;
    return cuCtxSynchronize();
}

static CUresult wait_for_copy(void *unused) {
    char byte;
    (void)unused;
    return cuMemcpyDtoH(&byte, waited_for, 1);
}

static CUresult wait_for_set(void *unused) {
    (void)unused;
    return cuMemsetD8((CUdeviceptr)(uintptr_t)waited_for_on_host, 1, 1);
}

static CUresult wait_for_free(void *unused) {
    (void)unused;
    return cuMemFree(waited_for);
}

static CUresult (*const waits[])(void *) = {wait_for_event, wait_for_stream, wait_for_context,
                                            wait_for_copy,  wait_for_set,    wait_for_free};
static CUresult (*wait_of_child)(void *);

static void tell_what_the_waiter_got(void) {
    _exit((int)fixture_join(waiter));
}

static void end_process_while_one_waits(void) {
    static atomic_int never;
    atexit(tell_what_the_waiter_got); /* registered first, so it runs after the device's own */
    fixture_context();
    waited_for = fixture_alloc(1);
    ck_cuda(cuMemHostAlloc(&waited_for_on_host, 1, 0));
    ck_cuda(cuEventCreate(&behind_all, 0));
    fixture_spin(NULL, &never);
    ck_cuda(cuEventRecord(behind_all, NULL));
    waiter = fixture_run(wait_of_child, NULL);
    if (!fixture_is_waiting(waiter))
        _exit(101);
    exit(99);
}

TEST(a_wait_that_the_end_interrupts_is_no_success) {
    for (size_t i = 0; i < sizeof waits / sizeof *waits; i++) {
        wait_of_child = waits[i];
        ck_assert_int_eq(exit_code_of(end_process_while_one_waits), CUDA_ERROR_DEINITIALIZED);
    }
}

static void use_options(void) {
    size_t n_bytes = 0;
    CUdeviceptr a;
    setenv("CUSHIM_SIM_MEMORY", "4M", 1);
    setenv("CUSHIM_SIM_FAIL_AT", "5", 1);
    setenv("CUSHIM_SIM_LATENCY_NS", "1000", 1);
    fixture_context();
    cuDeviceTotalMem(&n_bytes, 0);
    bool is_right = n_bytes == 4 * MIB;
    is_right = is_right && cuMemAlloc(&a, 2 * MIB) == CUDA_ERROR_OUT_OF_MEMORY && sim_has_failed();
    is_right = is_right && cuMemAlloc(&a, 4 * MIB) == CUDA_SUCCESS;
    is_right = is_right && cuMemAlloc(&a, 1) == CUDA_ERROR_OUT_OF_MEMORY;
    _exit(is_right ? 0 : 1);
}

TEST(options_come_from_the_environment) {
    ck_assert_int_eq(exit_code_of(use_options), 0);
}

TEST(errors_have_names) {
    const char *text;
    ck_cuda(cuGetErrorName(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, &text));
    ck_assert_str_eq(text, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD");
    ck_cuda(cuGetErrorString(CUDA_SUCCESS, &text));
    ck_assert_str_eq(text, "no error");
    ck_cuda_is(cuGetErrorName((CUresult)12345, &text), CUDA_ERROR_INVALID_VALUE);
    ck_assert_ptr_null(text);
}

/* Returns what the process writes to standard error while it asks twice for a private table. */
static void ask_for_tables(char *text, size_t cap) {
    const CUuuid id = {"a table"};
    const void *table = &id;
    int ends[2];
    int kept = dup(STDERR_FILENO);
    ck_assert_int_eq(pipe(ends), 0);
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
    CUresult first = cuGetExportTable(&table, &id), second = cuGetExportTable(&table, &id);
    dup2(kept, STDERR_FILENO);
    close(kept);
    ssize_t n = read(ends[0], text, cap - 1);
    text[n > 0 ? n : 0] = '\0';
    close(ends[0]);
    ck_cuda_is(first, CUDA_ERROR_NOT_FOUND);
    ck_cuda_is(second, CUDA_ERROR_NOT_FOUND);
    ck_assert_ptr_null(table);
}

TEST(a_library_that_asks_for_private_tables_is_named_once) {
    char text[1000];
    ask_for_tables(text, sizeof text);
    ck_assert_ptr_nonnull(strstr(text, "unit-sim carries a runtime"));
    ck_assert_ptr_nonnull(strstr(text, "docs/guide/software-device.md"));
    ck_assert_ptr_eq(strchr(text, '\n'), text + strlen(text) - 1);
}

TEST(no_library_is_named_if_the_user_wants_quiet) {
    char text[1000];
    setenv("CUSHIM_SIM_QUIET", "1", 1);
    ask_for_tables(text, sizeof text);
    ck_assert_str_eq(text, "");
}

/* Images of a GPU, as far as the device reads them. */
static const uint32_t images[][4] = {
    {0xba55ed50, 16u << 16 | 1, 0, 0}, {0x466243b1, 1, 0, 0}, {0x464c457f, 0, 0, 0}};

static CUfunction foreign_kernel(const void *image) {
    CUmodule module;
    CUfunction function;
    ck_cuda(cuModuleLoadData(&module, image));
    ck_cuda(cuModuleGetFunction(&function, module, "nobody"));
    return function;
}

static CUresult launch_one(CUfunction function) {
    int value = 0;
    void *params[] = {&value};
    return cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL);
}

TEST(a_kernel_without_code_is_a_step_that_does_nothing) {
    CUmodule module;
    char packed[16] = "";
    size_t n_bytes = sizeof packed;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &n_bytes,
                     CU_LAUNCH_PARAM_END};
    setenv("CUSHIM_SIM_KERNELS", "skip", 1);
    fixture_context();
    for (size_t i = 0; i < 3; i++)
        ck_cuda(launch_one(foreign_kernel(images[i])));
    CUfunction function = foreign_kernel("//\n.version 8.0\n.visible .entry nobody()\n");
    sim_hold();
    ck_cuda(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra));
    ck_cuda_is(cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
    sim_release_hold();
    ck_cuda(cuCtxSynchronize());
    ck_assert_uint_eq(sim_skipped("nobody"), 4);
    ck_assert_uint_eq(sim_skipped(NULL), 4);
    ck_cuda_is(cuModuleLoadData(&module, "no image"), CUDA_ERROR_INVALID_IMAGE);
    ck_cuda_is(cuLaunchKernel(function, 0, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL),
               CUDA_ERROR_INVALID_VALUE);
    CUdeviceptr word = fixture_alloc(4);
    fixture_store(NULL, (int *)(uintptr_t)word, 7);
    int seen = 0;
    ck_cuda(cuMemcpyDtoH(&seen, word, sizeof seen));
    ck_assert_int_eq(seen, 7);
}

TEST(a_kernel_without_code_fails_at_its_launch_if_the_user_wants_that) {
    setenv("CUSHIM_SIM_KERNELS", "fail", 1);
    fixture_context();
    for (size_t i = 0; i < 3; i++)
        ck_cuda_is(launch_one(foreign_kernel(images[i])), CUDA_ERROR_NO_BINARY_FOR_GPU);
    ck_assert_uint_eq(sim_skipped(NULL), 0);
}

TEST(images_of_a_gpu_do_not_load_by_default) {
    CUmodule module;
    fixture_context();
    for (size_t i = 0; i < 3; i++)
        ck_cuda_is(cuModuleLoadData(&module, images[i]), CUDA_ERROR_NO_BINARY_FOR_GPU);
}

TEST(an_image_of_a_gpu_loads_if_the_program_has_a_kernel_of_it) {
    static const char text[] = "//\n.version 8.0\n.target sm_90\n"
                               ".visible .entry store(.param .u64 a, .param .u32 b) { ret; }\n"
                               ".visible .entry nobody() { ret; }\n";
    CUmodule module;
    CUfunction function;
    CUlinkState link;
    void *linked;
    size_t n_bytes;
    int seen = 0, value = 7, *target = &seen;
    void *params[] = {&target, &value};
    fixture_context();
    ck_cuda(cuModuleLoadData(&module, text));
    ck_cuda(cuModuleGetFunction(&function, module, "store"));
    ck_cuda(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
    ck_cuda(cuCtxSynchronize());
    ck_assert_int_eq(seen, 7);
    ck_cuda_is(cuModuleGetFunction(&function, module, "fault"), CUDA_ERROR_NOT_FOUND);
    ck_cuda(cuLinkCreate(0, NULL, NULL, &link));
    ck_cuda(
        cuLinkAddData(link, CU_JIT_INPUT_PTX, (void *)text, sizeof text, "text", 0, NULL, NULL));
    ck_cuda(cuLinkComplete(link, &linked, &n_bytes));
    ck_cuda(cuModuleLoadData(&module, linked));
    ck_cuda(cuModuleGetFunction(&function, module, "store"));
    ck_cuda(cuLinkDestroy(link));
}

static void write_file(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    fputs(text, file);
    ck_assert_int_eq(fclose(file), 0);
}

TEST(files_are_linked) {
    char text[] = "/tmp/cushim-link-XXXXXX", library[] = "/tmp/cushim-link-XXXXXX";
    CUmodule module;
    CUfunction function;
    CUlinkState link;
    void *linked;
    close(mkstemp(text));
    close(mkstemp(library));
    write_file(text, SIM_MODULE_IMAGE "\n.entry store 8 4\n");
    write_file(library, "!<arch>\n");
    fixture_context();
    ck_cuda(cuLinkCreate(0, NULL, NULL, &link));
    ck_cuda(cuLinkAddFile(link, CU_JIT_INPUT_PTX, text, 0, NULL, NULL));
    ck_cuda(cuLinkAddFile(link, CU_JIT_INPUT_LIBRARY, library, 0, NULL, NULL));
    ck_cuda_is(cuLinkAddFile(link, CU_JIT_INPUT_PTX, library, 0, NULL, NULL),
               CUDA_ERROR_INVALID_IMAGE);
    unlink(library);
    ck_cuda_is(cuLinkAddFile(link, CU_JIT_INPUT_LIBRARY, library, 0, NULL, NULL),
               CUDA_ERROR_FILE_NOT_FOUND);
    ck_cuda_is(cuLinkAddFile(link, CU_JIT_INPUT_PTX, NULL, 0, NULL, NULL),
               CUDA_ERROR_INVALID_VALUE);
    ck_cuda(cuLinkComplete(link, &linked, NULL));
    ck_cuda(cuModuleLoadData(&module, linked));
    ck_cuda(cuModuleGetFunction(&function, module, "store"));
    ck_cuda_is(cuModuleGetFunction(&function, module, "fault"), CUDA_ERROR_NOT_FOUND);
    ck_cuda(cuLinkDestroy(link));
    unlink(text);
}

SUITE() {
    return tests_run("sim calls");
}
