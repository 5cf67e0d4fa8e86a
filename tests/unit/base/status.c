#include "cushim/status.h"

#include <string.h>

#include "tests/unit/suite.h"

TEST(every_status_has_its_own_name_and_text) {
    for (int a = 0; a >= CUSHIM_CALLBACK; a--) {
        const char *name = cushim_status_name((enum cushim_status)a);
        ck_assert_int_eq(strncmp(name, "CUSHIM_", 7), 0);
        ck_assert_str_ne(name, "CUSHIM_?");
        for (int b = 0; b > a; b--) {
            ck_assert_str_ne(name, cushim_status_name((enum cushim_status)b));
            ck_assert_str_ne(cushim_status_text((enum cushim_status)a),
                             cushim_status_text((enum cushim_status)b));
        }
    }
}

TEST(the_names_match_the_header) {
    ck_assert_str_eq(cushim_status_name(CUSHIM_OK), "CUSHIM_OK");
    ck_assert_str_eq(cushim_status_name(CUSHIM_NOMEM), "CUSHIM_NOMEM");
    ck_assert_str_eq(cushim_status_name(CUSHIM_CALLBACK), "CUSHIM_CALLBACK");
}

TEST(an_unknown_number_is_a_failure_without_a_name) {
    const int numbers[] = {1, CUSHIM_CALLBACK - 1, -1000, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        enum cushim_status status = (enum cushim_status)numbers[i];
        ck_assert_str_eq(cushim_status_name(status), "CUSHIM_?");
        ck_assert_str_eq(cushim_status_text(status), "not a status");
        ck_assert_int_eq(cushim_status_class(status), CUSHIM_CLASS_OTHER);
    }
}

TEST(only_success_has_no_class) {
    ck_assert_int_eq(cushim_status_class(CUSHIM_OK), CUSHIM_CLASS_NONE);
    for (int a = -1; a >= CUSHIM_CALLBACK; a--)
        ck_assert_int_ne(cushim_status_class((enum cushim_status)a), CUSHIM_CLASS_NONE);
    ck_assert_int_eq(cushim_status_class(CUSHIM_NOMEM), CUSHIM_CLASS_MEMORY);
    ck_assert_int_eq(cushim_status_class(CUSHIM_COMPILE),
                     CUSHIM_CLASS_COMPILE | CUSHIM_CLASS_LOGIC);
}

SUITE() {
    return tests_run("status");
}
