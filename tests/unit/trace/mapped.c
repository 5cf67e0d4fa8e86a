/* Code of a recorded process: a frame lies in the module that came last, however they overlap. */
#include "trace/mapped.h"

#include <string.h>

#include "tests/unit/suite.h"

static void add(struct cushim_trace_mapped *mapped, uint64_t start, uint64_t n_bytes) {
    ck_assert(cushim_trace_mapped_add(
        mapped, &(struct cushim_trace_module){start, n_bytes, 0, "file and more"}, 4));
}

/* As it is defined. */
static const struct cushim_trace_module *last_with(const struct cushim_trace_mapped *mapped,
                                                   uint64_t frame) {
    for (size_t i = mapped->n_modules; i-- > 0;) {
        if (frame - mapped->modules[i].start < mapped->modules[i].n_bytes)
            return &mapped->modules[i];
    }
    return NULL;
}

TEST(a_frame_lies_in_the_last_module_that_has_it) {
    struct cushim_trace_mapped mapped = {0};
    uint64_t drawn = 1;
    ck_assert_ptr_null(cushim_trace_mapped_find(&mapped, 5));
    for (int i = 0; i < 200; i++) {
        drawn = drawn * 6364136223846793005u + 1442695040888963407u;
        add(&mapped, drawn >> 54, drawn >> 40 & (i % 5 ? 31 : 255)); /* of no bytes, too */
        if (i % 20)
            continue;
        for (uint64_t frame = 0; frame < 1300; frame++) {
            if (cushim_trace_mapped_find(&mapped, frame) != last_with(&mapped, frame))
                ck_abort_msg("frame %lu of %d modules", (unsigned long)frame, i + 1);
        }
    }
    ck_assert_str_eq(mapped.modules[0].path, "file");
    cushim_trace_mapped_free(&mapped);
}

TEST(a_module_may_reach_to_the_last_address) {
    struct cushim_trace_mapped mapped = {0};
    add(&mapped, UINT64_MAX - 16, UINT64_MAX);
    ck_assert_ptr_nonnull(cushim_trace_mapped_find(&mapped, UINT64_MAX - 1));
    ck_assert_ptr_null(cushim_trace_mapped_find(&mapped, 3));
    cushim_trace_mapped_free(&mapped);
}

/* Code that walks all modules for each frame would exceed the time of the test. */
TEST(many_frames_are_found_in_many_modules) {
    enum { N = 1 << 16, N_FRAMES = 1 << 22 };
    struct cushim_trace_mapped mapped = {0};
    size_t n_found = 0;
    for (uint64_t i = 0; i < N; i++)
        add(&mapped, i << 8, 128);
    for (uint64_t frame = 0; frame < N_FRAMES; frame++)
        n_found += cushim_trace_mapped_find(&mapped, frame << 2) != NULL;
    ck_assert_uint_eq(n_found, N_FRAMES / 2);
    cushim_trace_mapped_free(&mapped);
}

SUITE() {
    return tests_run("mapped");
}
