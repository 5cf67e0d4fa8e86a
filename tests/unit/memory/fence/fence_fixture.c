#include "tests/unit/memory/fence/fence_fixture.h"

#include <check.h>
#include <string.h>

#include "cuda/table.h"
#include "tests/unit/fake/fake_cuda.h"

struct fence_fixture fixture;

static bool is_open(void) {
    return fixture.pass != CUSHIM_MEM_PASS_RECORD;
}

static enum cushim_mem_pass enter(void) {
    fixture.n_inside += fixture.pass == CUSHIM_MEM_PASS_RECORD;
    return fixture.pass;
}

static void leave(void) {
    fixture.n_inside--;
}

static const struct cushim_mem_capture_guard guard = {is_open, enter, leave};

void fence_fixture_setup(const char *without) {
    static struct cushim_cuda cuda;
    memset(&fixture, 0, sizeof fixture);
    memset(&cuda, 0, sizeof cuda);
    fake_reset();
    fixture.cuda = &cuda;
    fake_load(fixture.cuda, without);
    fake_set_current(fake_context(0));
    fixture.pass = CUSHIM_MEM_PASS_RECORD;
    fixture.fence = &fixture.the_fence;
    cushim_mem_fence_init(fixture.fence, fixture.cuda, fake_context(0), &guard);
}

void fence_fixture_finish(void) {
    ck_assert_int_eq(fixture.n_inside, 0);
    ck_assert_uint_eq(fake_n_faults(), 0);
    ck_assert_uint_eq(fake_n_invalidated(), 0);
    ck_assert_int_eq(fake_mode(), CU_STREAM_CAPTURE_MODE_GLOBAL);
    ck_assert_ptr_eq(fake_current(), fake_context(0));
    ck_assert_uint_eq(fake_depth(), 1);
}

uint64_t fence_fixture_free(unsigned stream) {
    fake_submit(stream);
    return cushim_mem_fence_tag(fixture.fence);
}

enum cushim_status fence_fixture_start(void) {
    return cushim_mem_fence_start(fixture.fence, &fixture.answer);
}

bool fence_fixture_is_done(uint64_t epoch) {
    uint64_t done = cushim_mem_fence_poll(fixture.fence, &fixture.answer);
    ck_assert_int_eq(fixture.answer, CUDA_SUCCESS);
    ck_assert_uint_eq(done, cushim_mem_fence_done(fixture.fence));
    return epoch <= done;
}

enum cushim_status fence_fixture_await(uint64_t epoch, uint64_t deadline_ns) {
    return cushim_mem_fence_await(fixture.fence, epoch, deadline_ns, &fixture.stats,
                                  &fixture.answer);
}

static void at_the_moment(const char *name) {
    if (fixture.moment && strcmp(name, fixture.moment) == 0) {
        fixture.moment = NULL;
        fixture.deed();
    }
}

void fence_fixture_when(const char *name, void (*deed)(void)) {
    fixture.moment = name;
    fixture.deed = deed;
    fake_on_call(at_the_moment);
}
