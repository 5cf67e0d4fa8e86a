#include "companion/core/handle.h"

#include <pthread.h>

#include "companion/core/handle_pin.h"
#include "tests/unit/suite.h"

static atomic_int n_finished, n_broken;

struct thing {
    struct cushim_object object;
    atomic_int canary;
};

static void finish(struct cushim_object *object) {
    struct thing *thing = (struct thing *)object;
    n_broken += atomic_exchange(&thing->canary, 0) != 42;
    n_finished++;
    free(thing);
}

static struct cushim_stream *open_thing(struct thing **out) {
    struct thing *thing = calloc(1, sizeof *thing);
    struct cushim_stream *handle;
    cushim_object_init(&thing->object, CUSHIM_KIND_STREAM, NULL, finish);
    atomic_store(&thing->canary, 42);
    n_broken += cushim_handle_open(&thing->object, &handle) != CUSHIM_OK;
    if (out)
        *out = thing;
    return handle;
}

static bool close_handle(const void *handle) {
    struct cushim_pin pin;
    bool closed = cushim_handle_pin(&pin, CUSHIM_KIND_STREAM, handle) && cushim_handle_close(&pin);
    cushim_handle_unpin(&pin);
    return closed;
}

static bool is_good(enum cushim_kind kind, const void *handle) {
    struct cushim_pin pin;
    bool good = cushim_handle_pin(&pin, kind, handle) != NULL;
    cushim_handle_unpin(&pin);
    return good;
}

TEST(a_handle_leads_to_its_object_until_it_is_closed) {
    struct thing *thing;
    struct cushim_pin pin;
    struct cushim_stream *handle = open_thing(&thing);
    ck_assert_ptr_eq(cushim_handle_pin(&pin, CUSHIM_KIND_STREAM, handle), thing);
    cushim_handle_unpin(&pin);
    ck_assert_uint_eq(cushim_handle_count(), 1);
    ck_assert(close_handle(handle));
    ck_assert_int_eq(n_finished, 1);
    ck_assert_uint_eq(cushim_handle_count(), 0);
    ck_assert(!close_handle(handle));
    ck_assert_int_eq(n_finished, 1);
}

TEST(stale_foreign_and_random_handles_are_refused) {
    uint64_t seed = 7;
    int n_good = 0;
    struct cushim_stream *handle = open_thing(NULL);
    uintptr_t value = (uintptr_t)handle;
    ck_assert(!is_good(CUSHIM_KIND_EVENT, handle));
    ck_assert(!is_good(CUSHIM_KIND_STREAM, NULL));
    ck_assert(!is_good(CUSHIM_KIND_NONE, (void *)0x1234));
    ck_assert(!is_good(CUSHIM_KIND_STREAM, (void *)0x1234));
    ck_assert(!is_good(CUSHIM_KIND_STREAM, &value));
    for (unsigned bit = 0; bit < 64; bit++)
        ck_assert(!is_good(CUSHIM_KIND_STREAM, (void *)(value ^ (uintptr_t)1 << bit)));
    for (unsigned i = 0; i < suite_steps(100000); i++) {
        void *random = (void *)suite_random(&seed);
        for (int kind = 0; random != handle && kind < CUSHIM_N_KINDS; kind++)
            n_good += is_good((enum cushim_kind)kind, random);
    }
    ck_assert_int_eq(n_good, 0); /* because an assertion for each would take seconds */
    ck_assert(close_handle(handle));
    struct cushim_stream *next = open_thing(NULL); /* reuses the slot */
    ck_assert_uint_eq((uintptr_t)next & 0xffffff, value & 0xffffff);
    ck_assert_ptr_ne(next, handle);
    ck_assert(!is_good(CUSHIM_KIND_STREAM, handle));
    ck_assert(is_good(CUSHIM_KIND_STREAM, next));
}

TEST(a_pinned_object_outlives_its_handle) {
    struct thing *thing;
    struct cushim_pin first, second;
    struct cushim_stream *handle = open_thing(&thing);
    cushim_handle_pin(&first, CUSHIM_KIND_STREAM, handle);
    cushim_handle_pin(&second, CUSHIM_KIND_STREAM, handle);
    ck_assert(cushim_handle_close(&first));
    ck_assert(!cushim_handle_close(&second));
    cushim_handle_unpin(&first);
    ck_assert_int_eq(n_finished, 0);
    ck_assert_int_eq(atomic_load(&thing->canary), 42);
    cushim_handle_unpin(&second);
    ck_assert_int_eq(n_finished, 1);
    cushim_handle_unpin(&second);
    ck_assert_int_eq(n_finished, 1);
}

TEST(an_object_with_references_outlives_its_handle) {
    struct thing *thing;
    struct cushim_stream *handle = open_thing(&thing);
    cushim_object_keep(thing);
    ck_assert(close_handle(handle));
    ck_assert_int_eq(n_finished, 0);
    cushim_object_release(thing);
    ck_assert_int_eq(n_finished, 1);
}

TEST(any_number_of_pins_may_be_held_at_once) {
    enum { N = 3 * CUSHIM_THREAD_N_PINS };
    struct cushim_pin pins[N];
    struct thing *thing;
    struct cushim_stream *handle = open_thing(&thing);
    for (int i = 0; i < N; i++)
        ck_assert_ptr_eq(cushim_handle_pin(&pins[i], CUSHIM_KIND_STREAM, handle), thing);
    ck_assert(cushim_handle_close(&pins[N - 1]));
    for (int i = 0; i < N; i++) {
        ck_assert_int_eq(n_finished, 0);
        cushim_handle_unpin(&pins[i]);
    }
    ck_assert_int_eq(n_finished, 1);
}

TEST(a_fast_pin_works_if_its_cell_is_free) {
    struct cushim_thread *thread = cushim_thread_get();
    struct thing *thing;
    struct cushim_stream *handle = open_thing(&thing);
    struct cushim_slot *slot = cushim_slot_of_kind(CUSHIM_KIND_STREAM, (uintptr_t)handle);
    ck_assert_ptr_null(cushim_slot_of_kind(CUSHIM_KIND_EVENT, (uintptr_t)handle));
    ck_assert(cushim_pin_fast(thread, CUSHIM_CELL_LAUNCH, slot, handle));
    ck_assert_ptr_eq(atomic_load(&slot->object), (struct cushim_object *)thing);
    ck_assert(!cushim_pin_fast(thread, CUSHIM_CELL_LAUNCH, slot, handle));
    ck_assert(cushim_pin_fast(thread, CUSHIM_CELL_STREAM, slot, handle));
    ck_assert(close_handle(handle));
    ck_assert_int_eq(cushim_unpin_fast(thread, CUSHIM_CELL_STREAM, slot), CUSHIM_OK);
    ck_assert_int_eq(n_finished, 0);
    ck_assert(!cushim_pin_fast(thread, CUSHIM_CELL_STREAM, slot, handle));
    ck_assert_int_eq(cushim_unpin_fast(thread, CUSHIM_CELL_LAUNCH, slot), CUSHIM_OK);
    ck_assert_int_eq(n_finished, 1);
}

TEST(a_slot_is_not_reused_while_it_is_pinned) {
    struct cushim_pin pin;
    struct cushim_stream *handle = open_thing(NULL);
    cushim_handle_pin(&pin, CUSHIM_KIND_STREAM, handle);
    ck_assert(cushim_handle_close(&pin));
    struct cushim_stream *other = open_thing(NULL);
    ck_assert_uint_ne((uintptr_t)other & 0xffffff, (uintptr_t)handle & 0xffffff);
    cushim_handle_unpin(&pin);
    ck_assert_int_eq(n_finished, 1);
}

TEST(a_shared_handle_is_the_same_for_all) {
    struct cushim_stream *a, *b;
    struct thing *thing = calloc(1, sizeof *thing);
    cushim_object_init(&thing->object, CUSHIM_KIND_STREAM, NULL, finish);
    atomic_store(&thing->canary, 42);
    ck_assert_int_eq(cushim_handle_share(&thing->object, &a), CUSHIM_OK);
    ck_assert_int_eq(cushim_handle_share(&thing->object, &b), CUSHIM_OK);
    ck_assert_ptr_eq(a, b);
    cushim_object_release(thing);
    ck_assert_int_eq(n_finished, 0);
    ck_assert(close_handle(a));
    ck_assert_int_eq(n_finished, 1);
}

/* ---- threads ---- */

enum { N_THREADS = 4, N_TURNS = 20000, N_SHARED = 4 };
static _Atomic(struct cushim_stream *) shared[N_SHARED];
static atomic_int n_opened, n_closed;

/* Pin as a fast path does, if the build has one. */
static void look_fast(const struct cushim_stream *handle) {
    struct cushim_thread *thread = cushim_thread_get();
    struct cushim_slot *slot = cushim_slot_of_kind(CUSHIM_KIND_STREAM, (uintptr_t)handle);
    if (!slot || !cushim_pin_has_fast_path() ||
        !cushim_pin_fast(thread, CUSHIM_CELL_LAUNCH, slot, handle))
        return;
    struct thing *thing = (struct thing *)atomic_load_explicit(&slot->object, memory_order_relaxed);
    n_broken += atomic_load(&thing->canary) != 42;
    cushim_unpin_fast(thread, CUSHIM_CELL_LAUNCH, slot);
}

/* Pin any object and read it; now and then close it and create a new one in its place. */
static void *use_and_close(void *argument) {
    uint64_t seed = (uintptr_t)argument + 1;
    for (int i = 0; i < N_TURNS; i++) {
        struct cushim_pin pin;
        uint64_t draw = suite_random(&seed);
        struct cushim_stream *handle = shared[draw % N_SHARED];
        look_fast(handle);
        struct thing *thing = cushim_handle_pin(&pin, CUSHIM_KIND_STREAM, handle);
        n_broken += thing && atomic_load(&thing->canary) != 42;
        if (thing && draw >> 8 & 1 && cushim_handle_close(&pin)) {
            n_closed++;
            shared[draw % N_SHARED] = open_thing(NULL);
            n_opened++;
            n_broken += atomic_load(&thing->canary) != 42;
        }
        cushim_handle_unpin(&pin);
    }
    return NULL;
}

TEST(threads_that_use_and_close_the_same_objects_never_see_a_finished_one) {
    pthread_t threads[N_THREADS];
    for (int i = 0; i < N_SHARED; i++)
        shared[i] = open_thing(NULL);
    for (uintptr_t i = 0; i < N_THREADS; i++)
        pthread_create(&threads[i], NULL, use_and_close, (void *)i);
    for (int i = 0; i < N_THREADS; i++)
        pthread_join(threads[i], NULL);
    ck_assert_int_eq(n_broken, 0);
    ck_assert_int_gt(n_closed, 100);
    for (int i = 0; i < N_SHARED; i++)
        close_handle(shared[i]);
    ck_assert_int_eq(n_broken, 0);
    ck_assert_int_eq(n_finished, n_opened + N_SHARED);
    ck_assert_uint_eq(cushim_handle_count(), 0);
}

TEST(a_closed_handle_and_an_invalid_one_are_distinguished) {
    struct cushim_stream *first = open_thing(NULL);
    uintptr_t next = (uintptr_t)first + ((uintptr_t)1 << CUSHIM_SLOT_BITS);
    ck_assert(!cushim_handle_is_closed(CUSHIM_KIND_STREAM, first));
    ck_assert(close_handle(first));
    ck_assert(cushim_handle_is_closed(CUSHIM_KIND_STREAM, first));
    ck_assert(!cushim_handle_is_closed(CUSHIM_KIND_EVENT, first));
    ck_assert(!cushim_handle_is_closed(CUSHIM_KIND_STREAM, (void *)next));
    ck_assert(!cushim_handle_is_closed(CUSHIM_KIND_STREAM, NULL));
    ck_assert(!cushim_handle_is_closed(CUSHIM_KIND_STREAM, (void *)UINTPTR_MAX));
    struct cushim_stream *second = open_thing(NULL); /* in the same slot */
    ck_assert_uint_eq((uintptr_t)second, next);
    ck_assert(cushim_handle_is_closed(CUSHIM_KIND_STREAM, first));
    ck_assert(!cushim_handle_is_closed(CUSHIM_KIND_STREAM, second));
    ck_assert(close_handle(second));
}

/* No handle value is ever repeated, so a slot retires after its last generation. */
TEST(a_slot_without_generations_left_is_not_reused) {
    struct cushim_stream *first = open_thing(NULL);
    struct cushim_slot *slot = cushim_slot_of((uintptr_t)first);
    ck_assert(close_handle(first));
    slot->generation = UINT32_MAX - 1;
    struct cushim_stream *last = open_thing(NULL);
    ck_assert_ptr_eq(cushim_slot_of((uintptr_t)last), slot);
    ck_assert(is_good(CUSHIM_KIND_STREAM, last));
    ck_assert(close_handle(last));
    struct cushim_stream *next = open_thing(NULL);
    ck_assert_ptr_ne(cushim_slot_of((uintptr_t)next), slot);
    ck_assert(cushim_handle_is_closed(CUSHIM_KIND_STREAM, last));
    ck_assert(close_handle(next));
}

SUITE() {
    return tests_run("handle");
}
