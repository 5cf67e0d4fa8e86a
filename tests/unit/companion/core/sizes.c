/* A language binding passes a negative number as a size above 2^63-1, which is INVALID everywhere
 * (E2). */
#include "cushim/cushim.h"
#include "tests/unit/companion/core/call_fixture.h"
#include "tests/unit/suite.h"

static const size_t negative = (size_t)-1;

#define refused(call, status, part)                                                                \
    do {                                                                                           \
        ck_assert_int_eq((call), (status));                                                        \
        ck_said(part);                                                                             \
    } while (0)

SIM_KERNEL(nothing) {
    (void)launch;
    (void)args;
}

TEST(memory_of_a_negative_size_is_refused) {
    struct cushim_pool *pool;
    void *host = NULL;
    cushim_devptr p = 0;
    refused(cushim_memory_alloc(NULL, negative, &p), CUSHIM_INVALID, "cushim_memory_alloc");
    refused(cushim_memory_alloc_managed(NULL, negative, CUSHIM_ATTACH_FLAG_GLOBAL, &p),
            CUSHIM_INVALID, "cushim_memory_alloc_managed");
    refused(cushim_memory_alloc_async(NULL, negative, &p), CUSHIM_INVALID,
            "cushim_memory_alloc_async");
    refused(cushim_host_alloc(NULL, negative, 0, &host), CUSHIM_INVALID, "cushim_host_alloc");
    ck_ok(cushim_pool_create(NULL, &pool));
    refused(cushim_pool_alloc(pool, 0, 0, negative, NULL, &p), CUSHIM_INVALID, "cushim_pool_alloc");
    refused(cushim_pool_trim(pool, -1, negative), CUSHIM_INVALID, "cushim_pool_trim");
    ck_ok(cushim_pool_destroy(pool));
    ck_assert_uint_eq(p, 0);
    ck_assert_ptr_null(host);
}

TEST(a_buffer_of_a_negative_size_is_refused) {
    struct cushim_module *module;
    char text[64];
    refused(cushim_device_name(0, text, negative), CUSHIM_INVALID, "cushim_device_name");
    refused(cushim_device_pci(0, text, negative), CUSHIM_INVALID, "cushim_device_pci");
    ck_assert_int_eq(cushim_error_copy(text, negative, NULL), CUSHIM_INVALID);
    ck_ok(cushim_module_load(NULL, SIM_MODULE_IMAGE, 0, NULL, &module));
    refused(cushim_module_log(module, text, negative), CUSHIM_INVALID, "cushim_module_log");
    ck_ok(cushim_module_unload(module));
}

TEST(shared_memory_and_limits_of_a_negative_size_are_refused) {
    struct cushim_module *module;
    struct cushim_function *f;
    int n, grid, block;
    ck_ok(cushim_module_load(NULL, SIM_MODULE_IMAGE, 0, NULL, &module));
    ck_ok(cushim_module_function(module, "nothing", &f));
    refused(cushim_function_occupancy(f, 128, negative, &n), CUSHIM_INVALID,
            "cushim_function_occupancy");
    refused(cushim_function_suggest(f, negative, 0, &grid, &block), CUSHIM_INVALID,
            "cushim_function_suggest");
    refused(cushim_context_limit_set(NULL, 0, negative), CUSHIM_INVALID,
            "cushim_context_limit_set");
    ck_ok(cushim_module_unload(module));
}

SUITE() {
    return tests_run("sizes");
}
