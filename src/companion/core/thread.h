/*
 * What the library keeps of a thread: pins, the last error, its device, its stack of contexts, what
 * it used of pools.
 *
 * A record is made at the thread's first call and given back at its end, for another thread; it is
 * never freed, so that a scan over all records needs no lock.  At the end of the process nothing
 * is done.  All fields are the thread's own but the pins, which closers of handles read.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/atomics.h"

enum {
    CUSHIM_THREAD_N_PINS = 16, /* that free_pins counts, */
    CUSHIM_THREAD_N_FAST = 3,  /* and those of enum cushim_cell behind them */
    CUSHIM_THREAD_N_CELLS = CUSHIM_THREAD_N_PINS + CUSHIM_THREAD_N_FAST,
    CUSHIM_THREAD_TEXT_BYTES = 1024
};

/*
 * Cells of fast paths (companion/core/handle_pin.h).  Each purpose has one, because a launch holds
 * two at once.  A thread that ends the ownership of an arena waits for FAST alone
 * (cushim_pin_wait_out).
 */
enum cushim_cell {
    CUSHIM_CELL_FAST,   /* arenas: over no lock, no wait and no call of the driver */
    CUSHIM_CELL_STREAM, /* the stream of a launch */
    CUSHIM_CELL_LAUNCH /* what is launched, over the driver's call, which may wait for the device */
};

struct cushim_thread {
    /* written by the thread, read by closers: the slots its calls use now */
    _Alignas(64) _Atomic(struct cushim_slot *) pins[CUSHIM_THREAD_N_CELLS];
    uint32_t free_pins; /* a bit a cell of pins; the thread's own from here on */
    int device;         /* of cushim_device_set; 0 until set */

    struct cushim_frame *frames; /* the stack of contexts, its top first */
    void *base_context;          /* CUcontext found at the first push */

    /* what it used of pools; made at its first use, by aligned_alloc */
    struct cushim_pool_memory *pool_memory;

    int cuda_code;                       /* of the last failure; 0: our own */
    char *text;                          /* of the last failure: `room`, or malloc'd */
    size_t text_cap_bytes;               /* of text */
    char room[CUSHIM_THREAD_TEXT_BYTES]; /* serves almost every text without a malloc */
    atomic_bool is_used;                 /* a thread has it */
    struct cushim_thread *next;          /* set once, before it is in the list */
};

/* The calling thread's record, or NULL before its first call: one word, so that a library opened
 * late finds room for it beside the program's own. */
extern _Thread_local struct cushim_thread *cushim_thread_mine
    __attribute__((tls_model("initial-exec")));

/* Make the calling thread's record; NULL if host memory is out.  Takes no lock. */
struct cushim_thread *cushim_thread_begin(void);

/* The calling thread's record, made if there is none.  A load, because every call begins here. */
static inline struct cushim_thread *cushim_thread_get(void) {
    struct cushim_thread *thread = cushim_thread_mine;
    return likely(thread != NULL) ? thread : cushim_thread_begin();
}

/* All records so far, linked by `next`; those without a thread hold no pins.  Takes no lock. */
struct cushim_thread *cushim_thread_first(void);
