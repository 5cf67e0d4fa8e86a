/* Loading, statuses, structs and devices: cases L1, L2, L4 and D1. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/companion/fixture.h"

enum { N_NUMBERS = 1001 };

/* ---- L1 ---- */

/* Runs in a new process without a driver. */
static int look_without_driver(void) {
    cushim_devptr p = 1;
    setenv("CUSHIM_LIBCUDA", "/nowhere/libcuda.so.1", 1);
    printf("available=%d\n", cushim_available());
    printf("alloc=%s\n", cushim_status_name(cushim_memory_alloc(NULL, 1, &p)));
    printf("address=%llu\n", (unsigned long long)p);
    printf("text=%s\n", cushim_last_error());
    return 0;
}

TEST(case_L1_without_a_driver_calls_fail_and_the_text_names_the_library) {
    char said[2048];
    ck_assert_int_eq(fixture_child("L1", said, sizeof said), 0);
    const char *text = strstr(said, "text=");
    ck_assert_msg(text != NULL, "%s", said);
    ck_assert_int_eq(strncmp(said, "available=0\nalloc=CUSHIM_NOCUDA\naddress=0\n", 41), 0);
    ck_assert_msg(strstr(text, "libcuda.so.1") != NULL, "%s", said);
}

/* ---- L2 ---- */

struct range {
    int first, last;
    enum cushim_status status;
    int class;
};

/* The status of each CUresult; a CUresult that is not listed is SYSTEM. */
static const struct range ranges[] = {
    {0, 0, CUSHIM_OK, CUSHIM_CLASS_NONE},
    {1, 1, CUSHIM_INVALID, CUSHIM_CLASS_LOGIC},
    {2, 2, CUSHIM_NOMEM, CUSHIM_CLASS_MEMORY},
    {3, 3, CUSHIM_NOCONTEXT, CUSHIM_CLASS_LOGIC},
    {4, 4, CUSHIM_DEADCONTEXT, CUSHIM_CLASS_LOGIC},
    {5, 6, CUSHIM_NOTSUPPORTED, CUSHIM_CLASS_LOGIC},
    {7, 8, CUSHIM_STATE, CUSHIM_CLASS_LOGIC},
    {36, 36, CUSHIM_NOSYM, CUSHIM_CLASS_LOGIC},
    {46, 46, CUSHIM_BADDEVICE, CUSHIM_CLASS_LOGIC},
    {100, 100, CUSHIM_NODEVICE, CUSHIM_CLASS_RUNTIME},
    {101, 102, CUSHIM_BADDEVICE, CUSHIM_CLASS_LOGIC},
    {200, 200, CUSHIM_COMPILE, CUSHIM_CLASS_LOGIC | CUSHIM_CLASS_COMPILE},
    {201, 201, CUSHIM_NOCONTEXT, CUSHIM_CLASS_LOGIC},
    {202, 202, CUSHIM_STATE, CUSHIM_CLASS_LOGIC},
    {207, 208, CUSHIM_STATE, CUSHIM_CLASS_LOGIC},
    {209, 209, CUSHIM_NOBINARY, CUSHIM_CLASS_RUNTIME},
    {210, 213, CUSHIM_STATE, CUSHIM_CLASS_LOGIC},
    {214, 214, CUSHIM_ECC, CUSHIM_CLASS_RUNTIME},
    {215, 215, CUSHIM_INVALID, CUSHIM_CLASS_LOGIC},
    {216, 216, CUSHIM_STATE, CUSHIM_CLASS_LOGIC},
    {217, 217, CUSHIM_NOTSUPPORTED, CUSHIM_CLASS_LOGIC},
    {218, 218, CUSHIM_COMPILE, CUSHIM_CLASS_LOGIC | CUSHIM_CLASS_COMPILE},
    {219, 219, CUSHIM_NOTSUPPORTED, CUSHIM_CLASS_LOGIC},
    {220, 220, CUSHIM_FAULT, CUSHIM_CLASS_LOGIC},
    {221, 223, CUSHIM_COMPILE, CUSHIM_CLASS_LOGIC | CUSHIM_CLASS_COMPILE},
    {224, 224, CUSHIM_NOTSUPPORTED, CUSHIM_CLASS_LOGIC},
    {225, 225, CUSHIM_COMPILE, CUSHIM_CLASS_LOGIC | CUSHIM_CLASS_COMPILE},
    {226, 226, CUSHIM_FAULT, CUSHIM_CLASS_LOGIC},
    {300, 300, CUSHIM_COMPILE, CUSHIM_CLASS_LOGIC | CUSHIM_CLASS_COMPILE},
    {301, 301, CUSHIM_NOFILE, CUSHIM_CLASS_RUNTIME},
    {302, 302, CUSHIM_NOTFOUND, CUSHIM_CLASS_LOGIC},
    {400, 400, CUSHIM_BADHANDLE, CUSHIM_CLASS_LOGIC},
    {401, 401, CUSHIM_STATE, CUSHIM_CLASS_LOGIC},
    {402, 402, CUSHIM_INVALID, CUSHIM_CLASS_LOGIC},
    {500, 500, CUSHIM_NOTFOUND, CUSHIM_CLASS_LOGIC},
    {600, 600, CUSHIM_NOTREADY, CUSHIM_CLASS_RUNTIME},
    {700, 700, CUSHIM_FAULT, CUSHIM_CLASS_LOGIC},
    {701, 703, CUSHIM_LAUNCH, CUSHIM_CLASS_LAUNCH},
    {704, 705, CUSHIM_STATE, CUSHIM_CLASS_LOGIC},
    {708, 708, CUSHIM_STATE, CUSHIM_CLASS_LOGIC},
    {709, 709, CUSHIM_DEADCONTEXT, CUSHIM_CLASS_LOGIC},
    {710, 710, CUSHIM_FAULT, CUSHIM_CLASS_LOGIC},
    {711, 711, CUSHIM_NOTSUPPORTED, CUSHIM_CLASS_LOGIC},
    {712, 713, CUSHIM_STATE, CUSHIM_CLASS_LOGIC},
    {714, 718, CUSHIM_FAULT, CUSHIM_CLASS_LOGIC},
    {719, 719, CUSHIM_LAUNCH, CUSHIM_CLASS_LAUNCH},
    {720, 720, CUSHIM_INVALID, CUSHIM_CLASS_LOGIC},
    {721, 721, CUSHIM_FAULT, CUSHIM_CLASS_LOGIC},
    {800, 801, CUSHIM_NOTSUPPORTED, CUSHIM_CLASS_LOGIC},
    {811, 812, CUSHIM_NOTSUPPORTED, CUSHIM_CLASS_LOGIC},
    {900, 908, CUSHIM_CAPTURE, CUSHIM_CLASS_LOGIC},
    {909, 909, CUSHIM_TIMEOUT, CUSHIM_CLASS_LOGIC},
    {910, 910, CUSHIM_UPDATE, CUSHIM_CLASS_LOGIC},
    {911, 911, CUSHIM_NOTSUPPORTED, CUSHIM_CLASS_LOGIC},
    {912, 912, CUSHIM_INVALID, CUSHIM_CLASS_LOGIC},
    {913, 913, CUSHIM_NOTFOUND, CUSHIM_CLASS_LOGIC},
    {914, 915, CUSHIM_INVALID, CUSHIM_CLASS_LOGIC},
    {999, 999, CUSHIM_UNKNOWN, CUSHIM_CLASS_OTHER},
};

static struct range expected(int number) {
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        if (ranges[i].first <= number && number <= ranges[i].last)
            return ranges[i];
    }
    return (struct range){number, number, CUSHIM_SYSTEM, CUSHIM_CLASS_LOGIC};
}

TEST(case_L2_each_number_of_the_driver_has_its_status_and_class, .needs = FIXTURE_SIM) {
    void (*fail_at)(unsigned long, int);
    void *address = fixture_symbol("sim_fail_at");
    int n_devices;
    memcpy(&fail_at, &address, sizeof fail_at);
    fixture_ok(cushim_device_count(&n_devices));
    for (int number = 0; number < N_NUMBERS; number++) {
        struct range want = expected(number);
        fail_at(1, number);
        enum cushim_status status = cushim_device_count(&n_devices);
        fail_at(0, 0);
        ck_assert_msg(status == want.status, "%d is %s", number, cushim_status_name(status));
        ck_assert_msg(cushim_status_class(status) == want.class, "%d is of class %d", number,
                      cushim_status_class(status));
        if (number)
            ck_assert_int_eq(cushim_last_cuda_code(), number);
    }
}

/* ---- L4 ---- */

TEST(case_L4_options_of_other_versions_are_read_as_far_as_they_are_known) {
    struct {
        struct cushim_pool_options known;
        unsigned char newer[64];
    } options;
    struct cushim_pool *pool;
    memset(&options, 0, sizeof options);
    cushim_pool_options_default(&options.known);
    options.known.policy = 99; /* beyond the given size, so the default stays */
    options.known.struct_size = 8;
    fixture_ok(cushim_pool_create(&options.known, &pool));
    fixture_ok(cushim_pool_destroy(pool));
    cushim_pool_options_default(&options.known);
    options.known.struct_size += sizeof options.newer;
    fixture_ok(cushim_pool_create(&options.known, &pool));
    fixture_ok(cushim_pool_destroy(pool));
    options.newer[sizeof options.newer - 1] = 1;
    fixture_is(cushim_pool_create(&options.known, &pool), CUSHIM_ABI);
    ck_assert_ptr_null(pool);
}

TEST(case_L4_a_child_forked_after_the_first_use_has_no_CUDA_and_the_parent_goes_on) {
    cushim_devptr p, q = 1;
    int state;
    fixture_ok(cushim_memory_alloc(NULL, 256, &p));
    pid_t child = fork();
    if (!child) {
        bool is_refused = cushim_available() == 0 &&
                          cushim_memory_alloc(NULL, 256, &q) == CUSHIM_NOCUDA && q == 0;
        _exit(is_refused ? 7 : 1);
    }
    ck_assert_int_eq(waitpid(child, &state, 0), child);
    ck_assert(WIFEXITED(state));
    ck_assert_int_eq(WEXITSTATUS(state), 7);
    ck_assert_int_eq(cushim_available(), 1);
    fixture_ok(cushim_memory_set8(p, 1, 256));
    fixture_ok(cushim_memory_free(p));
}

/* ---- D1 ---- */

TEST(case_D1_attributes_agree_and_a_missing_device_is_refused) {
    int major = 0, minor = 0, value = -1, managed = -1;
    fixture_ok(cushim_device_capability(0, &major, &minor));
    fixture_ok(cushim_device_attribute(0, 75, &value));
    ck_assert_int_eq(value, major);
    fixture_ok(cushim_device_attribute(0, 76, &value));
    ck_assert_int_eq(value, minor);
    fixture_ok(cushim_device_attribute(0, 83, &value));
    ck_assert(value == 0 || value == 1);
    fixture_ok(cushim_device_managed(0, &managed));
    ck_assert_int_eq(managed, value);
    managed = -1;
    fixture_is(cushim_device_managed(999, &managed), CUSHIM_BADDEVICE);
    ck_assert_int_eq(managed, 0);
}

int main(int argc, char **argv) {
    if (fixture_child_word(argc, argv))
        return look_without_driver();
    return fixture_main(argc, argv);
}
