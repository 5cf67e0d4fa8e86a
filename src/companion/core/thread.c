#include "companion/core/thread.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "companion/events.h"

/* A list that grows at its head; records are never removed. */
static _Atomic(struct cushim_thread *) first;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool has_key;

_Thread_local struct cushim_thread *cushim_thread_mine __attribute__((tls_model("initial-exec")));

/* If a later destructor of the thread calls the library, this one runs again. */
static void end(void *argument) {
    struct cushim_thread *thread = argument;
    cushim_events.thread_ended(thread);
    for (unsigned i = 0; i < CUSHIM_THREAD_N_CELLS;
         i++) /* pins of a call that pthread_exit ended */
        store_release(&thread->pins[i], NULL);
    if (thread->text != thread->room)
        free(thread->text);
    free(thread->pool_memory);
    cushim_thread_mine = NULL;
    store_release(&thread->is_used, false);
}

static void make_key(void) {
    has_key = pthread_key_create(&key, end) == 0;
}

static struct cushim_thread *find_unused(void) {
    for (struct cushim_thread *thread = cushim_thread_first(); thread; thread = thread->next) {
        bool expected = false;
        if (!load_relaxed(&thread->is_used) &&
            atomic_compare_exchange_strong(&thread->is_used, &expected, true))
            return thread;
    }
    return NULL;
}

static struct cushim_thread *make(void) {
    /* from the heap, because leak checkers do not follow pointers in mapped memory */
    struct cushim_thread *thread =
        aligned_alloc(_Alignof(struct cushim_thread), sizeof(struct cushim_thread));
    if (!thread)
        return NULL;
    memset(thread, 0, sizeof *thread);
    atomic_init(&thread->is_used, true);
    thread->next = load_acquire(&first);
    while (!atomic_compare_exchange_weak(&first, &thread->next, thread)) {
    }
    return thread;
}

struct cushim_thread *cushim_thread_begin(void) {
    pthread_once(&once, make_key);
    struct cushim_thread *thread = find_unused();
    if (!thread && !(thread = make()))
        return NULL;
    enum { FROM = offsetof(struct cushim_thread, free_pins) };
    memset((char *)thread + FROM, 0, offsetof(struct cushim_thread, is_used) - FROM);
    thread->free_pins = (1u << CUSHIM_THREAD_N_PINS) - 1;
    thread->text = thread->room;
    thread->text_cap_bytes = sizeof thread->room;

    if (has_key)
        pthread_setspecific(key, thread);
    cushim_thread_mine = thread;
    return thread;
}

struct cushim_thread *cushim_thread_first(void) {
    return load_acquire(&first);
}
