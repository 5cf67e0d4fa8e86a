/*
 * Libraries that are unloaded and come back (interposition.md B18), and drivers that a program only
 * probes (B19).  The program is linked to neither the driver nor the runtime.  Plugins bring them,
 * so that they go with the plugin, and memory that is mapped in their place keeps them from coming
 * back there.
 */
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "tests/unit/suite.h"

typedef int use_fn(void);
typedef int keep_fn(uint64_t *);
typedef int free_fn(uint64_t);
typedef int init_fn(unsigned);
typedef int context_fn(void **, int);
typedef int current_fn(void *);
typedef int alloc_fn(uint64_t *, size_t);
typedef unsigned long calls_fn(const char *);

enum { SUCCESS = 0, INVALID_VALUE = 1, NOT_INITIALIZED = 3, STUB_LIBRARY = 34 };

static bool is_preloaded(void) {
    return dlsym(RTLD_DEFAULT, "cushim_preload_capturing") != NULL;
}

static void *open_library(const char *name) {
    void *library = dlopen(name, RTLD_NOW);
    ck_assert_msg(library != NULL, "%s", dlerror());
    return library;
}

static void *find(void *library, const char *name) {
    void *function = dlsym(library, name);
    ck_assert_msg(function != NULL, "%s", name);
    return function;
}

/* The place of a library; NULL if it is not loaded. */
static void *place_of(const char *name) {
    struct link_map *map = NULL;
    void *library = dlopen(name, RTLD_NOW | RTLD_NOLOAD);
    if (!library)
        return NULL;
    ck_assert_int_eq(dlinfo(library, RTLD_DI_LINKMAP, &map), 0);
    void *place = (void *)map->l_addr;
    dlclose(library);
    return place;
}

/* Close the plugin, and with it the library that it brought.  Nothing will be loaded in that place
 * again. */
static void close_for_good(void *plugin, const char *library) {
    void *place = place_of(library);
    ck_assert_ptr_nonnull(place);
    dlclose(plugin);
    ck_assert_ptr_null(place_of(library));
    ck_assert_ptr_eq(
        mmap(place, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0),
        place);
}

/* More lives than there are tables at a time. */
enum { N_LIVES = 20 };

TEST(a_runtime_that_comes_back_elsewhere_is_the_one_that_is_called, .n = 2) {
    if (_i) /* the driver stays, or it goes with the runtime */
        open_library("libcuda.so.1");
    for (int i = 0; i < N_LIVES; i++) {
        void *plugin = open_library(getenv("RUNTIME_PLUGIN"));
        ck_assert_int_eq(((use_fn *)find(plugin, "plugin_use"))(), SUCCESS);
        close_for_good(plugin, "libcudart.so.13");
    }
}

TEST(a_driver_that_comes_back_elsewhere_is_the_one_that_is_called) {
    for (int i = 0; i < N_LIVES; i++) {
        void *plugin = open_library(getenv("DRIVER_PLUGIN"));
        ck_assert_int_eq(((use_fn *)find(plugin, "plugin_use"))(), SUCCESS);
        close_for_good(plugin, "libcuda.so.1");
    }
}

TEST(memory_of_a_driver_that_went_is_nobodys) {
    uint64_t old[2], block;
    void *plugin = open_library(getenv("DRIVER_PLUGIN"));
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(((keep_fn *)find(plugin, "plugin_keep"))(&old[i]), SUCCESS);
    close_for_good(plugin, "libcuda.so.1");
    plugin = open_library(getenv("DRIVER_PLUGIN"));
    free_fn *free_block = (free_fn *)find(plugin, "plugin_free");
    ck_assert_int_eq(free_block(old[1]), NOT_INITIALIZED);
    ck_assert_int_eq(((keep_fn *)find(plugin, "plugin_keep"))(&block), SUCCESS);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(free_block(old[i]), old[i] == block ? SUCCESS : INVALID_VALUE);
    ck_assert_int_eq(((use_fn *)find(plugin, "plugin_use"))(), SUCCESS);
}

TEST(a_plugin_that_stays_keeps_its_runtime_while_others_go) {
    void *stays = open_library(getenv("RUNTIME_PLUGIN"));
    use_fn *use = (use_fn *)find(stays, "plugin_use");
    for (int i = 0; i < N_LIVES; i++) {
        void *goes = open_library(getenv("DRIVER_PLUGIN"));
        ck_assert_int_eq(use(), SUCCESS);
        dlclose(goes);
        ck_assert_int_eq(use(), SUCCESS);
    }
}

static atomic_bool is_over;

static void *use_all_the_time(void *use) {
    intptr_t answer = SUCCESS;
    while (!atomic_load(&is_over) && answer == SUCCESS)
        answer = ((use_fn *)use)();
    return (void *)answer;
}

TEST(threads_allocate_while_libraries_of_others_come_and_go) {
    enum { N_THREADS = 4 };
    pthread_t threads[N_THREADS];
    void *plugin = open_library(getenv("RUNTIME_PLUGIN"));
    void *use = find(plugin, "plugin_use");
    ck_assert_int_eq(((use_fn *)use)(), SUCCESS);
    for (int i = 0; i < N_THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, use_all_the_time, use), 0);
    for (int i = 0; i < 200; i++)
        dlclose(open_library(getenv("READERS_LIBRARY")));
    atomic_store(&is_over, true);
    for (int i = 0; i < N_THREADS; i++) {
        void *answer = NULL;
        pthread_join(threads[i], &answer);
        ck_assert_int_eq((intptr_t)answer, SUCCESS);
    }
}

/* ---- drivers that are only probed ---- */

enum { N_PAIRS = 100 };

/* How often the driver was asked for memory. */
static unsigned long use_driver(void) {
    void *driver = open_library("libcuda.so.1"), *context = NULL;
    alloc_fn *alloc = (alloc_fn *)find(driver, "cuMemAlloc_v2");
    free_fn *free_block = (free_fn *)find(driver, "cuMemFree_v2");
    ck_assert_int_eq(((init_fn *)find(driver, "cuInit"))(0), SUCCESS);
    ck_assert_int_eq(((context_fn *)find(driver, "cuDevicePrimaryCtxRetain"))(&context, 0),
                     SUCCESS);
    ck_assert_int_eq(((current_fn *)find(driver, "cuCtxSetCurrent"))(context), SUCCESS);
    for (int i = 0; i < N_PAIRS; i++) {
        uint64_t block = 0;
        ck_assert_int_eq(alloc(&block, 5000), SUCCESS);
        ck_assert_int_eq(free_block(block), SUCCESS);
    }
    return ((calls_fn *)find(driver, "sim_calls"))("cuMemAlloc_v2");
}

/* The cases: a stub, and a driver that lacks what we need, kept or closed. */
TEST(a_driver_that_was_probed_first_does_not_keep_us_from_the_right_one, .n = 4) {
    void *probed = open_library(getenv(_i & 1 ? "STUB_DRIVER" : "OLD_DRIVER"));
    int answer = ((init_fn *)find(probed, "cuInit"))(0);
    ck_assert_int_eq(answer, _i & 1 ? STUB_LIBRARY : SUCCESS);
    if (_i & 2)
        dlclose(probed);
    unsigned long n_calls = use_driver();
    if (is_preloaded())
        ck_assert_uint_lt(n_calls, N_PAIRS / 2);
    else
        ck_assert_uint_eq(n_calls, N_PAIRS);
    if (!(_i & 2)) /* what was kept is still its own */
        ck_assert_int_eq(((init_fn *)find(probed, "cuInit"))(0), answer);
}

/* Our table then has no function of the driver before. */
TEST(a_driver_with_fewer_functions_has_none_of_the_one_before) {
    void *plugin = open_library(getenv("DRIVER_PLUGIN"));
    use_fn *synchronise = (use_fn *)dlsym(RTLD_DEFAULT, "cuCtxSynchronize");
    ck_assert_int_eq(((use_fn *)find(plugin, "plugin_use"))(), SUCCESS);
    close_for_good(plugin, "libcuda.so.1");
    if (is_preloaded())
        ck_assert_int_eq(synchronise(), NOT_INITIALIZED);
    void *old = open_library(getenv("OLD_DRIVER"));
    if (is_preloaded())
        ck_assert_int_eq(synchronise(), NOT_INITIALIZED);
    ck_assert_int_eq(((init_fn *)find(old, "cuInit"))(0), SUCCESS);
    ck_assert_ptr_null(dlsym(old, "cuCtxSynchronize"));
}

int main(void) {
    return tests_run("reload");
}
