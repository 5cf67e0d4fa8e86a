#include "tests/companion/fixture.h"

#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/companion/kernels.ptx.h"
#include "tests/companion/fixture_cuda.h"
#include "tools/sim/sim.h"

enum { TIMEOUT_S = 120, MAX_MODULES = 64, PTX_BYTES = 16384 };

static void *libcuda;

static bool open_driver(void) {
    const char *given = getenv("CUSHIM_LIBCUDA");
    libcuda = dlopen(given && *given ? given : "libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    return libcuda != NULL;
}

void *fixture_symbol(const char *name) {
    void *address = libcuda ? dlsym(libcuda, name) : NULL;
    ck_assert_msg(address != NULL, "libcuda has no %s", name);
    return address;
}

bool fixture_is_simulated(void) {
    return libcuda && dlsym(libcuda, "sim_fail_at");
}

/* Makes no call to the software device, because the cases run in children, which must find it
 * unused. */
int fixture_n_devices(void) {
    int n = 0;
    if (fixture_is_simulated()) {
        const char *text = getenv("CUSHIM_SIM_DEVICES");
        return text ? atoi(text) : 1;
    }
    /* libcheck does not run yet, so fixture_symbol could not report to it */
    CUresult (*init)(unsigned);
    CUresult (*count)(int *);
    void *addresses[] = {dlsym(libcuda, "cuInit"), dlsym(libcuda, "cuDeviceGetCount")};
    if (!addresses[0] || !addresses[1])
        return 0;
    memcpy(&init, &addresses[0], sizeof init);
    memcpy(&count, &addresses[1], sizeof count);
    return init(0) == CUDA_SUCCESS && count(&n) == CUDA_SUCCESS ? n : 0;
}

/* ---- kernels ---- */

static const char sim_image[] = SIM_MODULE_IMAGE "\n"
                                                 ".global table 128\n"
                                                 ".global counted 8\n"
                                                 ".shared mirror 16000\n";
static const char sim_caller[] = SIM_MODULE_IMAGE "\n.entry caller 8\n.extern answer\n";
static const char sim_callee[] = SIM_MODULE_IMAGE "\n.func answer\n";
static const char sim_wrong[] = SIM_MODULE_IMAGE "\n\n\n\n.entyr wrong\n";

const char *fixture_image(void) {
    static char text[PTX_BYTES];
    size_t n = 0;
    if (fixture_is_simulated())
        return sim_image;
    for (size_t i = 0; fixture_ptx[i]; i++)
        n +=
            (size_t)snprintf(text + n, n < sizeof text ? sizeof text - n : 0, "%s", fixture_ptx[i]);
    ck_assert_uint_lt(n, sizeof text);
    return text;
}

const char *fixture_image_callee(void) {
    return fixture_is_simulated() ? sim_callee : fixture_ptx_callee;
}

const char *fixture_image_caller(void) {
    return fixture_is_simulated() ? sim_caller : fixture_ptx_caller;
}

const char *fixture_image_wrong(void) {
    return fixture_is_simulated() ? sim_wrong : fixture_ptx_wrong;
}

/* The current context; if there is none, the primary context of device 0 becomes current. */
static CUcontext take_context(bool *is_ours) {
    CUcontext context = NULL;
    FIXTURE_CU(cuInit, 0);
    FIXTURE_CU(cuCtxGetCurrent, &context);
    *is_ours = !context;
    if (!context) {
        FIXTURE_CU(cuDevicePrimaryCtxRetain, &context, 0);
        FIXTURE_CU(cuCtxSetCurrent, context);
    }
    return context;
}

/* The module of a context, loaded once; contexts are identified by number, because handles are
 * reused. */
static CUmodule module_of(CUcontext context) {
    static struct {
        unsigned long long id;
        CUmodule module;
    } modules[MAX_MODULES];
    static size_t n_modules;
    unsigned long long id = 0;
    FIXTURE_CU(cuCtxGetId, context, &id);
    for (size_t i = 0; i < n_modules; i++) {
        if (modules[i].id == id)
            return modules[i].module;
    }
    ck_assert_uint_lt(n_modules, MAX_MODULES);
    modules[n_modules].id = id;
    FIXTURE_CU(cuModuleLoadData, &modules[n_modules].module, fixture_image());
    return modules[n_modules++].module;
}

/* The driver's names in <cuda.h> mean the newest revisions, as they should here. */
void *fixture_kernel(const char *name) {
    bool is_ours;
    CUfunction function = NULL;
    CUmodule module = module_of(take_context(&is_ours));
    FIXTURE_CU(cuModuleGetFunction, &function, module, name);
    if (is_ours)
        FIXTURE_CU(cuCtxSetCurrent, NULL);
    return function;
}

void fixture_launch(struct cushim_stream *stream, const char *name, unsigned n_blocks,
                    unsigned n_threads, void **args) {
    bool is_ours;
    CUfunction function = NULL;
    struct CUstream_st *handle = NULL;
    fixture_ok(cushim_stream_handle(stream, &handle));
    CUmodule module = module_of(take_context(&is_ours));
    FIXTURE_CU(cuModuleGetFunction, &function, module, name);
    FIXTURE_CU(cuLaunchKernel, function, n_blocks, 1, 1, n_threads, 1, 1, 0, handle, args, NULL);
    if (is_ours)
        FIXTURE_CU(cuCtxSetCurrent, NULL);
}

void fixture_spin(struct cushim_stream *stream, unsigned ms) {
    uint64_t ns = ms * UINT64_C(1000000), unused = 0;
    void *args[] = {&ns, &unused};
    fixture_launch(stream, "spin", 1, 1, args);
}

void fixture_spin_fill(struct cushim_stream *stream, cushim_devptr dst, uint32_t value, size_t n,
                       unsigned ms) {
    uint64_t ns = ms * UINT64_C(1000000), unused = 0, n_words = n;
    void *args[] = {&dst, &value, &n_words, &ns, &unused};
    fixture_launch(stream, "spin_fill", 1, 1, args);
}

double fixture_now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

void fixture_verdict(enum cushim_status got, enum cushim_status wanted, const char *text,
                     const char *file, int line) {
    if (got != wanted)
        ck_abort_msg("%s:%d: %s is %s instead of %s; last text: %s", file, line, text,
                     cushim_status_name(got), cushim_status_name(wanted), cushim_last_error());
}

/* ---- running the cases ---- */

static const char *reason_to_skip(unsigned needs, int n_devices) {
    if (needs & FIXTURE_GPU && fixture_is_simulated())
        return "needs a GPU";
    if (needs & FIXTURE_SIM && !fixture_is_simulated())
        return "needs the software device";
    return needs & FIXTURE_TWO && n_devices < 2 ? "needs two devices" : NULL;
}

/* Runs a suite of one case, so that its line is printed when it ends; false if it failed. */
static bool run_case(const TTest *test, int number) {
    Suite *suite = suite_create(test->name);
    TCase *tcase = tcase_create(test->name);
    tcase_set_timeout(tcase, TIMEOUT_S);
    tcase_add_test(tcase, test);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    if (!fixture_is_simulated())
        srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_SILENT);
    bool is_good = srunner_ntests_failed(runner) == 0 && srunner_ntests_run(runner) == 1;
    printf("%s %d - %s\n", is_good ? "ok" : "not ok", number, test->name);
    TestResult **results = srunner_results(runner);
    for (int i = 0; !is_good && i < srunner_ntests_run(runner); i++)
        printf("# %s:%d: %s\n", tr_lfile(results[i]), tr_lno(results[i]), tr_msg(results[i]));
    free(results);
    srunner_free(runner);
    return is_good;
}

static bool is_wanted(const TTest *test, int argc, char **argv) {
    return argc < 2 || strstr(test->name, argv[1]);
}

int fixture_run(int argc, char **argv, const struct test_row *cases) {
    int n_cases = 0, number = 0;
    bool is_good = true;
    int n_devices = open_driver() ? fixture_n_devices() : 0;
    if (n_devices == 0) {
        puts("1..0 # SKIP no CUDA device");
        return EXIT_SUCCESS;
    }
    for (const struct test_row *row = cases; row; row = row->next)
        n_cases += is_wanted(row->get().test, argc, argv);
    printf("1..%d\n", n_cases);
    for (const struct test_row *row = cases; row; row = row->next) {
        struct test test = row->get();
        if (!is_wanted(test.test, argc, argv))
            continue;
        const char *reason = reason_to_skip(test.needs, n_devices);
        number++;
        if (reason)
            printf("ok %d - %s # SKIP %s\n", number, test.test->name, reason);
        else
            is_good = run_case(test.test, number) && is_good;
        fflush(stdout);
    }
    return is_good ? EXIT_SUCCESS : EXIT_FAILURE;
}
