/*
 * Pins of an arena: a count for each block that a reset must not reach, and the blocks of a
 * capture, which are pinned together.
 *
 * Pins are sorted by place.  A block freed while pinned becomes free when its last pin goes.
 *
 * Lock: the arena's.
 */
#ifndef CUSHIM_COMPANION_ARENA_PIN_H
#define CUSHIM_COMPANION_ARENA_PIN_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cushim_arena_object;

struct cushim_arena_pin {
    uint64_t at, n_grains;
    uint64_t n_pins; /* at least 1 */
    bool is_freed;   /* by the user, meanwhile */
};

struct cushim_arena_range {
    uint64_t at, n_grains;
};

/* The blocks of one capture; neighbours taken in a row are one range. */
struct cushim_arena_graph {
    struct cushim_arena_object *arena; /* kept by the hold */
    struct cushim_arena_graph *next;   /* in the arena's list, from start to drop */
    uint64_t capture_id;
    pthread_t thread; /* which began the capture */
    bool is_listed, is_collecting;
    struct cushim_arena_range *ranges;
    size_t n, cap;
    uint64_t n_grains; /* of all ranges */
};

/* All zero is empty. */
struct cushim_arena_pins {
    struct cushim_arena_pin *rows;
    size_t n, cap;
    uint64_t n_grains; /* of all rows */
    struct cushim_arena_graph *holds;
};

/* The pin of the block that starts at `at`; NULL: it has none. */
struct cushim_arena_pin *cushim_arena_pins_find(const struct cushim_arena_pins *pins, uint64_t at);

/* Add a pin to a block; false if host memory is out. */
bool cushim_arena_pins_add(struct cushim_arena_pins *pins, uint64_t at, uint64_t n_grains);

/* Remove one pin of `row`.  *was is the row after that; with n_pins 0 the row is gone. */
void cushim_arena_pins_remove(struct cushim_arena_pins *pins, struct cushim_arena_pin *row,
                              struct cushim_arena_pin *was);

/* The end of the highest pinned or held block between `low` and `high`; `low` if there is none. */
uint64_t cushim_arena_pins_end(const struct cushim_arena_pins *pins, uint64_t low, uint64_t high);

/* Does a hold have the block that starts at `at`? */
bool cushim_arena_pins_is_held(const struct cushim_arena_pins *pins, uint64_t at);

/* All grains pinned or held; a block that is both counts twice. */
uint64_t cushim_arena_pins_grains(const struct cushim_arena_pins *pins);

/* Make room in a hold for one more block, so that adding it cannot fail; false: host memory is out.
 */
bool cushim_arena_graph_reserve(struct cushim_arena_graph *hold);
void cushim_arena_graph_add(struct cushim_arena_graph *hold, uint64_t at, uint64_t n_grains);

void cushim_arena_pins_finish(struct cushim_arena_pins *pins);

#endif
