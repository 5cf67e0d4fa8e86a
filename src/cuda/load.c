#include "cuda/load.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/table.h"

enum { OPTIONAL = 0, REQUIRED = 1 };

/*
 * Tables are walked by offset, because a statement for each row makes functions of thousands of
 * lines, over which a sanitizer's compiler takes half a minute.  A slot is a word here, whatever
 * its function type.
 */
typedef uintptr_t word __attribute__((may_alias));

static word *slot_at(void *table, size_t offset) {
    return (word *)(void *)((char *)table + offset);
}

/* ---- the tables of the layers below ---- */

struct row {
    const char *name;
    uint16_t offset;
    bool is_required;
};

#define ROW(table, abi, need) {#abi, offsetof(struct table, abi), (need) == REQUIRED},

#define ROW_DRV_HOOK(abi, need) ROW(cushim_cuda, abi, need)
#define ROW_DRV_CALL(abi, need) ROW(cushim_cuda, abi, need)
#define ROW_DRV_NATIVE(abi, need)
#define ROW_RT_HOOK(abi, need)
#define ROW_RT_CALL(abi, need)

static const struct row cuda_rows[] = {
#define SYM(role, api, abi, asked_as, since, need) ROW_##api##_##role(abi, need)
#include "cuda/symbols.def"
#undef SYM
    {NULL, 0, false},
};

#undef ROW_DRV_HOOK
#undef ROW_DRV_CALL
#undef ROW_RT_HOOK
#undef ROW_RT_CALL
#define ROW_DRV_HOOK(abi, need)
#define ROW_DRV_CALL(abi, need)
#define ROW_RT_HOOK(abi, need) ROW(cushim_cudart, abi, need)
#define ROW_RT_CALL(abi, need) ROW(cushim_cudart, abi, need)

static const struct row cudart_rows[] = {
#define SYM(role, api, abi, asked_as, since, need) ROW_##api##_##role(abi, need)
#include "cuda/symbols.def"
#undef SYM
    {NULL, 0, false},
};

/*
 * If several threads come first at once, all write the same value into a slot, and publish the
 * table afterwards.  gcc reads an _Atomic slot in a call plainly, so TSan takes a late writer's
 * exchange for a race with such a read.  It is none, because the word always has the same value.
 */
__attribute__((no_sanitize("thread"))) static const char *
fill(void *table, const struct row *row, cushim_cuda_find_fn *find, void *cookie) {
    const char *first_missing = NULL;
    for (; row->name; row++) {
        word address = (word)find(row->name, cookie), *slot = slot_at(table, row->offset);
        if (!address && row->is_required && !first_missing)
            first_missing = row->name;
        /* do not write a slot again that is right, because it may be in use */
        if (__atomic_load_n(slot, __ATOMIC_ACQUIRE) != address)
            __atomic_store_n(slot, address, __ATOMIC_SEQ_CST);
    }
    return first_missing;
}

const char *cushim_cuda_missing(cushim_cuda_find_fn *find, void *cookie) {
    const struct row *row = cuda_rows;
    while (row->name && (!row->is_required || find(row->name, cookie)))
        row++;
    return row->name;
}

enum cushim_status cushim_cuda_load(struct cushim_cuda *cuda, cushim_cuda_find_fn *find,
                                    void *cookie, const char **missing) {
    const char *first_missing = fill(cuda, cuda_rows, find, cookie);
    if (missing)
        *missing = first_missing;
    return first_missing ? CUSHIM_NOSYM : CUSHIM_OK;
}

struct cushim_cuda *cushim_cuda_create(void) {
    return calloc(1, sizeof(struct cushim_cuda));
}

enum cushim_status cushim_cudart_load(struct cushim_cudart *cudart, cushim_cuda_find_fn *find,
                                      void *cookie) {
    return fill(cudart, cudart_rows, find, cookie) ? CUSHIM_NOSYM : CUSHIM_OK;
}
