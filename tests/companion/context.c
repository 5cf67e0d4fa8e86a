/* Contexts: stacks, threads and ends. */
#include <pthread.h>
#include <stdlib.h>

#include "tests/companion/fixture.h"

static struct cushim_context *create(void) {
    struct cushim_context *context;
    fixture_ok(cushim_context_create(0, 0, &context));
    return context;
}

static struct cushim_context *current(void) {
    struct cushim_context *context;
    fixture_ok(cushim_context_current(&context));
    return context;
}

/* ---- C1 ---- */

static void *pop_then_leave_two(void *context) {
    static enum cushim_status popped;
    popped = cushim_context_pop(NULL);
    if (cushim_context_push(context) != CUSHIM_OK || cushim_context_push(context) != CUSHIM_OK)
        popped = CUSHIM_STATE;
    return &popped;
}

/* Pop on a new thread, then end the thread with a full stack. */
static enum cushim_status pop_in_thread(struct cushim_context *context) {
    pthread_t thread;
    void *popped = NULL;
    if (pthread_create(&thread, NULL, pop_then_leave_two, context) != 0)
        return CUSHIM_SYSTEM;
    pthread_join(thread, &popped);
    return *(enum cushim_status *)popped;
}

/* A process that ends with a context pushed. */
static int leave_one(void) {
    struct cushim_context *context;
    if (cushim_context_create(0, 0, &context) != CUSHIM_OK ||
        pop_in_thread(context) != CUSHIM_NOCONTEXT || cushim_context_push(context) != CUSHIM_OK)
        return 1;
    return 0;
}

TEST(case_C1_threads_and_processes_may_end_with_contexts_on_their_stacks) {
    char said[1024];
    int code = fixture_child("C1", said, sizeof said);
    ck_assert_str_eq(said, "");
    ck_assert_int_eq(code, 0);
}

TEST(case_C1_a_thread_that_ends_drops_its_stack_and_the_context_lives) {
    struct cushim_context *context = create();
    fixture_is(pop_in_thread(context), CUSHIM_NOCONTEXT);
    fixture_ok(cushim_context_synchronize(context));
    fixture_ok(cushim_context_destroy(context));
}

/* ---- C2 ---- */

static void allocate_in_two(struct cushim_context *first) {
    struct cushim_context *second = create();
    cushim_devptr a, b;
    fixture_ok(cushim_context_push(first));
    fixture_ok(cushim_memory_alloc(NULL, 50, &a));
    fixture_ok(cushim_context_push(second));
    fixture_ok(cushim_memory_alloc(NULL, 60, &b));
    ck_assert_uint_ne(a, b);
    fixture_ok(cushim_memory_free(a));
    fixture_ok(cushim_memory_free(b));
    fixture_ok(cushim_context_destroy(second));
    ck_assert_ptr_eq(current(), first);
    fixture_ok(cushim_context_pop(NULL));
    fixture_is(cushim_context_pop(NULL), CUSHIM_NOCONTEXT);
}

TEST(case_C2_memory_of_two_contexts_goes_back_from_either) {
    struct cushim_context *owned = create(), *primary;
    allocate_in_two(owned);
    fixture_ok(cushim_context_destroy(owned));
    fixture_ok(cushim_context_primary(0, &primary));
    allocate_in_two(primary);
    fixture_ok(cushim_context_destroy(primary));
}

/* ---- C3 ---- */

TEST(case_C3_objects_of_a_destroyed_context_are_dead_and_can_be_destroyed) {
    struct cushim_context *context = create();
    struct cushim_stream *stream;
    struct cushim_event *event;
    struct cushim_module *module;
    struct cushim_function *function;
    cushim_devptr block;
    int done;
    fixture_ok(cushim_memory_alloc(context, 1024, &block));
    fixture_ok(cushim_stream_create(context, CUSHIM_STREAM_FLAG_NON_BLOCKING, 0, &stream));
    fixture_ok(cushim_event_create(context, 0, &event));
    fixture_ok(cushim_event_record(event, stream));
    fixture_ok(cushim_module_load(context, fixture_image(), 0, NULL, &module));
    fixture_ok(cushim_context_destroy(context));
    fixture_is(cushim_memory_set8(block, 1, 1024), CUSHIM_DEADCONTEXT);
    fixture_is(cushim_stream_synchronize(stream), CUSHIM_DEADCONTEXT);
    fixture_is(cushim_event_query(event, &done), CUSHIM_DEADCONTEXT);
    fixture_is(cushim_module_function(module, "fill", &function), CUSHIM_DEADCONTEXT);
    fixture_ok(cushim_memory_free(block));
    fixture_ok(cushim_stream_destroy(stream));
    fixture_ok(cushim_event_destroy(event));
    fixture_ok(cushim_module_unload(module));
    fixture_is(cushim_stream_destroy(stream), CUSHIM_BADHANDLE);
    fixture_is(cushim_event_destroy(event), CUSHIM_BADHANDLE);
    fixture_is(cushim_module_unload(module), CUSHIM_BADHANDLE);
    fixture_is(cushim_context_destroy(context), CUSHIM_BADHANDLE);
    fixture_is(cushim_memory_free(block), CUSHIM_DOUBLEFREE);
}

int main(int argc, char **argv) {
    if (fixture_child_word(argc, argv))
        return leave_one();
    return fixture_main(argc, argv);
}
