#include "companion/arena/arena_pin.h"

#include <stdlib.h>
#include <string.h>

#include "companion/core/rows.h"

/* The first row at or behind `at`. */
static size_t place_of(const struct cushim_arena_pins *pins, uint64_t at) {
    return cushim_rows_place(pins->rows, pins->n, sizeof *pins->rows, at);
}

struct cushim_arena_pin *cushim_arena_pins_find(const struct cushim_arena_pins *pins, uint64_t at) {
    size_t i = place_of(pins, at);
    return i < pins->n && pins->rows[i].at == at ? &pins->rows[i] : NULL;
}

bool cushim_arena_pins_add(struct cushim_arena_pins *pins, uint64_t at, uint64_t n_grains) {
    struct cushim_arena_pin *row = cushim_arena_pins_find(pins, at);
    if (row) {
        row->n_pins++;
        return true;
    }
    if (!cushim_rows_reserve(&pins->rows, pins->n, &pins->cap, sizeof *pins->rows))
        return false;
    size_t i = place_of(pins, at);
    memmove(&pins->rows[i + 1], &pins->rows[i], (pins->n - i) * sizeof *pins->rows);
    pins->rows[i] = (struct cushim_arena_pin){at, n_grains, 1, false};
    pins->n++;
    pins->n_grains += n_grains;
    return true;
}

void cushim_arena_pins_remove(struct cushim_arena_pins *pins, struct cushim_arena_pin *row,
                              struct cushim_arena_pin *was) {
    row->n_pins--;
    *was = *row;
    if (row->n_pins)
        return;
    size_t i = (size_t)(row - pins->rows);
    pins->n--;
    pins->n_grains -= was->n_grains;
    memmove(row, row + 1, (pins->n - i) * sizeof *row);
}

uint64_t cushim_arena_pins_end(const struct cushim_arena_pins *pins, uint64_t low, uint64_t high) {
    uint64_t end = low;
    size_t i = place_of(
        pins, high); /* the last one before it ends highest, because blocks do not overlap */
    if (i > 0 && pins->rows[i - 1].at >= low)
        end = pins->rows[i - 1].at + pins->rows[i - 1].n_grains;
    for (const struct cushim_arena_graph *hold = pins->holds; hold; hold = hold->next) {
        for (size_t j = 0; j < hold->n; j++) {
            const struct cushim_arena_range *range = &hold->ranges[j];
            uint64_t range_end = range->at + range->n_grains; /* perhaps in the next region */
            if (range->at < high && range_end > end)
                end = range_end < high ? range_end : high;
        }
    }
    return end;
}

bool cushim_arena_pins_is_held(const struct cushim_arena_pins *pins, uint64_t at) {
    for (const struct cushim_arena_graph *hold = pins->holds; hold; hold = hold->next) {
        for (size_t j = 0; j < hold->n; j++) {
            if (at >= hold->ranges[j].at && at - hold->ranges[j].at < hold->ranges[j].n_grains)
                return true;
        }
    }
    return false;
}

uint64_t cushim_arena_pins_grains(const struct cushim_arena_pins *pins) {
    uint64_t n_grains = pins->n_grains;
    for (const struct cushim_arena_graph *hold = pins->holds; hold; hold = hold->next)
        n_grains += hold->n_grains;
    return n_grains;
}

bool cushim_arena_graph_reserve(struct cushim_arena_graph *hold) {
    return cushim_rows_reserve(&hold->ranges, hold->n, &hold->cap, sizeof *hold->ranges);
}

void cushim_arena_graph_add(struct cushim_arena_graph *hold, uint64_t at, uint64_t n_grains) {
    hold->n_grains += n_grains;
    struct cushim_arena_range *last = hold->n ? &hold->ranges[hold->n - 1] : NULL;
    if (last && last->at + last->n_grains == at)
        last->n_grains += n_grains;
    else
        hold->ranges[hold->n++] = (struct cushim_arena_range){at, n_grains};
}

void cushim_arena_pins_finish(struct cushim_arena_pins *pins) {
    free(pins->rows);
    *pins = (struct cushim_arena_pins){0};
}
