/*
 * A program that releases everything leaves nothing that a leak checker reports: LeakSanitizer and
 * memcheck check this program at its end. The library's variables point to everything that it
 * keeps.
 */
#include "cushim/pool.h"
#include "cushim/stream.h"
#include "tests/unit/companion/core/call_fixture.h"
#include "tests/unit/suite.h"

TEST(per_thread_data_is_no_leak) {
    struct cushim_pool *p;
    struct cushim_stream *s;
    cushim_devptr block;
    ck_ok(cushim_stream_create(NULL, 1, 0, &s));
    ck_ok(cushim_pool_create(NULL, &p));
    for (int i = 0; i < 10; i++) {
        ck_ok(cushim_pool_alloc(p, 0, CUSHIM_MEMORY_DEVICE, 512, s, &block));
        ck_ok(cushim_pool_free(p, 0, block, 512, s));
    }
    ck_ok(cushim_pool_destroy(p));
    ck_ok(cushim_stream_destroy(s));
}

SUITE() {
    return tests_run("leak");
}
