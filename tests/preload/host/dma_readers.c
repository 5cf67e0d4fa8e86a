/*
 * Readers that no event sees (interposition.md C13): once one may be at work, new requests of 2 MiB
 * and up are driver allocations of their own, and the driver frees them.
 */
#include "tests/preload/fixture/fixture.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static unsigned n_links_read;

/* It replaces the C library's, for the preload, too. */
__attribute__((visibility("default"))) ssize_t readlinkat(int folder, const char *path, char *out,
                                                          size_t n_bytes) {
    n_links_read++;
    return syscall(SYS_readlinkat, folder, path, out, n_bytes);
}

static void ask_for_handle(CUdeviceptr address) {
    int handle;
    cuMemGetHandleForAddressRange(&handle, address, 2 * MIB, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
                                  0);
}

static void ask_for_tokens(CUdeviceptr address) {
    CUDA_POINTER_ATTRIBUTE_P2P_TOKENS tokens;
    cuPointerGetAttribute(&tokens, CU_POINTER_ATTRIBUTE_P2P_TOKENS, address);
}

static void ask_for_many(CUdeviceptr address) {
    CUDA_POINTER_ATTRIBUTE_P2P_TOKENS tokens;
    unsigned type;
    CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                        CU_POINTER_ATTRIBUTE_P2P_TOKENS};
    void *data[] = {&type, &tokens};
    cuPointerGetAttributes(2, attributes, data, address);
}

static void set_sync_memops(CUdeviceptr address) {
    unsigned on = 1;
    cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address);
}

/* The pool grows, and looks around, which it does not do each time. */
static void grow(void) {
    nanosleep(&(struct timespec){0, 150000000}, NULL);
    fixture_alloc(50 * MIB);
}

static void load_library(void) {
    ck_assert_ptr_nonnull(dlopen(getenv("READERS_LIBRARY"), RTLD_NOW | RTLD_LOCAL));
}

/* A file with the device's name, because no machine here has the device. */
static void open_device(void) {
    char folder[] = "/tmp/cushim-readers-XXXXXX", path[64];
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/gdrdrv", folder);
    ck_assert_int_ge(open(path, O_RDWR | O_CREAT, 0600), 0);
    unlink(path);
    rmdir(folder);
}

/* A reader's library has opened its device. */
static void open_reader(CUdeviceptr address) {
    (void)address;
    load_library();
    open_device();
    grow();
}

static void (*const signs[])(CUdeviceptr) = {ask_for_handle, ask_for_tokens, ask_for_many,
                                             set_sync_memops, open_reader};
enum { N_SIGNS = sizeof signs / sizeof *signs };

/* The number of driver frees of one free of 3 MiB. */
static unsigned long frees_of_one_free(void) {
    CUdeviceptr address = fixture_alloc(4 * MIB);
    size_t live_bytes = sim_live_bytes();
    unsigned long n = sim_calls("cuMemFree_v2");
    OK(cuMemFree(address));
    n = sim_calls("cuMemFree_v2") - n;
    ck_assert_uint_eq(live_bytes - sim_live_bytes(), n * 4 * MIB);
    return n;
}

TEST(large_blocks_are_freed_natively_once_a_reader_was_seen, .n = N_SIGNS) {
    fixture_use_device(0);
    CUdeviceptr address = fixture_alloc(4 * MIB);
    OK(cuMemFree(fixture_alloc(20 * MIB)));
    ck_assert_uint_eq(frees_of_one_free(), fixture_is_preloaded() ? 0 : 1);
    signs[_i](address);
    ck_assert_uint_eq(frees_of_one_free(), 1);
    CUdeviceptr small = fixture_alloc(1 * MIB);
    unsigned long n = sim_calls("cuMemFree_v2");
    OK(cuMemFree(small));
    ck_assert_uint_eq(sim_calls("cuMemFree_v2") - n, fixture_is_preloaded() ? 0 : 1);
    OK(cuMemFree(address)); /* it is from before, shares its segment, and is reused as usual */
}

static void stay_pooled_after(void (*happen)(void)) {
    fixture_use_device(0);
    OK(cuMemFree(fixture_alloc(20 * MIB)));
    happen();
    grow();
    ck_assert_uint_eq(frees_of_one_free(), fixture_is_preloaded() ? 0 : 1);
}

/* PyTorch maps libcufile in every process, and hardly ever uses it. */
TEST(a_library_that_has_not_opened_its_device_is_no_reader) {
    stay_pooled_after(load_library);
}

TEST(a_device_without_its_library_is_no_reader) {
    stay_pooled_after(open_device);
}

/* ---- many descriptors ---- */

enum { N_DESCRIPTORS = 400, MOST_PER_LOOK = 200, N_LOOKS = 8 };

/* The last of them. */
static int open_many(void) {
    int fd = open("/dev/null", O_RDONLY);
    for (int i = 0; i < N_DESCRIPTORS; i++)
        ck_assert_int_ge(fd = dup(fd), 0);
    return fd;
}

/* Grow until the looks have seen all. */
static void grow_on(void) {
    for (int i = 0; i < N_LOOKS && fixture_is_preloaded(); i++)
        grow();
}

TEST(a_look_goes_through_few_of_many_descriptors) {
    fixture_use_device(0);
    load_library();
    open_many();
    for (int i = 0; i < 3; i++) {
        n_links_read = 0;
        grow();
        ck_assert_uint_le(n_links_read, MOST_PER_LOOK);
        ck_assert(n_links_read > 0 || !fixture_is_preloaded());
    }
    ck_assert_uint_eq(frees_of_one_free(), fixture_is_preloaded() ? 0 : 1);
}

TEST(a_device_that_is_opened_behind_many_is_seen_by_the_next_look) {
    fixture_use_device(0);
    load_library();
    open_many();
    grow_on();
    ck_assert_uint_eq(frees_of_one_free(), fixture_is_preloaded() ? 0 : 1);
    open_device();
    grow();
    ck_assert_uint_eq(frees_of_one_free(), 1);
}

/* The device gets the number of a descriptor that was closed. */
TEST(a_device_that_is_opened_among_many_is_seen_in_the_end) {
    fixture_use_device(0);
    load_library();
    int last = open_many();
    grow_on();
    close(last - N_DESCRIPTORS / 2);
    open_device();
    grow_on();
    ck_assert_uint_eq(frees_of_one_free(), 1);
}

int main(void) {
    return fixture_run("readers");
}
