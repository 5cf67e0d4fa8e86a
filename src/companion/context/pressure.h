/*
 * Pressure callbacks: functions that give memory back when another allocation fails.
 *
 * Pools hold memory that has no row in the address map, and register one struct for good.  Its
 * functions are called when the driver is out of memory, when a text or cushim_memory_info_pools
 * says how much is held, and when a program frees a block that outlived its pool.
 *
 * The list only grows and is read without a lock; none is held over the functions.
 */
#pragma once

#include "companion/context/context.h"

struct cushim_address_map_row;
struct cushim_scope;

/* What is held in one context, in bytes. */
struct cushim_pressure_held {
    size_t cached_bytes;   /* idle: could serve a request of the pool */
    size_t live_bytes;     /* in the hands of programs */
    size_t reusable_bytes; /* could go back to the driver, once pending work is over */
};

struct cushim_pressure {
    /*
     * Give idle device memory of the context back to the driver, at least `bytes` if there is that
     * much; returns how much was given back.  The context is current and the thread in relaxed
     * capture mode.  It must not wait, because a capture may be open.  NULL: gives nothing.
     */
    size_t (*give)(struct cushim_context_object *context, size_t bytes);

    /* Add what is held in the context.  NULL: nothing. */
    void (*count)(struct cushim_context_object *context, struct cushim_pressure_held *held);

    /*
     * Free a plain block that is no row's: its pool was destroyed before it.  False: not mine.
     * `what` is our public function, `is_host` whether it is cushim_host_free; *status is its
     * answer, with its text.  NULL: there are none.
     */
    bool (*release)(const char *what, uint64_t start, bool is_host, enum cushim_status *status);

    /* Fill the row of a live block that has none, context and owner kept.  False: not mine. */
    bool (*find)(uint64_t address, struct cushim_address_map_row *row);

    struct cushim_pressure *next;
};

/* Add one, for good: a static struct, once (a second time does nothing).  Threads  any. */
void cushim_pressure_add(struct cushim_pressure *pressure);

/* Call each in turn until `bytes` were given back; returns how many were. */
size_t cushim_pressure_ask(struct cushim_context_object *context, size_t bytes);

/* Sum over all. */
struct cushim_pressure_held cushim_pressure_sum(struct cushim_context_object *context);

/* Whether a module had a plain block at `start` and freed it; *status is its answer. */
bool cushim_pressure_release(const char *what, uint64_t start, bool is_host,
                             enum cushim_status *status);

/* Whether a module has a live block that covers the address, and its row. */
bool cushim_pressure_find(uint64_t address, struct cushim_address_map_row *row);

/* Fail for want of memory: the text has asked, free and total, and what our pools hold.  `steps`
 * names what was tried before. */
enum cushim_status cushim_pressure_fail(struct cushim_scope *scope, const char *entry,
                                        size_t asked_bytes, const char *steps);
