#include "copy/host.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/unit/suite.h"

enum { PAGE = 4096 };

static uint64_t map(size_t n_pages, int rights) {
    void *start = mmap(NULL, n_pages * PAGE, rights, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(start, MAP_FAILED);
    return (uint64_t)(uintptr_t)start;
}

static bool is_there(uint64_t host, size_t width_bytes, size_t height, size_t row_bytes,
                     bool is_to_device) {
    struct cushim_copy_box box = {.host = {host, row_bytes, 0},
                                  .device = {0, width_bytes, 0},
                                  .width_bytes = width_bytes,
                                  .height = height,
                                  .depth = 1,
                                  .is_to_device = is_to_device};
    struct cushim_copy_cut cut = cushim_copy_cut(&box, width_bytes * height);
    struct cushim_copy_piece piece = cushim_copy_piece(&cut, 0);
    return cushim_copy_host_is_there(&cut, &piece);
}

TEST(memory_is_readable_up_to_its_last_byte) {
    uint64_t start = map(4, PROT_READ | PROT_WRITE);
    munmap((void *)(uintptr_t)(start + 3 * PAGE), PAGE);
    for (int is_to_device = 0; is_to_device < 2; is_to_device++) {
        ck_assert(is_there(start, 3 * PAGE, 1, 0, is_to_device));
        ck_assert(is_there(start + 7, 3 * PAGE - 7, 1, 0, is_to_device));
        ck_assert(!is_there(start, 3 * PAGE + 1, 1, 0, is_to_device));
        ck_assert(!is_there(start + 3 * PAGE, 1, 1, 0, is_to_device));
        ck_assert(!is_there(16, 1, 1, 0, is_to_device));
    }
}

TEST(read_only_memory_may_be_read_and_not_written) {
    uint64_t start = map(1, PROT_READ), nothing = map(1, PROT_NONE);
    ck_assert(is_there(start, PAGE, 1, 0, true));
    ck_assert(!is_there(start, PAGE, 1, 0, false));
    ck_assert(!is_there(nothing, PAGE, 1, 0, true));
}

TEST(a_mapped_file_is_readable_up_to_its_end) {
    char path[] = "/tmp/cushim-host-XXXXXX";
    int file = mkstemp(path);
    ck_assert_int_ge(file, 0);
    unlink(path);
    ck_assert_int_eq(ftruncate(file, PAGE), 0);
    void *start = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    ck_assert_ptr_ne(start, MAP_FAILED);
    ck_assert(is_there((uint64_t)(uintptr_t)start, PAGE, 1, 0, true));
    /* a touch here raises SIGBUS */
    ck_assert(!is_there((uint64_t)(uintptr_t)start, PAGE + 1, 1, 0, true));
    close(file);
}

TEST(the_gaps_between_rows_may_be_unmapped) {
    uint64_t start = map(5, PROT_READ | PROT_WRITE);
    munmap((void *)(uintptr_t)(start + 1 * PAGE), PAGE);
    munmap((void *)(uintptr_t)(start + 3 * PAGE), PAGE);
    ck_assert(is_there(start, PAGE, 3, 2 * PAGE, true));
    ck_assert(!is_there(start, PAGE + 1, 2, 2 * PAGE, true));
}

TEST(the_check_changes_no_byte) {
    uint64_t start = map(2, PROT_READ | PROT_WRITE);
    char *bytes = (char *)(uintptr_t)start;
    memset(bytes, 7, PAGE);
    ck_assert(is_there(start, 2 * PAGE, 1, 0, false));
    ck_assert_int_eq(bytes[0], 7);
    ck_assert_int_eq(bytes[PAGE - 1], 7);
    ck_assert_int_eq(bytes[PAGE], 0);
}

/* At every distance from a cache line, and to the last byte. */
TEST(rows_arrive_complete_at_any_alignment) {
    static unsigned char buffer[3 * PAGE], host[3 * PAGE];
    for (size_t i = 0; i < sizeof buffer; i++)
        buffer[i] = (unsigned char)(i * 7 + i / 251);
    for (size_t n_bytes = PAGE - 65; n_bytes < PAGE + 130; n_bytes += 13) {
        for (size_t first = 1; first <= 65; first++) {
            struct cushim_copy_box box = {.host = {(uint64_t)(uintptr_t)host + first, n_bytes, 0},
                                          .width_bytes = n_bytes,
                                          .height = 1,
                                          .depth = 1};
            struct cushim_copy_cut cut = cushim_copy_cut(&box, n_bytes);
            struct cushim_copy_piece piece = cushim_copy_piece(&cut, 0);
            memset(host, 1, sizeof host);
            cushim_copy_host_write(&cut, &piece, (char *)buffer + first / 2);
            ck_assert_int_eq(memcmp(host + first, buffer + first / 2, n_bytes), 0);
            ck_assert(host[first - 1] == 1 && host[first + n_bytes] == 1);
        }
    }
}

SUITE() {
    return tests_run("copy/host");
}
