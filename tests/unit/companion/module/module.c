/* Modules: images, logs, functions and variables, and how they end. */
#include "cushim/module.h"

#include <stdio.h>
#include <unistd.h>

#include "cushim/function.h"
#include "companion/context/address_map.h"
#include "tests/unit/companion/core/call_fixture.h"
#include "tests/unit/suite.h"

#define IMAGE                                                                                      \
    SIM_MODULE_IMAGE "\n.entry first 8\n.entry second 4 8\n.global words 64\n.global more 8\n"

static struct cushim_module *load(const char *image) {
    struct cushim_module *m;
    ck_ok(cushim_module_load(NULL, image, 0, NULL, &m));
    return m;
}

TEST(unload_accepts_null_and_refuses_other_objects) {
    struct cushim_module *m = load(IMAGE);
    struct cushim_function *f;
    ck_ok(cushim_module_function(m, "first", &f));
    ck_ok(cushim_module_unload(NULL));
    ck_ok(cushim_module_unload(m));
    ck_is(cushim_module_unload(m), CUSHIM_BADHANDLE);
    ck_is(cushim_module_unload((struct cushim_module *)0x1234), CUSHIM_BADHANDLE);
    ck_is(cushim_module_unload((struct cushim_module *)f), CUSHIM_BADHANDLE);
    ck_is(cushim_module_function(m, "first", &f), CUSHIM_BADHANDLE);
    ck_assert_ptr_null(f);
    ck_assert_uint_eq(n_calls("cuModuleUnload"), 1);
}

TEST(arguments_are_checked) {
    struct cushim_module_options o;
    struct cushim_module *m = (struct cushim_module *)1;
    struct cushim_function *f;
    cushim_devptr p;
    char log[100];
    cushim_module_options_default(&o);
    ck_is(cushim_module_load(NULL, NULL, 0, NULL, &m), CUSHIM_INVALID);
    ck_assert_ptr_null(m);
    ck_is(cushim_module_load(NULL, IMAGE, 0, NULL, NULL), CUSHIM_INVALID);
    ck_is(cushim_module_load(NULL, IMAGE, (size_t)-5, NULL, &m), CUSHIM_INVALID);
    o.level = 5;
    ck_is(cushim_module_load(NULL, IMAGE, 0, &o, &m), CUSHIM_INVALID);
    ck_said("level=5");
    o.level = 4;
    o.struct_size = 4;
    ck_is(cushim_module_load(NULL, IMAGE, 0, &o, &m), CUSHIM_ABI);
    o.struct_size = 8;
    ck_ok(cushim_module_load(NULL, IMAGE, 0, &o, &m));
    ck_is(cushim_module_function(m, NULL, &f), CUSHIM_INVALID);
    ck_is(cushim_module_function(m, "first", NULL), CUSHIM_INVALID);
    ck_is(cushim_module_global(m, "words", NULL, NULL), CUSHIM_INVALID);
    ck_is(cushim_module_global(m, NULL, &p, NULL), CUSHIM_INVALID);
    ck_is(cushim_module_log(m, NULL, 9), CUSHIM_INVALID);
    ck_is(cushim_module_log(m, log, 3), CUSHIM_INVALID);
    ck_said("need=");
    ck_assert_str_eq(log, "");
    ck_ok(cushim_module_log(m, log, sizeof log));
    ck_assert_ptr_nonnull(strstr(log, "4 symbols"));
}

TEST(a_text_needs_no_nul_and_a_binary_must_be_complete) {
    struct cushim_module *m;
    struct cushim_function *f;
    unsigned char elf[64] = {0x7f, 'E', 'L', 'F'};
    const uint32_t fatbin[4] = {0xba55ed50, 16u << 16 | 1, 1000, 0};
    char text[] = SIM_MODULE_IMAGE "\n.entry first#";
    ck_ok(cushim_module_load(NULL, text, sizeof text - 2, NULL, &m));
    ck_ok(cushim_module_function(m, "first", &f));
    elf[0x28] = 64; /* section table at 64: one entry of 64 bytes */
    elf[0x3a] = 64;
    elf[0x3c] = 1;
    ck_is(cushim_module_load(NULL, elf, sizeof elf, NULL, &m), CUSHIM_INVALID);
    ck_said("cut short");
    elf[0x3c] = 0;
    ck_is(cushim_module_load(NULL, elf, sizeof elf, NULL, &m), CUSHIM_NOBINARY);
    ck_is(cushim_module_load(NULL, fatbin, sizeof fatbin, NULL, &m), CUSHIM_INVALID);
    ck_is(cushim_module_load(NULL, elf, 5, NULL, &m), CUSHIM_INVALID);
}

TEST(the_error_text_has_up_to_32_kib_of_the_compilers_log) {
    struct cushim_module *m;
    ck_is(cushim_module_load(NULL, SIM_MODULE_IMAGE "\n\n.nonsense\n", 0, NULL, &m),
          CUSHIM_COMPILE);
    ck_said("cuModuleLoadDataEx failed: CUDA_ERROR_INVALID_PTX");
    ck_said("line 3");
    ck_assert_int_eq(cushim_last_cuda_code(), CUDA_ERROR_INVALID_PTX);
    ck_is(cushim_module_load(NULL, "no image", 0, NULL, &m), CUSHIM_COMPILE);
    ck_is(cushim_module_load(NULL, ".version 6.4", 0, NULL, &m), CUSHIM_COMPILE);
    ck_said("CUDA_ERROR_NO_BINARY_FOR_GPU"); /* whose log is longer on the software device */
    ck_is(cushim_module_load(NULL, SIM_MODULE_IMAGE "\n.extern other\n", 0, NULL, &m),
          CUSHIM_COMPILE);
    ck_said("'other'");
}

TEST(a_file_is_read_or_the_reason_is_given) {
    char path[] = "/tmp/cushim-module-XXXXXX";
    struct cushim_module *m;
    struct cushim_function *f;
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, IMAGE, sizeof IMAGE - 1), sizeof IMAGE - 1);
    close(fd);
    ck_ok(cushim_module_load_file(NULL, path, NULL, &m));
    ck_ok(cushim_module_function(m, "second", &f));
    unlink(path);
    ck_is(cushim_module_load_file(NULL, path, NULL, &m), CUSHIM_NOFILE);
    ck_said(path);
    ck_is(cushim_module_load_file(NULL, "/tmp", NULL, &m), CUSHIM_NOFILE);
    ck_is(cushim_module_load_file(NULL, NULL, NULL, &m), CUSHIM_INVALID);
}

TEST(a_function_has_one_handle_that_dies_with_its_module) {
    struct cushim_module *m = load(IMAGE);
    struct cushim_function *f, *again, *other;
    int v;
    ck_ok(cushim_module_function(m, "first", &f));
    ck_ok(cushim_module_function(m, "first", &again));
    ck_assert_ptr_eq(again, f);
    ck_ok(cushim_module_function(m, "second", &other));
    ck_assert_ptr_ne(other, f);
    ck_is(cushim_module_function(m, "third", &other), CUSHIM_NOTFOUND);
    ck_said("name=third");
    ck_assert_ptr_null(other);
    ck_ok(cushim_function_attribute(f, 4, &v));
    ck_ok(cushim_module_unload(m));
    ck_is(cushim_function_attribute(f, 4, &v), CUSHIM_BADHANDLE);
}

TEST(a_variable_is_in_the_address_map_until_the_unload) {
    struct cushim_module *m = load(IMAGE);
    struct cushim_address_map_row row;
    cushim_devptr p, again;
    size_t bytes;
    size_t n_before = cushim_address_map_count();
    ck_ok(cushim_module_global(m, "words", &p, &bytes));
    ck_assert_uint_eq(bytes, 64);
    ck_ok(cushim_module_global(m, "words", &again, NULL));
    ck_assert_uint_eq(again, p);
    ck_assert_uint_eq(cushim_address_map_count(), n_before + 1);
    ck_ok(cushim_module_global(m, "more", &again, NULL));
    ck_assert_uint_eq(cushim_address_map_count(), n_before + 2);
    ck_assert(cushim_address_map_find(p + 63, &row));
    ck_assert_int_eq(row.kind, CUSHIM_MEMORY_GLOBAL);
    ck_assert_ptr_nonnull(row.owner);
    cushim_address_map_drop(&row);
    ck_is(cushim_module_global(m, "nothing", &p, &bytes), CUSHIM_NOTFOUND);
    ck_said("name=nothing");
    ck_assert_uint_eq(p, 0);
    ck_ok(cushim_module_unload(m));
    ck_assert_uint_eq(cushim_address_map_count(), n_before);
    ck_assert_uint_eq(n_calls("cuModuleUnload"), 1);
    ck_assert_uint_eq(SIM(sim_live_allocations)(), 0);
}

static enum cushim_status load_and_look(struct cushim_module **m) {
    struct cushim_function *f;
    cushim_devptr p;
    enum cushim_status status = cushim_module_load(NULL, IMAGE, 0, NULL, m);
    if (status == CUSHIM_OK)
        status = cushim_module_function(*m, "second", &f);
    if (status == CUSHIM_OK)
        status = cushim_module_global(*m, "words", &p, NULL);
    return status;
}

TEST(a_refused_driver_call_leaves_nothing_behind) {
    struct cushim_module *m;
    primary(0);
    for (unsigned n = 1;; n++) {
        fail_at(n);
        bool is_over = fail_is_over(load_and_look(&m));
        ck_assert_ptr_null(sim_current());
        ck_ok(cushim_module_unload(m));
        ck_assert_uint_eq(SIM(sim_live_allocations)(), 0);
        ck_assert_uint_eq(cushim_address_map_count(), 0);
        if (is_over)
            break;
    }
}

TEST(a_failed_link_names_the_missing_symbol_and_leaves_nothing_behind) {
    const struct cushim_link_input inputs[] = {
        {CUSHIM_LINK_PTX, SIM_MODULE_IMAGE "\n.extern other\n.entry first 8", 0, NULL},
        {CUSHIM_LINK_PTX, SIM_MODULE_IMAGE "\n.func other\n.global words 64", 0, "two"}};
    struct cushim_link_input bad = inputs[0];
    struct cushim_module *m;
    struct cushim_function *f;
    char log[64];
    ck_is(cushim_module_link(NULL, inputs, 1, NULL, &m), CUSHIM_COMPILE);
    ck_said("'other'");
    ck_is(cushim_module_link(NULL, NULL, 1, NULL, &m), CUSHIM_INVALID);
    ck_is(cushim_module_link(NULL, inputs, 0, NULL, &m), CUSHIM_INVALID);
    bad.kind = 5;
    ck_is(cushim_module_link(NULL, &bad, 1, NULL, &m), CUSHIM_INVALID);
    ck_said("kind=5");
    bad.kind = CUSHIM_LINK_CUBIN; /* with 0 bytes */
    ck_is(cushim_module_link(NULL, &bad, 1, NULL, &m), CUSHIM_INVALID);
    ck_assert_uint_eq(n_calls("cuLinkCreate_v2"), 1); /* of the first */
    for (unsigned n = 1;; n++) {
        SIM(sim_calls_reset)();
        fail_at(n);
        enum cushim_status status = cushim_module_link(NULL, inputs, 2, NULL, &m);
        bool is_over = fail_is_over(status);
        if (n_calls("cuLinkCreate_v2") && n_calls("cuLinkAddData_v2"))
            ck_assert_uint_eq(n_calls("cuLinkDestroy"), 1);
        if (status == CUSHIM_OK) {
            ck_ok(cushim_module_function(m, "first", &f));
            ck_ok(cushim_module_log(m, log, sizeof log));
            ck_assert_ptr_nonnull(strstr(log, "linked"));
        }
        ck_ok(cushim_module_unload(m));
        ck_assert_uint_eq(SIM(sim_live_allocations)(), 0);
        if (is_over)
            break;
    }
}

TEST(a_dead_context_refuses_use_but_not_the_unload) {
    struct cushim_context *ctx;
    struct cushim_module *m;
    struct cushim_function *f;
    cushim_devptr p;
    ck_ok(cushim_context_create(0, 0, &ctx));
    ck_ok(cushim_module_load(ctx, IMAGE, 0, NULL, &m));
    ck_ok(cushim_module_function(m, "first", &f));
    ck_ok(cushim_module_global(m, "words", &p, NULL));
    ck_ok(cushim_context_destroy(ctx));
    ck_is(cushim_module_function(m, "second", &f), CUSHIM_DEADCONTEXT);
    ck_ok(cushim_module_unload(m));
    ck_is(cushim_module_unload(m), CUSHIM_BADHANDLE);
    ck_assert_uint_eq(cushim_address_map_count(), 0);
    ck_assert_uint_eq(n_calls("cuModuleUnload"), 0);
}

TEST(loading_leaves_a_capture_valid_and_unloading_waits_for_its_end) {
    struct cushim_module *m = load(IMAGE), *second;
    struct cushim_function *f;
    CUstream stream;
    CUgraph graph;
    ck_ok(cushim_context_push(primary(0)));
    ck_assert_int_eq(SIM(cuStreamCreate)(&stream, 1), CUDA_SUCCESS);
    ck_assert_int_eq(SIM(cuStreamBeginCapture_v2)(stream, CU_STREAM_CAPTURE_MODE_GLOBAL),
                     CUDA_SUCCESS);
    ck_ok(cushim_context_capture_enter(NULL));
    ck_ok(cushim_module_load(NULL, IMAGE, 0, NULL, &second));
    ck_ok(cushim_module_function(second, "first", &f));
    ck_is(cushim_module_unload(m), CUSHIM_CAPTURE);
    ck_ok(cushim_module_function(m, "first", &f));
    ck_ok(cushim_context_capture_leave(NULL));
    ck_assert_int_eq(SIM(cuStreamEndCapture)(stream, &graph), CUDA_SUCCESS);
    ck_ok(cushim_module_unload(m));
}

SUITE() {
    return tests_run("module");
}
