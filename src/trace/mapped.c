#include "trace/mapped.h"

#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/list.h"

enum { MOST_MODULES = 1 << 16 };

bool cushim_trace_mapped_add(struct cushim_trace_mapped *mapped,
                             const struct cushim_trace_module *module, size_t path_bytes) {
    struct cushim_trace_module *row;
    if (mapped->n_modules == MOST_MODULES)
        return true;
    char *path = strndup(module->path, path_bytes);
    if (!path)
        return false;
    LIST_ADD(mapped->modules, mapped->n_modules, row);
    if (row)
        *row = (struct cushim_trace_module){module->start, module->n_bytes, module->offset, path};
    else
        free(path);
    return row;
}

static uint64_t end_of(const struct cushim_trace_module *module) {
    uint64_t end = module->start + module->n_bytes;
    return end < module->start ? UINT64_MAX : end;
}

/* The number of bounds up to an address. */
static size_t n_until(const struct cushim_trace_mapped *mapped, uint64_t address) {
    size_t from = 0, until = mapped->n_bounds;
    while (from < until) {
        size_t middle = from + (until - from) / 2;
        if (mapped->bounds[middle] <= address)
            from = middle + 1;
        else
            until = middle;
    }
    return from;
}

/* The first bound from i on that has no owner; `next` leads there, by shorter ways each time. */
static size_t first_free(uint32_t *next, size_t i) {
    while (next[i] != i) {
        next[i] = next[next[i]];
        i = next[i];
    }
    return i;
}

/* The newest module takes what it covers, the one before it takes what is left, and so on. */
static void share_out(struct cushim_trace_mapped *mapped, uint32_t *next) {
    for (size_t i = 0; i <= mapped->n_bounds; i++)
        next[i] = (uint32_t)i;
    for (size_t number = mapped->n_modules; number > 0; number--) {
        const struct cushim_trace_module *module = &mapped->modules[number - 1];
        size_t i = first_free(next, n_until(mapped, module->start) - 1);
        while (i < mapped->n_bounds && mapped->bounds[i] < end_of(module)) {
            mapped->owners[i] = (uint32_t)number;
            next[i] = (uint32_t)i + 1;
            i = first_free(next, i + 1);
        }
    }
}

static void free_map(struct cushim_trace_mapped *mapped) {
    free(mapped->bounds);
    free(mapped->owners);
    mapped->bounds = NULL;
    mapped->owners = NULL;
    mapped->n_bounds = mapped->n_mapped = 0;
}

/* If memory is out there is no map, and frames are in no module. */
static void make_map(struct cushim_trace_mapped *mapped) {
    size_t n = 0, n_most = 2 * mapped->n_modules;
    free_map(mapped);
    mapped->bounds = reallocarray(NULL, n_most, sizeof *mapped->bounds);
    mapped->owners = calloc(n_most, sizeof *mapped->owners);
    uint32_t *next = reallocarray(NULL, n_most + 1, sizeof *next);
    if (!mapped->bounds || !mapped->owners || !next) {
        free_map(mapped);
        free(next);
        return;
    }
    for (size_t i = 0; i < mapped->n_modules; i++) {
        mapped->bounds[2 * i] = mapped->modules[i].start;
        mapped->bounds[2 * i + 1] = end_of(&mapped->modules[i]);
    }
    qsort(mapped->bounds, n_most, sizeof *mapped->bounds, cushim_by_number);
    for (size_t i = 0; i < n_most; i++) {
        if (!n || mapped->bounds[i] != mapped->bounds[n - 1])
            mapped->bounds[n++] = mapped->bounds[i];
    }
    mapped->n_bounds = n;
    mapped->n_mapped = mapped->n_modules;
    share_out(mapped, next);
    free(next);
}

const struct cushim_trace_module *cushim_trace_mapped_find(struct cushim_trace_mapped *mapped,
                                                           uint64_t frame) {
    if (mapped->n_mapped != mapped->n_modules)
        make_map(mapped);
    size_t n = n_until(mapped, frame);
    uint32_t number = n ? mapped->owners[n - 1] : 0;
    return number ? &mapped->modules[number - 1] : NULL;
}

void cushim_trace_mapped_free(struct cushim_trace_mapped *mapped) {
    for (size_t i = 0; i < mapped->n_modules; i++)
        free(mapped->modules[i].path);
    free(mapped->modules);
    free_map(mapped);
    memset(mapped, 0, sizeof *mapped);
}
