/* Loading, with and without a driver: cases L1, L3 and L4 of the specification. */
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cushim/cushim.h"
#include "tests/unit/companion/core/sim_fixture.h"
#include "tests/unit/suite.h"

static int n_devices = -1;

#define assert_text(part)    ck_assert_ptr_nonnull(strstr(cushim_last_error(), part))
#define assert_no_text(part) ck_assert_ptr_null(strstr(cushim_last_error(), part))

TEST(without_a_driver_every_call_says_so) {
    struct cushim_context *context = (void *)1;
    setenv("CUSHIM_LIBCUDA", "/nowhere/libcuda.so.1", 1);
    ck_assert_str_eq(cushim_load_error(), "");
    ck_assert_str_eq(cushim_last_error(), "");
    ck_assert_int_eq(cushim_available(), 0);
    ck_assert_int_eq(cushim_device_count(&n_devices), CUSHIM_NOCUDA);
    ck_assert_int_eq(n_devices, 0);
    assert_text("cushim_device_count failed: CUSHIM_NOCUDA: ");
    assert_text("/nowhere/libcuda.so.1");
    assert_text("No such file");
    assert_no_text("/nowhere/libcuda.so.1: /nowhere/libcuda.so.1");
    ck_assert_int_eq(cushim_last_cuda_code(), 0);
    ck_assert_int_eq(cushim_context_primary(0, &context), CUSHIM_NOCUDA);
    ck_assert_ptr_null(context);
    ck_assert_int_eq(cushim_context_pop(NULL), CUSHIM_NOCUDA);
    ck_assert_int_eq(cushim_context_synchronize((void *)0x1234), CUSHIM_NOCUDA);
    ck_assert_ptr_nonnull(strstr(cushim_load_error(), "/nowhere/libcuda.so.1: "));
    ck_assert_int_eq(cushim_has(CUSHIM_FEATURE_GRAPH), 0);
}

TEST(the_default_name_is_in_the_text) {
    unsetenv("CUSHIM_LIBCUDA");
    void *system = dlopen("libcuda.so.1", RTLD_LAZY);
    if (system) /* a machine with a driver loads it */
        return;
    ck_assert_int_eq(cushim_available(), 0);
    ck_assert_int_eq(cushim_load(NULL), CUSHIM_NOCUDA);
    assert_text("libcuda.so.1: ");
    assert_no_text("libcuda.so.1: libcuda.so.1");
}

TEST(only_an_explicit_load_retries_a_failed_load) {
    char sim[1024];
    snprintf(sim, sizeof sim, "%s", getenv("CUSHIM_LIBCUDA"));
    setenv("CUSHIM_LIBCUDA", "/nowhere/libcuda.so.1", 1);
    ck_assert_int_eq(cushim_available(), 0);
    setenv("CUSHIM_LIBCUDA", sim, 1);
    ck_assert_int_eq(cushim_available(), 0);
    ck_assert_int_eq(cushim_load(NULL), CUSHIM_OK);
    ck_assert_int_eq(cushim_available(), 1);
    ck_assert_str_eq(cushim_load_error(), "");
    ck_assert_int_eq(cushim_load(sim), CUSHIM_OK);
    ck_assert_int_eq(cushim_load("/other/libcuda.so.1"), CUSHIM_STATE);
    assert_text("/other/libcuda.so.1");
}

TEST(unload_forgets_the_driver_unless_objects_live) {
    struct cushim_context *context;
    ck_assert_int_eq(cushim_context_primary(0, &context), CUSHIM_OK);
    ck_assert_int_eq(cushim_unload(), CUSHIM_STATE);
    ck_assert_int_eq(cushim_context_destroy(context), CUSHIM_OK);
    ck_assert_int_eq(cushim_unload(), CUSHIM_OK);
    /* The next load finds the library that is mapped already. */
    setenv("CUSHIM_LIBCUDA", "/nowhere/libcuda.so.1", 1);
    ck_assert_int_eq(cushim_available(), 1);
    ck_assert_int_eq(cushim_load("/other/libcuda.so.1"), CUSHIM_STATE);
    assert_text("loaded=libcuda.so.1");
}

static void copy_file(const char *from, const char *to) {
    char command[3000];
    snprintf(command, sizeof command, "cp '%s' '%s'", from, to);
    ck_assert_int_eq(system(command), 0);
}

TEST(a_library_that_everyone_may_write_is_not_loaded) {
    char folder[] = "/tmp/cushim-load-XXXXXX", path[64];
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/libcuda.so.1", folder);
    copy_file(getenv("CUSHIM_LIBCUDA"), path);
    setenv("CUSHIM_LIBCUDA", path, 1);
    chmod(path, 0757);
    ck_assert_int_eq(cushim_load(NULL), CUSHIM_NOCUDA);
    assert_text("file is writable by everybody");
    chmod(path, 0755);
    chmod(folder, 0757);
    ck_assert_int_eq(cushim_load(NULL), CUSHIM_NOCUDA);
    assert_text("folder is writable by everybody");
    chmod(folder, 0755);
    ck_assert_int_eq(cushim_load("libcuda.so.1"), CUSHIM_NOCUDA);
    assert_text("not an absolute path");
    ck_assert_int_eq(cushim_load(NULL), CUSHIM_OK);
    unlink(path);
    rmdir(folder);
}

TEST(a_driver_without_a_required_entry_is_named_with_it) {
    setenv("CUSHIM_LIBCUDA", getenv("CUSHIM_TEST_EMPTY"), 1);
    ck_assert_int_eq(cushim_device_count(&n_devices), CUSHIM_NOCUDA);
    assert_text("it has no cuInit");
}

TEST(the_error_of_cuInit_is_passed_on) {
    setenv("CUDA_VISIBLE_DEVICES", "-1", 1);
    ck_assert_int_eq(cushim_available(), 0);
    ck_assert_int_eq(cushim_load(NULL), CUSHIM_OK);
    ck_assert_int_eq(cushim_device_count(&n_devices), CUSHIM_NODEVICE);
    assert_text("cuInit failed: CUDA_ERROR_NO_DEVICE: ");
    ck_assert_int_eq(cushim_last_cuda_code(), 100);
    ck_assert_ptr_nonnull(strstr(cushim_load_error(), "cuInit: CUDA_ERROR_NO_DEVICE"));
}

TEST(null_handles_are_refused_without_a_driver) {
    setenv("CUSHIM_LIBCUDA", "/nowhere/libcuda.so.1", 1);
    ck_assert_int_eq(cushim_context_destroy(NULL), CUSHIM_OK);
    ck_assert_int_eq(cushim_dl_close(NULL), CUSHIM_OK);
    ck_assert_int_eq(cushim_context_destroy((void *)0x1234), CUSHIM_BADHANDLE);
    ck_assert_int_eq(cushim_dl_close((void *)0x1234), CUSHIM_BADHANDLE);
}

TEST(destroyed_handles_and_those_of_another_kind_are_refused) {
    struct cushim_context *context;
    ck_assert_int_eq(cushim_context_create(0, 0, &context), CUSHIM_OK);
    ck_assert_int_eq(cushim_dl_close((void *)context), CUSHIM_BADHANDLE);
    ck_assert_int_eq(cushim_context_destroy(context), CUSHIM_OK);
    ck_assert_int_eq(cushim_context_destroy(context), CUSHIM_BADHANDLE);
    ck_assert_int_eq(cushim_context_push(context), CUSHIM_BADHANDLE);
    ck_assert_int_eq(cushim_context_push((void *)0x1234), CUSHIM_BADHANDLE);
    ck_assert_int_eq(cushim_context_push(NULL), CUSHIM_INVALID);
    ck_assert_int_eq(cushim_context_destroy((void *)0x1234), CUSHIM_BADHANDLE);
}

/* Checks in a child process; returns its exit code. */
static int in_child(int (*look)(void)) {
    int state;
    pid_t child = fork();
    if (!child)
        _exit(look());
    ck_assert_int_eq(waitpid(child, &state, 0), child);
    return WIFEXITED(state) ? WEXITSTATUS(state) : -1;
}

static struct cushim_context *before_fork;

static int look_used(void) {
    struct cushim_context *context;
    return cushim_available() == 0 && cushim_device_count(&n_devices) == CUSHIM_NOCUDA &&
           cushim_context_primary(0, &context) == CUSHIM_NOCUDA &&
           cushim_context_destroy(before_fork) == CUSHIM_NOCUDA &&
           cushim_context_synchronize(before_fork) == CUSHIM_NOCUDA &&
           cushim_load(NULL) == CUSHIM_NOCUDA && cushim_unload() == CUSHIM_NOCUDA &&
           strstr(cushim_last_error(), "forked") != NULL;
}

static int look_fresh(void) {
    return cushim_available() == 1 && cushim_device_count(&n_devices) == CUSHIM_OK;
}

TEST(a_child_forked_after_the_first_use_has_no_CUDA_and_the_parent_goes_on) {
    ck_assert_int_eq(cushim_context_create(0, 0, &before_fork), CUSHIM_OK);
    ck_assert_int_eq(in_child(look_used), 1);
    ck_assert_int_eq(cushim_available(), 1);
    ck_assert_int_eq(cushim_context_synchronize(before_fork), CUSHIM_OK);
    ck_assert_int_eq(cushim_context_destroy(before_fork), CUSHIM_OK);
}

TEST(a_child_forked_before_is_a_fresh_process) {
    ck_assert_int_eq(in_child(look_fresh), 1);
    ck_assert_int_eq(cushim_available(), 1);
}

TEST(the_text_is_copied_or_cut) {
    char text[256];
    size_t need;
    ck_assert_int_eq(cushim_context_push(NULL), CUSHIM_INVALID);
    ck_assert_str_eq(cushim_last_error(),
                     "cushim_context_push failed: CUSHIM_INVALID: argument outside its documented "
                     "range (handle=NULL)");
    ck_assert_int_eq(cushim_error_copy(NULL, 0, &need), CUSHIM_OK);
    ck_assert_uint_eq(need, strlen(cushim_last_error()) + 1);
    ck_assert_int_eq(cushim_error_copy(text, need - 1, NULL), CUSHIM_INVALID);
    ck_assert_uint_eq(strlen(text), need - 2);
    ck_assert_int_eq(cushim_error_copy(text, need, NULL), CUSHIM_OK);
    ck_assert_str_eq(text, cushim_last_error());
    ck_assert_int_eq(cushim_device_count(&n_devices), CUSHIM_OK);
    ck_assert_str_eq(text, cushim_last_error());
}

TEST(entry_points_are_found_by_their_exported_names) {
    void *fn, *again;
    sim_find("cuMemAlloc_v2", &again);
    ck_assert_int_eq(cushim_symbol("cuMemAlloc_v2", &fn), CUSHIM_OK);
    ck_assert_ptr_eq(fn, again);
    ck_assert_int_eq(cushim_symbol("cuNothing", &fn), CUSHIM_NOSYM);
    ck_assert_ptr_null(fn);
    assert_text("cuNothing");
}

TEST(libraries_open_only_by_absolute_path) {
    struct cushim_library *library;
    void *fn;
    ck_assert_int_eq(cushim_dl_open("libc.so.6", &library), CUSHIM_INVALID);
    ck_assert_int_eq(cushim_dl_open("/nowhere/x.so", &library), CUSHIM_NOFILE);
    assert_text("/nowhere/x.so: ");
    assert_no_text("/nowhere/x.so: /nowhere/x.so");
    ck_assert_int_eq(cushim_dl_open(getenv("CUSHIM_LIBCUDA"), &library), CUSHIM_OK);
    ck_assert_int_eq(cushim_dl_symbol(library, "cuInit", &fn), CUSHIM_OK);
    ck_assert_int_eq(cushim_dl_symbol(library, "cuNothing", &fn), CUSHIM_NOTFOUND);
    ck_assert_int_eq(cushim_dl_close(library), CUSHIM_OK);
    ck_assert_int_eq(cushim_dl_symbol(library, "cuInit", &fn), CUSHIM_BADHANDLE);
}

SUITE() {
    return tests_run("load");
}
