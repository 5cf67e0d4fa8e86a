/*
 * The resolver from inside: the preload's own objects are linked into this program, whose dlsym is
 * therefore ours.  Check forks for each test, so each starts with nothing known.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/table.h"
#include "preload/resolve/lookup.h"
#include "tests/unit/suite.h"

typedef CUresult proc5_fn(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);

static void *driver;

static void open_driver(void) {
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    ck_assert_ptr_nonnull(driver);
}

static void *ask(const char *symbol, int version) {
    void *pfn = NULL;
    proc5_fn *proc = (proc5_fn *)dlsym(driver, "cuGetProcAddress_v2");
    ck_assert_int_eq(proc(symbol, &pfn, version, 0, NULL), CUDA_SUCCESS);
    return pfn;
}

TEST(an_unhooked_memory_name_is_counted_once) {
    const struct cushim_resolve_counts *counts = &cushim_page_calls.lookups;
    open_driver();
    for (int i = 0; i < 3; i++) {
        ask("cuMemGetAllocationGranularity", 12000);
        dlsym(driver, "cuMemPoolTrimTo");
        ask("cuMemAlloc", 12000);
        ask("cuCtxCreate", 12000);
    }
    ck_assert_uint_eq(counts->n_unhooked, 2);
}

TEST(each_look_up_is_counted_and_so_is_each_hook_given) {
    const struct cushim_resolve_counts *counts = &cushim_page_calls.lookups;
    open_driver();
    ck_assert_uint_eq(counts->n_lookups, 0);
    ck_assert_ptr_nonnull(dlsym(driver, "cuMemAlloc_v2"));
    ck_assert_ptr_nonnull(dlsym(driver, "cuMemGetAllocationGranularity"));
    ck_assert_ptr_nonnull(dlsym(driver, "fake_resolver"));
    ck_assert_uint_eq(counts->n_lookups, 2);
    ck_assert_uint_eq(counts->n_routed, 1);
    ck_assert_int_eq(counts->identity, CUSHIM_IDENTITY_UNKNOWN);
}

TEST(a_driver_that_gives_its_exported_addresses_is_noted) {
    open_driver();
    ask("cuInit", 12000);
    ck_assert_int_eq(cushim_page_calls.lookups.identity, CUSHIM_IDENTITY_SAME);
    ck_assert_uint_eq(cushim_page_calls.lookups.n_by_name, 0);
}

TEST(a_driver_that_gives_other_addresses_is_noted_and_routed_by_name) {
    setenv("FAKE_CUDA_THUNKS", "1", 1);
    open_driver();
    ck_assert_ptr_eq(ask("cuInit", 12000), dlsym(driver, "cuInit"));
    ck_assert_int_eq(cushim_page_calls.lookups.identity, CUSHIM_IDENTITY_OTHER);
    ck_assert_uint_eq(cushim_page_calls.lookups.n_by_name, 1);
}

TEST(names_that_are_not_the_drivers_are_not_counted) {
    open_driver();
    void *libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
    ck_assert_ptr_nonnull(dlsym(libc, "cuserid"));
    ck_assert_ptr_null(dlsym(driver, "cublasCreate_v2"));
    ck_assert_ptr_null(dlsym(driver, "cu"));
    ck_assert_uint_eq(cushim_page_calls.lookups.n_lookups, 0);
}

/* As if a library between us and the driver had looked them up through us already. */
TEST(an_answer_that_is_a_hook_stays_as_it_is) {
    bool of_runtime;
    void *of_thread = cushim_route_by_abi_name("cuMemcpyDtoH_v2_ptds", &of_runtime);
    void *hook = cushim_route_by_abi_name("cuMemcpyDtoH_v2", &of_runtime);
    ck_assert_ptr_nonnull(of_thread);
    ck_assert_ptr_ne(of_thread, hook);
    setenv("FAKE_CUDA_THUNKS", "1", 1); /* a driver whose functions are known by name */
    open_driver();
    ask("cuInit", 12000);
    ck_assert_int_eq(cushim_page_calls.lookups.identity, CUSHIM_IDENTITY_OTHER);
    ck_assert_ptr_eq(cushim_route_answer(of_thread, "cuMemcpyDtoH", 12000, 0), of_thread);
    ck_assert_ptr_eq(cushim_route_answer(hook, "cuMemcpyDtoH", 12000, 0), hook);
}

TEST(an_address_of_a_driver_that_was_unloaded_is_anybodys) {
    bool of_runtime;
    open_driver();
    struct cushim_cuda *cuda = cushim_driver();
    ck_assert_ptr_nonnull(cuda);
    void *address = (void *)cuda->cuMemAlloc_v2;
    void *hook = cushim_route_by_abi_name("cuMemAlloc_v2", &of_runtime);
    ck_assert_ptr_eq(cushim_route_answer(address, "cuMemAlloc", 12000, 0), hook);
    cushim_route_forget();
    ck_assert_ptr_eq(cushim_route_answer(address, "cuMemAlloc", 12000, 0), address);
}

TEST(drivers_that_come_and_go_are_routed_wherever_their_functions_are) {
    enum { N_SLOTS = sizeof(struct cushim_cuda) / sizeof(void *) };
    static struct cushim_cuda table; /* a driver of addresses alone */
    unsigned n_hooked = 0;
    for (uintptr_t round = 0; round < 100; round++) {
        void *addresses[N_SLOTS];
        unsigned n = 0;
        for (uintptr_t i = 0; i < N_SLOTS; i++)
            addresses[i] = (void *)(0x100000 + 16 * (round * N_SLOTS + i));
        memcpy((void *)&table, addresses, sizeof table);
        cushim_route_forget();
        cushim_route_fill(&table);
        for (unsigned i = 0; i < N_SLOTS; i++)
            n += cushim_route_answer(addresses[i], "another", 12000, 0) != addresses[i];
        n_hooked = round ? n_hooked : n;
        ck_assert_uint_gt(n, 200);
        ck_assert_uint_eq(n, n_hooked);
    }
}

TEST(without_a_driver_there_is_no_table_and_with_one_it_is_whole) {
    ck_assert_ptr_null(cushim_driver());
    open_driver();
    struct cushim_cuda *cuda = cushim_driver();
    ck_assert_ptr_nonnull(cuda);
    ck_assert_ptr_null(cushim_driver_missing());
    ck_assert_ptr_nonnull((void *)cuda->cuMemAlloc_v2);
    ck_assert_ptr_nonnull((void *)cuda->cuCtxGetCurrent);
    ck_assert_ptr_eq(cuda, cushim_driver());
}

TEST(without_a_runtime_there_is_no_table) {
    ck_assert_ptr_null(cushim_runtime(__builtin_return_address(0)));
    void *runtime = dlopen("libcudart.so.12", RTLD_NOW);
    ck_assert_ptr_nonnull(runtime);
    struct cushim_cudart *cudart = cushim_runtime(__builtin_return_address(0));
    ck_assert_ptr_nonnull(cudart);
    ck_assert_int_eq((int)cudart->cudaMalloc(NULL, 0), 12);
    ck_assert_ptr_eq(cudart, cushim_runtime(__builtin_return_address(0)));
}

TEST(call_sites_that_share_a_place_in_the_cache_keep_the_runtimes_of_their_libraries) {
    enum { N_SITES = 1024 }; /* bytes that belong to each library, more than the cache has places */
    Dl_info info[2];
    dladdr(dlsym(dlopen("libcaller11.so", RTLD_NOW), "which_runtime"), &info[0]);
    dladdr(dlsym(dlopen("libcaller12.so", RTLD_NOW), "which_runtime"), &info[1]);
    for (int i = 0; i < 4 * N_SITES; i++) {
        char *caller = (char *)info[i % 2].dli_fbase + i / 2 % N_SITES;
        struct cushim_cudart *cudart = cushim_runtime(caller);
        ck_assert_ptr_nonnull(cudart);
        ck_assert_int_eq((int)cudart->cudaMalloc(NULL, 0), i % 2 ? 12 : 11);
    }
}

static void *first_look(void *start) {
    pthread_barrier_wait(start);
    struct cushim_cuda *cuda = cushim_driver();
    return cuda && cuda->cuMemAlloc_v2 && cuda->cuStreamDestroy_v2 ? ask("cuMemAlloc", 12000)
                                                                   : NULL;
}

TEST(threads_that_look_first_at_once_get_the_same_whole_table) {
    enum { N = 16 };
    pthread_t threads[N];
    pthread_barrier_t start;
    void *hook = NULL;
    open_driver();
    pthread_barrier_init(&start, NULL, N);
    for (int i = 0; i < N; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, first_look, &start), 0);
    for (int i = 0; i < N; i++) {
        void *found = NULL;
        pthread_join(threads[i], &found);
        ck_assert_ptr_nonnull(found);
        ck_assert(i == 0 || found == hook);
        hook = found;
    }
    ck_assert_ptr_eq(hook, dlsym(driver, "cuMemAlloc_v2"));
}

TEST(the_symbol_reader_finds_what_the_real_dlsym_finds) {
    static const char *const names[] = {"realpath", "regexec", "pthread_cond_wait", "glob",
                                        "environ",  "malloc",  "no_such_name",      "timer_create"};
    struct cushim_object libc;
    ck_assert_uint_eq(cushim_object_list("libc.so.6", NULL, &libc, 1), 1);
    void *handle = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++)
        ck_assert_ptr_eq(cushim_object_symbol(&libc, names[i]), dlsym(handle, names[i]));
    ck_assert_ptr_null(cushim_object_symbol(&libc, "errno")); /* thread-local */
}

TEST(an_address_leads_to_its_object_and_a_stray_one_to_none) {
    struct cushim_object found;
    ck_assert(cushim_object_at((void *)getenv, &found));
    ck_assert_str_eq(cushim_object_base_name(&found), "libc.so.6");
    ck_assert(cushim_object_is_loaded(&found));
    ck_assert(!cushim_object_at(NULL, &found));
    ck_assert(!cushim_object_at((void *)8, &found));
    open_driver();
    ck_assert(cushim_object_at(dlsym(driver, "fake_resolver"), &found));
    ck_assert(cushim_object_is_named(&found, "libcuda.so"));
    ck_assert(cushim_object_needs(&found, "libc.so.6"));
    ck_assert(!cushim_object_needs(&found, "libc.so"));
    dlclose(driver);
    ck_assert(!cushim_object_is_loaded(&found));
}

int main(void) {
    return tests_run("resolve");
}
