#include "base/mapping.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/unit/suite.h"

enum { PAGE_BYTES = 1 << 16 }; /* the largest page size of any machine */

static char *map(size_t n_bytes, int rights) {
    char *start = mmap(NULL, n_bytes, rights, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(start, MAP_FAILED);
    return start;
}

static uint64_t address_of(const void *pointer) {
    return (uint64_t)(uintptr_t)pointer;
}

/* Three pages; the middle one has its own protection. */
static char *map_middle(int rights) {
    char *start = map(3 * PAGE_BYTES, PROT_NONE);
    ck_assert_int_eq(mprotect(start + PAGE_BYTES, PAGE_BYTES, rights), 0);
    return start + PAGE_BYTES;
}

TEST(a_mapping_is_found_from_its_first_byte_to_its_last) {
    struct cushim_mapping mapping;
    char *middle = map_middle(PROT_READ | PROT_WRITE);
    static const size_t offsets[] = {0, PAGE_BYTES / 2, PAGE_BYTES - 1};
    for (size_t i = 0; i < 3; i++) {
        ck_assert_int_eq(cushim_mapping_find(address_of(middle + offsets[i]), &mapping), CUSHIM_OK);
        ck_assert_uint_eq(mapping.start, address_of(middle));
        ck_assert_uint_eq(mapping.end, address_of(middle + PAGE_BYTES));
        ck_assert(mapping.is_readable);
        ck_assert_str_eq(mapping.path, "");
    }
}

TEST(a_mapping_without_rights_is_found_and_not_readable) {
    struct cushim_mapping mapping;
    char *middle = map_middle(PROT_READ);
    ck_assert_int_eq(cushim_mapping_find(address_of(middle - 1), &mapping), CUSHIM_OK);
    ck_assert(!mapping.is_readable);
    ck_assert_int_eq(cushim_mapping_find(address_of(middle + PAGE_BYTES), &mapping), CUSHIM_OK);
    ck_assert(!mapping.is_readable);
    ck_assert_uint_eq(mapping.start, address_of(middle + PAGE_BYTES));
}

TEST(an_unmapped_address_is_not_found) {
    struct cushim_mapping mapping;
    char *start = map(3 * PAGE_BYTES, PROT_READ);
    ck_assert_int_eq(munmap(start + PAGE_BYTES, PAGE_BYTES), 0);
    ck_assert_int_eq(cushim_mapping_find(address_of(start + PAGE_BYTES), &mapping),
                     CUSHIM_NOTFOUND);
    ck_assert_int_eq(cushim_mapping_find(address_of(start + PAGE_BYTES - 1), &mapping), CUSHIM_OK);
    ck_assert_int_eq(cushim_mapping_find(0, &mapping), CUSHIM_NOTFOUND);
    ck_assert_int_eq(cushim_mapping_find(UINT64_MAX, &mapping), CUSHIM_NOTFOUND);
}

TEST(a_file_is_named_and_a_long_name_cut) {
    struct cushim_mapping mapping;
    char name[300];
    memset(name, 'n', sizeof name);
    name[240] = 0;
    int fd = memfd_create(name, MFD_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(ftruncate(fd, PAGE_BYTES), 0);
    char *start = mmap(NULL, PAGE_BYTES, PROT_READ, MAP_SHARED, fd, 0);
    char *behind = map_middle(PROT_READ); /* its line comes before or after the long one */
    ck_assert_ptr_ne(start, MAP_FAILED);
    ck_assert_int_eq(cushim_mapping_find(address_of(start), &mapping), CUSHIM_OK);
    ck_assert_int_eq(strncmp(mapping.path, "/memfd:nnn", 10), 0);
    ck_assert_uint_eq(strlen(mapping.path), sizeof mapping.path - 1);
    ck_assert_int_eq(cushim_mapping_find(address_of(behind), &mapping), CUSHIM_OK);
    ck_assert_str_eq(mapping.path, "");
    int zero = open("/dev/zero", O_RDWR | O_CLOEXEC);
    start = mmap(NULL, PAGE_BYTES, PROT_READ, MAP_SHARED, zero, 0);
    ck_assert_ptr_ne(start, MAP_FAILED);
    ck_assert_int_eq(cushim_mapping_find(address_of(start), &mapping), CUSHIM_OK);
    ck_assert(cushim_mapping_is_of(&mapping, "/dev/zero"));
    ck_assert(cushim_mapping_is_of(&mapping, "/dev/z"));
    ck_assert(!cushim_mapping_is_of(&mapping, "/dev/nvidia"));
    ck_assert(!cushim_mapping_is_of(&mapping, "dev/zero"));
}

/* The list is longer than one read returns. */
TEST(the_last_of_thousands_of_mappings_is_found) {
    enum { N = 4000 };
    struct cushim_mapping mapping;
    char *start = map((size_t)N * PAGE_BYTES, PROT_NONE);
    for (size_t i = 1; i < N; i += 2)
        ck_assert_int_eq(mprotect(start + i * PAGE_BYTES, PAGE_BYTES, PROT_READ), 0);
    for (size_t i = 0; i < N; i += 97) {
        ck_assert_int_eq(cushim_mapping_find(address_of(start + i * PAGE_BYTES), &mapping),
                         CUSHIM_OK);
        ck_assert_uint_eq(mapping.is_readable, i % 2);
    }
}

TEST(without_a_free_descriptor_the_answer_is_unknown) {
    struct cushim_mapping mapping;
    struct rlimit before, none;
    char *start = map(PAGE_BYTES, PROT_READ);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = 0;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    enum cushim_status status = cushim_mapping_find(address_of(start), &mapping);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    ck_assert_int_eq(status, CUSHIM_NOFILE);
}

TEST(no_descriptor_is_left_open) {
    struct cushim_mapping mapping;
    int before = open("/dev/null", O_RDONLY | O_CLOEXEC);
    close(before);
    for (int i = 0; i < 10; i++)
        cushim_mapping_find(i % 2 ? 0 : address_of(&mapping), &mapping);
    int after = open("/dev/null", O_RDONLY | O_CLOEXEC);
    ck_assert_int_eq(after, before);
    close(after);
}

SUITE() {
    return tests_run("mapping");
}
