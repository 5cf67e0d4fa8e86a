/*
 * A pin without a fence, seen from the closer: every thread passes a barrier between the close and
 * the scan for pins. The linker replaces cushim_membarrier_* by this file's functions (-Wl,--wrap),
 * so that a race that would show once in a million closes shows at once.
 */
#include "base/membarrier.h"

#include <stdatomic.h>

#include "companion/core/handle_pin.h"
#include "tests/unit/suite.h"

bool __wrap_cushim_membarrier_ask(void);
bool __wrap_cushim_membarrier_pass(void);

static bool is_forbidden;
static int n_passed, n_finished, n_seen_open;
static struct cushim_slot *watched;

bool __wrap_cushim_membarrier_ask(void) {
    return true;
}

/* At this point the handle must be closed, and the cells must not have been scanned. */
bool __wrap_cushim_membarrier_pass(void) {
    n_passed++;
    n_seen_open += atomic_load(&watched->handle) != 0;
    return !is_forbidden;
}

static void finish(struct cushim_object *object) {
    n_finished++;
    (void)object;
}

static struct cushim_stream *open_watched(struct cushim_object *object) {
    struct cushim_stream *handle;
    cushim_object_init(object, CUSHIM_KIND_STREAM, NULL, finish);
    ck_assert_int_eq(cushim_handle_open(object, &handle), CUSHIM_OK);
    watched = cushim_slot_of((uintptr_t)handle);
    n_passed = n_finished = n_seen_open = 0;
    return handle;
}

static void close_watched(const struct cushim_stream *handle) {
    struct cushim_pin pin;
    ck_assert_ptr_nonnull(cushim_handle_pin(&pin, CUSHIM_KIND_STREAM, handle));
    ck_assert(cushim_handle_close(&pin));
    ck_assert_int_eq(n_finished, 0); /* this thread has pinned it */
    cushim_handle_unpin(&pin);
}

TEST(a_close_passes_the_barrier_between_the_close_and_the_scan) {
    struct cushim_object object;
    is_forbidden = false;
    close_watched(open_watched(&object));
    ck_assert(atomic_load(&cushim_pin_is_fenced));
    ck_assert_int_eq(n_passed, 1);
    ck_assert_int_eq(n_seen_open, 0);
    ck_assert_int_eq(n_finished, 1);
}

TEST(if_the_barrier_is_refused_the_object_is_never_finished) {
    static struct cushim_object object; /* the object is never freed */
    is_forbidden = true;
    close_watched(open_watched(&object));
    ck_assert_int_eq(n_passed, 1);
    is_forbidden = false;
    cushim_handle_sweep();
    ck_assert_int_eq(n_finished, 0);
}

int main(void) {
    return tests_run("handle fence");
}
