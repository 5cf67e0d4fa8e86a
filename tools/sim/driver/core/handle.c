#include "handle.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* Open addressing; a removed entry keeps its place (object of no kind) until the table grows. */
struct entry {
    const void *object; /* NULL: never used */
    enum sim_handle_kind kind;
};

static struct entry *entries;
static size_t n_entries; /* a power of two, or 0 */
static size_t n_used;    /* places that are not NULL */

static size_t place_of(const void *object) {
    return (size_t)(((uint64_t)(uintptr_t)object >> 4) * 0x9e3779b97f4a7c15ull >> 32);
}

/* The object's place, or the free one at the end of the search. */
static struct entry *find(const void *object) {
    size_t i = place_of(object) & (n_entries - 1);
    while (entries[i].object && entries[i].object != object)
        i = (i + 1) & (n_entries - 1);
    return &entries[i];
}

static bool grow(void) {
    struct entry *old = entries;
    size_t n_old = n_entries;
    size_t n_new = n_old ? n_old * 2 : 1024;
    struct entry *fresh = calloc(n_new, sizeof *fresh);
    if (!fresh)
        return false;
    entries = fresh;
    n_entries = n_new;
    n_used = 0;
    for (size_t i = 0; i < n_old; i++) {
        if (old[i].kind) {
            *find(old[i].object) = old[i];
            n_used++;
        }
    }
    free(old);
    return true;
}

bool sim_handle_add(const void *object, enum sim_handle_kind kind) {
    if (n_used * 2 >= n_entries && !grow())
        return false;
    struct entry *entry = find(object);
    if (!entry->object)
        n_used++;
    *entry = (struct entry){object, kind};
    return true;
}

bool sim_handle_is(const void *object, enum sim_handle_kind kind) {
    if (!object || n_entries == 0)
        return false;
    const struct entry *entry = find(object);
    return entry->object && entry->kind == kind;
}

void sim_handle_remove(const void *object) {
    struct entry *entry = find(object);
    if (entry->object)
        entry->kind = SIM_HANDLE_NONE;
}
