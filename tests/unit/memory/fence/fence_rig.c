#include "tests/unit/memory/fence/fence_rig.h"

#include <check.h>
#include <string.h>

#include "tests/unit/fake/fake_cuda.h"

struct fence_rig rig;

static bool is_open(void) {
    return rig.pass != CUSHIM_MEM_PASS_RECORD;
}

static enum cushim_mem_pass enter(void) {
    rig.n_inside += rig.pass == CUSHIM_MEM_PASS_RECORD;
    return rig.pass;
}

static void leave(void) {
    rig.n_inside--;
}

static const struct cushim_mem_capture_guard gate = {is_open, enter, leave};

void fence_rig_setup(const char *without) {
    memset(&rig, 0, sizeof rig);
    fake_reset();
    fake_load(&rig.cuda, without);
    fake_set_current(fake_context(0));
    rig.pass = CUSHIM_MEM_PASS_RECORD;
    rig.fence = &rig.the_fence;
    cushim_mem_fence_init(rig.fence, &rig.cuda, fake_context(0));
}

void fence_rig_finish(void) {
    ck_assert_int_eq(rig.n_inside, 0);
    ck_assert_uint_eq(fake_n_faults(), 0);
    ck_assert_uint_eq(fake_n_invalidated(), 0);
    ck_assert_int_eq(fake_mode(), CU_STREAM_CAPTURE_MODE_GLOBAL);
    ck_assert_ptr_eq(fake_current(), fake_context(0));
    ck_assert_uint_eq(fake_depth(), 1);
}

uint64_t fence_rig_free(unsigned stream) {
    fake_submit(stream);
    return cushim_mem_fence_tag(rig.fence);
}

enum cushim_status fence_rig_start(void) {
    return cushim_mem_fence_start(rig.fence, &gate, &rig.answer);
}

bool fence_rig_is_done(uint64_t epoch) {
    uint64_t done = cushim_mem_fence_poll(rig.fence, &rig.answer);
    ck_assert_int_eq(rig.answer, CUDA_SUCCESS);
    ck_assert_uint_eq(done, cushim_mem_fence_done(rig.fence));
    return epoch <= done;
}

enum cushim_status fence_rig_await(uint64_t epoch, uint64_t deadline_ns) {
    return cushim_mem_fence_await(rig.fence, &gate, epoch, deadline_ns, &rig.stats, &rig.answer);
}

static void at_the_moment(const char *name) {
    if (rig.moment && strcmp(name, rig.moment) == 0) {
        rig.moment = NULL;
        rig.deed();
    }
}

void fence_rig_when(const char *name, void (*deed)(void)) {
    rig.moment = name;
    rig.deed = deed;
    fake_on_call(at_the_moment);
}
