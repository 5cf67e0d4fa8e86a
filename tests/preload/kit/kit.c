#include "kit.h"

#include <dlfcn.h>
#include <strings.h>
#include <time.h>

SIM_KERNEL(kit_write, unsigned *, unsigned) {
    (void)launch;
    *SIM_ARG(unsigned *, 0) = SIM_ARG(unsigned, 1);
}

SIM_KERNEL(kit_fault, int) {
    launch->turn->fault = SIM_ARG(int, 0);
}

bool kit_is_preloaded(void) {
    const char *value = getenv("CUSHIM");
    return dlsym(RTLD_DEFAULT, "cushim_preload_capturing") && !(value && strcmp(value, "0") == 0);
}

CUcontext kit_use_device(int device) {
    CUcontext context;
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, device));
    OK(cuCtxSetCurrent(context));
    return context;
}

CUdeviceptr kit_alloc(size_t n_bytes) {
    CUdeviceptr address = 0;
    OK(cuMemAlloc(&address, n_bytes));
    ck_assert_uint_ne(address, 0);
    ck_assert_uint_eq(address % 512, 0);
    return address;
}

CUstream kit_stream(void) {
    CUstream stream;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return stream;
}

void kit_fill(CUdeviceptr address, unsigned char value, size_t n_bytes) {
    OK(cuMemsetD8(address, value, n_bytes));
}

bool kit_is_filled(CUdeviceptr address, unsigned char value, size_t n_bytes) {
    unsigned char *host = malloc(n_bytes);
    bool is_filled = true;
    ck_assert_ptr_nonnull(host);
    OK(cuMemcpyDtoH(host, address, n_bytes));
    for (size_t i = 0; i < n_bytes; i++)
        is_filled = is_filled && host[i] == value;
    free(host);
    return is_filled;
}

static void launch(const char *name, CUstream stream, void **args) {
    CUfunction function;
    OK(sim_function_by_name(&function, name));
    OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, args, NULL));
}

void kit_launch_write(CUdeviceptr address, unsigned value, CUstream stream) {
    void *args[] = {&address, &value};
    launch("kit_write", stream, args);
}

unsigned kit_read(CUdeviceptr address) {
    unsigned value;
    OK(cuMemcpyDtoH(&value, address, sizeof value));
    return value;
}

CUresult kit_copy_batch(CUdeviceptr good, CUdeviceptr address, size_t n_bytes) {
    CUdeviceptr to[2] = {good, address}, from[2] = {good + n_bytes, good};
    size_t sizes[2] = {16, n_bytes}, first = 0;
    CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    CUstream stream = kit_stream();
    CUresult answer = cuMemcpyBatchAsync(to, from, sizes, 2, &attributes, &first, 1, stream);
    OK(cuStreamDestroy(stream));
    return answer;
}

void kit_launch_fault(CUresult fault, CUstream stream) {
    int code = (int)fault;
    void *args[] = {&code};
    launch("kit_fault", stream, args);
}

static void *run_thread(void *data) {
    struct kit_thread *thread = data;
    if (thread->context)
        OK(cuCtxSetCurrent(thread->context));
    thread->work(thread);
    atomic_store(&thread->is_done, 1);
    return NULL;
}

void kit_start(struct kit_thread *thread, void (*work)(struct kit_thread *)) {
    thread->work = work;
    atomic_store(&thread->is_done, 0);
    ck_assert_int_eq(pthread_create(&thread->thread, NULL, run_thread, thread), 0);
}

void kit_join(struct kit_thread *thread) {
    ck_assert_int_eq(pthread_join(thread->thread, NULL), 0);
}

void kit_free_it(struct kit_thread *thread) {
    thread->answer = cuMemFree(thread->address);
}

bool kit_is_asleep(struct kit_thread *thread, const char *call, unsigned long n) {
    const struct timespec pause = {0, 200000};
    while (!atomic_load(&thread->is_done) && sim_calls(call) <= n)
        nanosleep(&pause, NULL);
    return !atomic_load(&thread->is_done);
}

const char *kit_wait_of_free(void) {
    return kit_is_preloaded() ? "cuEventSynchronize" : "cuMemFree_v2";
}

CUgraphExec kit_graph(CUdeviceptr address, unsigned value) {
    CUgraph graph;
    CUgraphExec exec;
    CUstream stream = kit_stream();
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    kit_launch_write(address, value, stream);
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphDestroy(graph));
    OK(cuStreamDestroy(stream));
    return exec;
}

int kit_run_loop(const char *name, const TTest *const *of_each, int n, const TTest *const *tests) {
    const char *libraries = getenv("LD_PRELOAD");
    if (libraries && strstr(libraries, "cushim") && !kit_is_preloaded())
        return EXIT_FAILURE; /* it was asked for, and is not there: nothing would be tested */
    Suite *suite = suite_create(name);
    TCase *tcase = tcase_create(name);
    tcase_set_timeout(tcase, 60);
    for (; *of_each; of_each++)
        tcase_add_loop_test(tcase, *of_each, 0, n);
    for (; *tests; tests++)
        tcase_add_test(tcase, *tests);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    bool has_run = srunner_ntests_run(runner) > 0;
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return has_run && n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

int kit_run(const char *name, const TTest *const *tests) {
    return kit_run_loop(name, (const TTest *[]){NULL}, 0, tests);
}
