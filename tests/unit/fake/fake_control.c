#include "tests/unit/fake/fake_cuda.h"

#include <stdlib.h>
#include <string.h>

#include "tests/unit/fake/fake_state.h"

static const uint64_t first_address = (uint64_t)0x7f0000 << 24;

#define LOCKED(statement)                                                                          \
    do {                                                                                           \
        pthread_mutex_lock(&fake.lock);                                                            \
        statement;                                                                                 \
        pthread_mutex_unlock(&fake.lock);                                                          \
    } while (0)

void fake_reset(void) {
    struct fake_allocation *row, *next_row;
    HASH_ITER(hh, fake.allocations, row, next_row) {
        HASH_DEL(fake.allocations, row);
        free(row);
    }
    for (struct CUevent_st *event = fake.events, *next; event; event = next) {
        next = event->next;
        free(event);
    }
    memset(&fake, 0, sizeof fake);
    pthread_mutex_init(&fake.lock, NULL);
    fake.next_address = first_address;
    fake.limit_bytes = (size_t)1 << 44;
    for (unsigned i = 0; i < FAKE_CONTEXTS; i++)
        fake.contexts[i].number = i;
    for (unsigned i = 0; i < FAKE_STREAMS; i++)
        fake.streams[i].number = i;
    memset(&fake_thread, 0, sizeof fake_thread);
}

CUcontext fake_context(unsigned k) {
    return &fake.contexts[k];
}

CUstream fake_stream(unsigned k) {
    return &fake.streams[k];
}

void fake_set_flags(unsigned k, unsigned flags) {
    fake.contexts[k].flags = flags;
}

void fake_set_current(CUcontext context) {
    fake_thread.depth = context ? 1 : 0;
    fake_thread.stack[0] = context;
}

CUcontext fake_current(void) {
    return fake_thread.depth ? fake_thread.stack[fake_thread.depth - 1] : NULL;
}

unsigned fake_depth(void) {
    return fake_thread.depth;
}

CUstreamCaptureMode fake_mode(void) {
    return fake_thread.mode;
}

void fake_submit(unsigned stream) {
    LOCKED(fake.streams[stream].n_submitted++);
}

void fake_finish(unsigned stream) {
    LOCKED(fake.streams[stream].n_done = fake.streams[stream].n_submitted);
}

void fake_step(unsigned stream) {
    struct CUstream_st *row = &fake.streams[stream];
    LOCKED(row->n_done += row->n_done < row->n_submitted);
}

uint64_t fake_n_done(unsigned stream) {
    uint64_t n;
    LOCKED(n = fake.streams[stream].n_done);
    return n;
}

void fake_limit(size_t n_bytes) {
    LOCKED(fake.limit_bytes = n_bytes);
}

/* Read a number of the state under the lock. */
#define READ(type, name, field)                                                                    \
    type name(void) {                                                                              \
        type value;                                                                                \
        LOCKED(value = fake.field);                                                                \
        return value;                                                                              \
    }

READ(size_t, fake_used_bytes, used_bytes)
READ(size_t, fake_n_allocations, n_live)
READ(size_t, fake_n_events, n_events)
READ(bool, fake_has_failed, has_failed)
READ(unsigned, fake_n_invalidated, n_invalidated)
READ(unsigned, fake_n_all_calls, n_all_calls)
READ(unsigned, fake_n_faults, n_faults)

const char *fake_failed_call(void) {
    return fake_has_failed() ? fake.failed_call : "";
}

bool fake_is_allocated(uint64_t address) {
    struct fake_allocation *row;
    LOCKED(HASH_FIND(hh, fake.allocations, &address, sizeof address, row));
    return row && row->is_live;
}

void fake_lose_all(void) {
    struct fake_allocation *row, *next;
    pthread_mutex_lock(&fake.lock);
    HASH_ITER(hh, fake.allocations, row, next) {
        row->is_live = false;
        fake.freed_last = row; /* the address that is handed out first */
    }
    for (struct CUevent_st *event = fake.events; event; event = event->next)
        event->is_alive = false;
    fake.used_bytes = fake.n_live = fake.n_events = 0;
    pthread_mutex_unlock(&fake.lock);
}

void fake_lose_events(unsigned k) {
    pthread_mutex_lock(&fake.lock);
    for (struct CUevent_st *event = fake.events; event; event = event->next) {
        fake.n_events -= event->is_alive && event->context == &fake.contexts[k];
        event->is_alive = event->is_alive && event->context != &fake.contexts[k];
    }
    pthread_mutex_unlock(&fake.lock);
}

void fake_fail_at(unsigned n, CUresult result) {
    LOCKED((fake.fail_at = n, fake.fail_result = result, fake.has_failed = false));
}

void fake_fail_always(const char *name, CUresult result) {
    LOCKED((fake.always_name = name, fake.always_result = result));
}

void fake_capture(unsigned k, bool is_open) {
    LOCKED(fake.contexts[k].n_captures += is_open ? 1u : -1u);
}

unsigned fake_n_calls(const char *name) {
    unsigned n = 0;
    pthread_mutex_lock(&fake.lock);
    for (unsigned i = 0; fake.counts[i].name; i++) {
        if (strcmp(fake.counts[i].name, name) == 0)
            n = fake.counts[i].n;
    }
    pthread_mutex_unlock(&fake.lock);
    return n;
}

const char *fake_order(void) {
    return fake.order;
}

void fake_forget_order(void) {
    LOCKED((fake.order_bytes = 0, fake.order[0] = 0));
}

void fake_on_call(void (*function)(const char *name)) {
    __atomic_store_n(&fake.on_call, function, __ATOMIC_RELEASE);
}
