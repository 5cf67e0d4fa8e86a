#include "companion/arena/arena_fallback.h"

#include <stdlib.h>
#include <string.h>

#include "companion/core/rows.h"

/* The first loan at or behind the address. */
static size_t place_of(const struct cushim_arena_fallback *fallback, uint64_t address) {
    return cushim_rows_place(fallback->loans, fallback->n, sizeof *fallback->loans, address);
}

bool cushim_arena_fallback_add(struct cushim_arena_fallback *fallback,
                               const struct cushim_arena_loan *loan) {
    if (!cushim_rows_reserve(&fallback->loans, fallback->n, &fallback->cap, sizeof *loan))
        return false;
    size_t i = place_of(fallback, loan->address);
    struct cushim_arena_loan *at = &fallback->loans[i];
    memmove(at + 1, at, (fallback->n - i) * sizeof *at);
    *at = *loan;
    fallback->n++;
    fallback->bytes += loan->bytes;
    return true;
}

const struct cushim_arena_loan *
cushim_arena_fallback_find(const struct cushim_arena_fallback *fallback, uint64_t address) {
    size_t i = place_of(fallback, address);
    return i < fallback->n && fallback->loans[i].address == address ? &fallback->loans[i] : NULL;
}

void cushim_arena_fallback_remove(struct cushim_arena_fallback *fallback,
                                  const struct cushim_arena_loan *loan) {
    size_t i = (size_t)(loan - fallback->loans);
    fallback->bytes -= loan->bytes;
    fallback->n--;
    memmove(&fallback->loans[i], &fallback->loans[i + 1],
            (fallback->n - i) * sizeof *fallback->loans);
}

bool cushim_arena_fallback_pop(struct cushim_arena_fallback *fallback, uint64_t epoch,
                               struct cushim_arena_loan *loan) {
    for (size_t i = fallback->n; i-- > 0;) {
        if (fallback->loans[i].epoch > epoch)
            continue;
        *loan = fallback->loans[i];
        cushim_arena_fallback_remove(fallback, &fallback->loans[i]);
        return true;
    }
    return false;
}

void cushim_arena_fallback_finish(struct cushim_arena_fallback *fallback) {
    free(fallback->loans);
    fallback->loans = NULL;
    fallback->n = fallback->cap = 0;
}
