/*
 * Loading a family: once per process, in any capture mode, again after a failure; refusals and
 * their texts.
 */
#include "kernels/launch/family.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cushim/kernels.h"
#include "kernels/tests/launch/fixture.h"

enum { OVER = 10, GOES_ON = 11, N_THREADS = 8, TIMES = 50 };

static void begin(void) {
    fixture_force("90");
    fixture_context(0);
    ck_ok(cushim_driver_use("test"));
}

/* ---- what a load does ---- */

TEST(the_first_use_loads_and_the_next_does_not) {
    begin();
    uint32_t *word = fixture_word();
    ck_ok(fixture_store(word, 1, NULL));
    ck_assert_uint_eq(n_calls("cuLibraryLoadData"), 1);
    ck_assert_uint_eq(n_calls("cuLibraryGetKernel"), FIXTURE_N_KERNELS);
    ck_assert_uint_eq(n_calls("cuKernelSetAttribute"), 2); /* only for fixture_large */
    SIM(sim_calls_reset)();
    ck_ok(fixture_store(word, 2, NULL));
    ck_assert_uint_eq(SIM(sim_calls_total)(), n_calls("cuLaunchKernel") +
                                                  n_calls("cuCtxGetCurrent") +
                                                  n_calls("cuCtxGetDevice"));
    ck_assert_uint_eq(fixture_read(word), 2);
}

TEST(another_device_gets_its_limits_of_the_same_library) {
    begin();
    ck_ok(fixture_store(fixture_word(), 1, NULL));
    fixture_context(1);
    uint32_t *word = fixture_word();
    ck_ok(fixture_store(word, 2, NULL));
    ck_assert_uint_eq(n_calls("cuLibraryLoadData"), 1);
    ck_assert_uint_eq(n_calls("cuKernelSetAttribute"), 4);
    ck_assert_uint_eq(atomic_load(&cushim_family_fixture.ready), 3);
    ck_assert_uint_eq(fixture_read(word), 2);
}

static struct { int attribute, value; } attributes[2];
static unsigned n_attributes;
static CUresult attribute_result;

static CUresult keep_attribute(CUfunction_attribute attribute, int value, CUkernel kernel,
                               CUdevice device) {
    ck_assert_ptr_eq(kernel, cushim_family_fixture.handles[FIXTURE_LARGE]);
    ck_assert_int_eq(device, 0);
    ck_assert_uint_lt(n_attributes, 2);
    attributes[n_attributes].attribute = (int)attribute;
    attributes[n_attributes++].value = value;
    return attribute_result;
}

TEST(limits_are_raised_for_the_kernels_that_say_so) {
    begin();
    atomic_store(&CUSHIM_DRIVER(cuKernelSetAttribute), keep_attribute);
    ck_ok(fixture_store(fixture_word(), 1, NULL));
    ck_assert_uint_eq(n_attributes, 2);
    ck_assert_int_eq(attributes[0].attribute, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
    ck_assert_int_eq(attributes[0].value, 64 << 10);
    ck_assert_int_eq(attributes[1].attribute, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED);
    ck_assert_int_eq(attributes[1].value, 1);
}

/* It has two ways to say so. */
TEST(a_device_with_less_has_its_other_kernels, .n = 2) {
    begin();
    uint32_t *word = fixture_word();
    attribute_result = _i ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
    atomic_store(&CUSHIM_DRIVER(cuKernelSetAttribute), keep_attribute);
    ck_ok(fixture_store(word, 1, NULL));
    ck_assert_uint_eq(fixture_read(word), 1);
}

/* ---- failures ---- */

/*
 * One process for each n, in which the n-th call of the first use fails; the second use is a first
 * use again.
 */
static int fails_once(unsigned n) {
    begin();
    CUstream stream = fixture_stream();
    uint32_t *word = fixture_word();
    fail_at(n);
    bool is_over = fail_is_over(fixture_store(word, 1, stream));
    ck_ok(fixture_store(word, 2, stream));
    ck_assert_uint_eq(fixture_read(word), 2);
    ck_assert_uint_eq(atomic_load(&cushim_family_fixture.ready), 1);
    return is_over ? OVER : GOES_ON;
}

static int fails_once_in_a_child(unsigned n) {
    int state = 0;
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (!child)
        _exit(fails_once(n));
    ck_assert_int_eq(waitpid(child, &state, 0), child);
    return WIFEXITED(state) ? WEXITSTATUS(state) : -WTERMSIG(state);
}

TEST(whichever_call_fails_the_next_use_works) {
    unsigned n = 1;
    int code;
    while ((code = fails_once_in_a_child(n)) == GOES_ON)
        n++;
    ck_assert_int_eq(code, OVER);
    ck_assert_uint_gt(n, 8);
}

static CUresult refusal;

static CUresult refuse(CUlibrary *library, const void *code, CUjit_option *options, void **values,
                       unsigned n_options, CUlibraryOption *library_options, void **library_values,
                       unsigned n_library_options) {
    (void)library, (void)code, (void)options, (void)values, (void)n_options;
    (void)library_options, (void)library_values, (void)n_library_options;
    return refusal;
}

TEST(an_image_that_the_device_cannot_run_is_NOTSUPPORTED) {
    static const CUresult results[] = {CUDA_ERROR_NO_BINARY_FOR_GPU,
                                       CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
                                       CUDA_ERROR_INVALID_SOURCE, CUDA_ERROR_INVALID_IMAGE};
    begin();
    uint32_t *word = fixture_word();
    atomic_store(&CUSHIM_DRIVER(cuLibraryLoadData), refuse);
    for (unsigned i = 0; i < sizeof results / sizeof *results; i++) {
        refusal = results[i];
        ck_is(fixture_store(word, 1, NULL), CUSHIM_NOTSUPPORTED);
        ck_said("fixture_store failed");
        ck_said("(family=fixture entry=cuLibraryLoadData result=CUDA_ERROR_");
    }
    refusal = CUDA_ERROR_NO_BINARY_FOR_GPU;
    ck_is(cushim_kernels_load(), CUSHIM_NOTSUPPORTED);
    ck_said("cushim_kernels_load failed");
    ck_said("(family=elementwise entry=cuLibraryLoadData result=CUDA_ERROR_NO_BINARY_FOR_GPU)");
    refusal = CUDA_ERROR_OUT_OF_MEMORY;
    ck_is(fixture_store(word, 1, NULL), CUSHIM_NOMEM);
    ck_said("function=fixture_store family=fixture");
    atomic_store(&CUSHIM_DRIVER(cuLibraryLoadData), SIM(cuLibraryLoadData));
    ck_ok(fixture_store(word, 1, NULL));
    ck_assert_uint_eq(fixture_read(word), 1);
}

static CUresult find_none(CUkernel *kernel, CUlibrary library, const char *name) {
    (void)kernel, (void)library, (void)name;
    return CUDA_ERROR_NOT_FOUND;
}

TEST(an_image_without_a_kernel_is_unloaded_again) {
    begin();
    atomic_store(&CUSHIM_DRIVER(cuLibraryGetKernel), find_none);
    ck_is(fixture_store(fixture_word(), 1, NULL), CUSHIM_NOTFOUND);
    ck_assert_uint_eq(n_calls("cuLibraryUnload"), 1);
}

TEST(a_driver_without_libraries_is_NOSYM) {
    begin();
    driver_loses(cuLibraryLoadData);
    ck_is(fixture_store(fixture_word(), 1, NULL), CUSHIM_NOSYM);
    ck_said("(entry=cuLibraryLoadData ");
}

static CUresult say_6_1(int *value, CUdevice_attribute attribute, CUdevice device) {
    (void)device;
    *value = attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ? 6 : 1;
    return CUDA_SUCCESS;
}

TEST(a_device_before_7_5_is_NOTSUPPORTED) {
    begin();
    atomic_store(&CUSHIM_DRIVER(cuDeviceGetAttribute), say_6_1);
    ck_is(fixture_store(fixture_word(), 1, NULL), CUSHIM_NOTSUPPORTED);
    ck_said("(device=0 is of 6.1, before 7.5");
}

/* ---- in a capture ---- */

static CUstreamCaptureMode mode_of_thread(void) {
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    ck_assert_int_eq(SIM(cuThreadExchangeStreamCaptureMode)(&mode), CUDA_SUCCESS);
    return mode;
}

static CUstreamCaptureMode mode_of_load;

static CUresult load_and_look(CUlibrary *library, const void *code, CUjit_option *options,
                              void **values, unsigned n_options, CUlibraryOption *library_options,
                              void **library_values, unsigned n_library_options) {
    mode_of_load = CU_STREAM_CAPTURE_MODE_RELAXED;
    SIM(cuThreadExchangeStreamCaptureMode)(&mode_of_load);
    return SIM(cuLibraryLoadData)(library, code, options, values, n_options, library_options,
                                  library_values, n_library_options);
}

TEST(a_first_use_in_a_capture_of_any_mode_leaves_it_valid, .n = 3) {
    static const CUstreamCaptureMode modes[] = {CU_STREAM_CAPTURE_MODE_GLOBAL,
                                                CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                                                CU_STREAM_CAPTURE_MODE_RELAXED};
    begin();
    CUstream stream = fixture_stream();
    uint32_t *word = fixture_word();
    atomic_store(&CUSHIM_DRIVER(cuLibraryLoadData), load_and_look);
    mode_of_load = CU_STREAM_CAPTURE_MODE_GLOBAL;
    ck_assert_int_eq(SIM(cuStreamBeginCapture_v2)(stream, modes[_i]), CUDA_SUCCESS);
    ck_ok(fixture_store(word, 4, stream));
    ck_assert_int_eq(mode_of_load, CU_STREAM_CAPTURE_MODE_RELAXED);
    ck_assert_int_eq(mode_of_thread(), CU_STREAM_CAPTURE_MODE_GLOBAL);
    CUgraphExec executable = fixture_end_capture(stream);
    ck_assert_uint_eq(fixture_read(word), 0);
    fixture_replay(executable, stream);
    ck_assert_uint_eq(fixture_read(word), 4);
    ck_assert_int_eq(SIM(cuGraphExecDestroy)(executable), CUDA_SUCCESS);
}

/* ---- threads ---- */

static CUresult load_slowly(CUlibrary *library, const void *code, CUjit_option *options,
                            void **values, unsigned n_options, CUlibraryOption *library_options,
                            void **library_values, unsigned n_library_options) {
    usleep(20000);
    return SIM(cuLibraryLoadData)(library, code, options, values, n_options, library_options,
                                  library_values, n_library_options);
}

static pthread_barrier_t barrier;
static uint32_t *words[N_THREADS];

static void *use_first(void *cookie) {
    uint32_t **word = cookie;
    CUcontext context;
    ck_assert_int_eq(SIM(cuDevicePrimaryCtxRetain)(&context, 0), CUDA_SUCCESS);
    ck_assert_int_eq(SIM(cuCtxSetCurrent)(context), CUDA_SUCCESS);
    pthread_barrier_wait(&barrier);
    for (uint32_t i = 1; i <= TIMES; i++)
        ck_ok(fixture_store(*word, i, NULL));
    return NULL;
}

TEST(threads_that_come_first_together_load_once) {
    pthread_t threads[N_THREADS];
    begin();
    atomic_store(&CUSHIM_DRIVER(cuLibraryLoadData), load_slowly);
    pthread_barrier_init(&barrier, NULL, N_THREADS);
    for (unsigned i = 0; i < N_THREADS; i++) {
        words[i] = fixture_word();
        ck_assert_int_eq(pthread_create(&threads[i], NULL, use_first, &words[i]), 0);
    }
    for (unsigned i = 0; i < N_THREADS; i++)
        pthread_join(threads[i], NULL);
    ck_assert_uint_eq(n_calls("cuLibraryLoadData"), 1);
    for (unsigned i = 0; i < N_THREADS; i++)
        ck_assert_uint_eq(fixture_read(words[i]), TIMES);
}

/* ---- all of them ---- */

static unsigned n_loaded;

/* The families' own images are for real devices, so the fixture's is loaded instead. */
static CUresult load_another(CUlibrary *library, const void *code, CUjit_option *options,
                             void **values, unsigned n_options, CUlibraryOption *library_options,
                             void **library_values, unsigned n_library_options) {
    static const unsigned char magic[] = {0x50, 0xed, 0x55, 0xba}; /* of a fatbin */
    ck_assert_mem_eq(code, magic, sizeof magic);
    n_loaded++;
    return SIM(cuLibraryLoadData)(library, cushim_family_fixture.image, options, values, n_options,
                                  library_options, library_values, n_library_options);
}

static CUresult find_another(CUkernel *kernel, CUlibrary library, const char *name) {
    ck_assert_ptr_nonnull(strchr(name, '_'));
    return SIM(cuLibraryGetKernel)(kernel, library, "fixture_store");
}

TEST(all_families_are_loaded_by_one_call) {
    unsigned n_families = 0;
#define FAMILY(name) n_families++;
#include "kernels/launch/families.def"
#undef FAMILY
    begin();
    atomic_store(&CUSHIM_DRIVER(cuLibraryLoadData), load_another);
    atomic_store(&CUSHIM_DRIVER(cuLibraryGetKernel), find_another);
    ck_ok(cushim_kernels_load());
    ck_assert_uint_eq(n_loaded, n_families);
    ck_ok(cushim_kernels_load());
    ck_assert_uint_eq(n_loaded, n_families);
#define FAMILY(name) ck_assert_uint_eq(atomic_load(&cushim_family_##name.ready), 1);
#include "kernels/launch/families.def"
#undef FAMILY
}

TEST(nothing_is_loaded_if_references_run) {
    fixture_force("cpu");
    fixture_context(0);
    ck_ok(cushim_kernels_load());
    ck_assert_uint_eq(n_calls("cuLibraryLoadData"), 0);
}

int main(void) {
    return tests_run("load");
}
