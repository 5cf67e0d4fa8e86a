/* Internals that the library's modules share: options of any size, and error texts. */
#include <string.h>

#include "base/log.h"
#include "cushim/library.h"
#include "companion/core/error.h"
#include "tests/unit/suite.h"

struct sample {
    size_t struct_size;
    uint64_t first, second;
};

struct longer {
    struct sample sample;
    unsigned char tail[64];
};

static enum cushim_status take(struct sample *ours, const void *given) {
    *ours = (struct sample){sizeof *ours, 10, 20};
    return cushim_struct_size_take("f", ours, sizeof *ours, given);
}

TEST(older_and_newer_options_are_read_as_far_as_they_are_known) {
    struct sample ours;
    struct longer given = {.sample = {sizeof given, 1, 2}};
    ck_assert_int_eq(take(&ours, NULL), CUSHIM_OK);
    ck_assert_uint_eq(ours.first, 10);
    ck_assert_int_eq(take(&ours, &given), CUSHIM_OK);
    ck_assert_uint_eq(ours.second, 2);
    ck_assert_uint_eq(ours.struct_size, sizeof ours);
    given.tail[63] = 1;
    ck_assert_int_eq(take(&ours, &given), CUSHIM_ABI);
    given.sample.struct_size = sizeof(size_t);
    ck_assert_int_eq(take(&ours, &given), CUSHIM_OK);
    ck_assert_uint_eq(ours.first, 10);
    given.sample.struct_size = 16;
    ck_assert_int_eq(take(&ours, &given), CUSHIM_OK);
    ck_assert_uint_eq(ours.first, 1);
    ck_assert_uint_eq(ours.second, 20);
    given.sample.struct_size = 7;
    ck_assert_int_eq(take(&ours, &given), CUSHIM_ABI);
}

TEST(statistics_fill_only_the_callers_struct) {
    struct sample ours = {sizeof ours, 1, 2};
    struct longer given = {.sample = {16, 7, 7}, .tail = {9}};
    ck_assert_int_eq(cushim_struct_size_give("f", &given, &ours, sizeof ours), CUSHIM_OK);
    ck_assert_uint_eq(given.sample.struct_size, 16);
    ck_assert_uint_eq(given.sample.first, 1);
    ck_assert_uint_eq(given.sample.second, 7);
    given.sample.struct_size = sizeof given;
    ck_assert_int_eq(cushim_struct_size_give("f", &given, &ours, sizeof ours), CUSHIM_OK);
    ck_assert_uint_eq(given.sample.second, 2);
    ck_assert_uint_eq(given.tail[0], 9);
}

TEST(an_error_text_has_one_form_whichever_layer_refused) {
    ck_assert_int_eq(cushim_fail("cushim_f", CUSHIM_STATE, "a=%d", 1), CUSHIM_STATE);
    ck_assert_str_eq(cushim_last_error(), "cushim_f failed: CUSHIM_STATE: the object's state "
                                          "forbids the call (a=1)");
    ck_assert_int_eq(cushim_fail_cu("cuMemAlloc_v2", CUDA_ERROR_OUT_OF_MEMORY, "%s", ""),
                     CUSHIM_NOMEM);
    ck_assert_str_eq(cushim_last_error(),
                     "cuMemAlloc failed: CUDA_ERROR_OUT_OF_MEMORY: out of memory");
    ck_assert_int_eq(cushim_last_cuda_code(), 2);
    cushim_fail_cu("cuX_v2_ptsz(7)", CUDA_ERROR_INVALID_VALUE, "%s", "");
    ck_assert_str_eq(cushim_last_error(),
                     "cuX(7) failed: CUDA_ERROR_INVALID_VALUE: invalid argument");
    ck_assert_int_eq(cushim_fail_nosym("cushim_f", "cuY_v3"), CUSHIM_NOSYM);
    ck_assert_ptr_nonnull(strstr(cushim_last_error(), "(entry=cuY "));
    ck_assert_int_eq(cushim_last_cuda_code(), 0);
}

TEST(a_log_of_32_KiB_is_kept_and_may_quote_the_previous_text) {
    static char log[32 * 1024 + 1];
    memset(log, 'x', sizeof log - 1);
    cushim_fail("f", CUSHIM_COMPILE, "%s!", log);
    ck_assert_uint_gt(strlen(cushim_last_error()), sizeof log);
    cushim_fail("g", CUSHIM_STATE, "before: %.20s", cushim_last_error());
    ck_assert_ptr_nonnull(strstr(cushim_last_error(), "(before: f failed: CUSHIM_COM)"));
}

static void receive(void *cookie, int level, const char *line) {
    (void)level;
    strcpy(cookie, line);
}

TEST(the_log_goes_to_a_receiver_until_it_is_removed) {
    char line[600] = "";
    cushim_log_fn *fn = receive;
    ck_assert_int_eq(cushim_log_set(fn, line), CUSHIM_OK);
    log_info("test", "seen %d", 7);
    ck_assert_ptr_nonnull(strstr(line, " info test: seen 7\n"));
    log_debug("test", "not seen");
    ck_assert_ptr_null(strstr(line, "not seen"));
    line[0] = 0;
    ck_assert_int_eq(cushim_log_set(NULL, NULL), CUSHIM_OK);
    log_error("test", "off by default");
    ck_assert_str_eq(line, "");
}

SUITE() {
    return tests_run("inside");
}
