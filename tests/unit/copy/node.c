#include "copy/node.h"

#include <errno.h>
#include <string.h>

#include "copy_kernel.h"
#include "tests/unit/suite.h"

enum { DEFAULT, PREFERRED, BIND };

#define kernel copy_fixture_kernel

static void begin(long policy, int refused) {
    memset(&kernel, 0, sizeof kernel);
    kernel.policy = policy;
    kernel.refused = refused;
    errno = 7;
}

TEST(memory_comes_from_the_requested_node) {
    for (int node = 0; node < 1023; node += 73) {
        begin(DEFAULT, 0);
        ck_assert(cushim_copy_node_prefer(node));
        ck_assert_int_eq(kernel.policy, PREFERRED);
        for (int i = 0; i < 1024; i++)
            ck_assert_int_eq(kernel.nodes[i / 64] >> i % 64 & 1, i == node);
        cushim_copy_node_leave();
        ck_assert_int_eq(kernel.policy, DEFAULT);
        ck_assert_int_eq(errno, 7);
    }
}

TEST(an_unknown_node_changes_nothing) {
    static const int unknown[] = {-1, 1023, 1 << 20};
    for (int i = 0; i < 3; i++) {
        begin(DEFAULT, 0);
        ck_assert(!cushim_copy_node_prefer(unknown[i]));
        ck_assert_uint_eq(kernel.n_set, 0);
    }
}

TEST(the_thread_keeps_its_own_policy) {
    begin(BIND, 0);
    ck_assert(!cushim_copy_node_prefer(1));
    ck_assert_int_eq(kernel.policy, BIND);
    ck_assert_uint_eq(kernel.n_set, 0);
}

TEST(a_refusal_of_the_kernel_is_harmless) {
    begin(DEFAULT, EPERM);
    ck_assert(!cushim_copy_node_prefer(1));
    ck_assert_int_eq(errno, 7);
}

SUITE() {
    return tests_run("copy/node");
}
