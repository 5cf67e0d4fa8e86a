#include "tools/cushim/recording/live.h"

#include <errno.h>
#include <stdlib.h>

#include "tools/cushim/recording/recording.h"

static bool is_in(const struct recording_scope *scope, unsigned device, unsigned kind) {
    return scope->devices >> device & scope->kinds >> kind & 1;
}

/* Make room for one more row.  The space is doubled if it is full. */
static void *grow(struct live *lists, void *rows, size_t n, size_t row_bytes) {
    if (n & (n - 1))
        return rows;
    void *more = reallocarray(rows, n ? 2 * n : 1, row_bytes);
    if (!more)
        lists->error = ENOMEM;
    return more ? more : rows;
}

static void list_block(const struct cushim_trace_block *block, void *context) {
    struct live *lists = context;
    if (lists->error || (!block->pool && !lists->has_native) ||
        !is_in(lists->scope, block->device, block->kind))
        return;
    lists->blocks = grow(lists, lists->blocks, lists->n_blocks, sizeof *lists->blocks);
    if (!lists->error)
        lists->blocks[lists->n_blocks++] = *block;
}

static void list_segment(const struct cushim_trace_segment *segment, void *context) {
    struct live *lists = context;
    if (lists->error || !is_in(lists->scope, segment->device, segment->kind))
        return;
    lists->segments = grow(lists, lists->segments, lists->n_segments, sizeof *lists->segments);
    if (!lists->error)
        lists->segments[lists->n_segments++] = *segment;
}

static int by_address(const void *left, const void *right) {
    const struct cushim_trace_block *a = left, *b = right;
    return a->address < b->address ? -1 : a->address > b->address;
}

static int by_base(const void *left, const void *right) {
    const struct cushim_trace_segment *a = left, *b = right;
    return a->base < b->base ? -1 : a->base > b->base;
}

int live_list(struct live *live, const struct cushim_trace_account *account,
              const struct recording_scope *scope, bool has_native) {
    *live = (struct live){.scope = scope, .has_native = has_native};
    cushim_trace_account_each(account, list_block, live);
    cushim_trace_segments_each(&account->segments, list_segment, live);
    if (live->n_blocks)
        qsort(live->blocks, live->n_blocks, sizeof *live->blocks, by_address);
    if (live->n_segments)
        qsort(live->segments, live->n_segments, sizeof *live->segments, by_base);
    return live->error;
}

void live_free(struct live *live) {
    free(live->blocks);
    free(live->segments);
    *live = (struct live){0};
}
