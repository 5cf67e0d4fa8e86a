#include "trace/account.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "base/hash.h"
#include "base/list.h"

/* A larger request is impossible. */
static const uint64_t MOST_BYTES = (uint64_t)1 << 50;

struct live {
    struct cushim_trace_block block;
    struct live *prev, *next; /* of its pool */
    UT_hash_handle hh;
};

struct segment {
    struct cushim_trace_segment segment;
    struct segment *prev, *next; /* of its pool */
    UT_hash_handle hh;
};

/* The live blocks and the segments of the pool with this number. */
struct pool {
    uint64_t number;
    struct live *blocks;
    struct segment *segments;
    UT_hash_handle hh;
};

/* A stack, as one writer numbers it. */
struct stack {
    struct {
        uint64_t writer, number;
    } key;
    struct cushim_trace_site *site;
    UT_hash_handle hh;
};

struct site {
    struct cushim_trace_site site; /* first, so that a site is found by its frames */
    UT_hash_handle hh;
};

/* A thread: how often it asked, and what it freed last. */
struct thread {
    uint64_t writer, n_requests;
    struct cushim_trace_block freed;
    uint64_t freed_life_ns;
    bool freed_temporary;
    UT_hash_handle hh;
};

struct cushim_trace_tables {
    struct live *live;
    struct segment *segments;
    struct pool *pools;
    struct cushim_trace_mapped mapped;
    struct stack *stacks;
    struct site *sites;
    struct thread *threads;
    struct cushim_trace_site *nobody; /* for requests without a stack */
    struct cushim_trace_event later;  /* comes after the frees that it implies */
    bool has_later;
};

/* ---- tables ---- */

static void *out_of_memory(struct cushim_trace_account *account, void *row) {
    free(row);
    account->error = ENOMEM;
    return NULL;
}

static struct live *find_live(const struct cushim_trace_account *account, uint64_t address) {
    struct live *live;
    HASH_FIND(hh, account->tables->live, &address, sizeof address, live);
    return live;
}

static struct pool *find_pool(const struct cushim_trace_account *account, uint64_t number) {
    struct pool *pool;
    HASH_FIND(hh, account->tables->pools, &number, sizeof number, pool);
    return pool;
}

static struct thread *thread_of(struct cushim_trace_account *account) {
    struct thread *thread;
    HASH_GET(account->tables->threads, writer, account->writer, thread);
    return thread ? thread : out_of_memory(account, NULL);
}

static struct cushim_trace_site *list_site(struct cushim_trace_account *account,
                                           struct cushim_trace_site *site) {
    struct cushim_trace_site **row;
    site->number = account->n_sites;
    LIST_ADD(account->sites, account->n_sites, row);
    return row ? *row = site : NULL;
}

static struct cushim_trace_site *site_of_frames(struct cushim_trace_account *account,
                                                const uint64_t *frames, unsigned n_frames) {
    struct site *site;
    HASH_FIND(hh, account->tables->sites, frames, n_frames * sizeof *frames, site);
    if (site)
        return &site->site;
    site = calloc(1, sizeof *site);
    if (!site)
        return out_of_memory(account, NULL);
    memcpy(site->site.frames, frames, n_frames * sizeof *frames);
    site->site.n_frames = n_frames;
    HASH_ADD(hh, account->tables->sites, site.frames, n_frames * sizeof *frames, site);
    if (!site->hh.tbl)
        return out_of_memory(account, site);
    if (!list_site(account, &site->site))
        return out_of_memory(account, NULL);
    return &site->site;
}

static void add_stack(struct cushim_trace_account *account) {
    const struct cushim_trace_event *event = &account->event;
    struct stack *stack, wanted = {.key = {account->writer, event->number}};
    struct cushim_trace_site *site = event->n_frames
                                         ? site_of_frames(account, event->frames, event->n_frames)
                                         : account->tables->nobody;
    if (!site)
        return;
    HASH_GET(account->tables->stacks, key, wanted.key, stack);
    if (stack)
        stack->site = site; /* it may be told anew */
    else
        account->error = ENOMEM;
}

static struct cushim_trace_site *site_of(struct cushim_trace_account *account) {
    struct stack *stack, wanted = {.key = {account->writer, account->event.stack}};
    HASH_FIND(hh, account->tables->stacks, &wanted.key, sizeof wanted.key, stack);
    return account->event.stack && stack ? stack->site : account->tables->nobody;
}

static void add_module(struct cushim_trace_account *account) {
    const struct cushim_trace_event *event = &account->event;
    const struct cushim_trace_module module = {event->address, event->n_bytes, event->number,
                                               (char *)event->text};
    if (!cushim_trace_mapped_add(&account->tables->mapped, &module, event->text_bytes))
        account->error = ENOMEM;
}

/* ---- blocks ---- */

/* Those of the event's place. */
static struct cushim_trace_sums *sums_here(struct cushim_trace_account *account) {
    return &account->sums[account->event.device][account->event.kind];
}

static bool is_counted(const struct cushim_trace_account *account, unsigned device, unsigned kind) {
    return account->devices >> device & account->kinds >> kind & 1;
}

/* Count the thread's last free for its site (n is 1), or take it off again (n is -1). */
static void count_freed(const struct cushim_trace_account *account, const struct thread *thread,
                        uint64_t n) {
    struct cushim_trace_site *site = thread->freed.site;
    if (!is_counted(account, thread->freed.device, thread->freed.kind) || !thread->freed.request)
        return;
    site->n_frees += n;
    site->life_ns += n * thread->freed_life_ns;
    site->n_temporary += n * thread->freed_temporary;
}

static void hold(struct cushim_trace_sums *sums, uint64_t n_bytes) {
    sums->held_bytes += n_bytes;
    if (sums->held_bytes > sums->peak_held_bytes)
        sums->peak_held_bytes = sums->held_bytes;
}

static void add_block(struct cushim_trace_account *account) {
    const struct cushim_trace_event *event = &account->event;
    struct cushim_trace_sums *sums = sums_here(account);
    struct thread *thread = thread_of(account);
    struct live *live = NULL;
    struct pool *pool;
    if (!thread)
        return;
    struct cushim_trace_block block = {
        .address = event->address,
        .n_bytes = event->n_bytes,
        .time_ns = event->time_ns,
        .pool = event->pool,
        .thread = event->thread,
        .device = event->device,
        .kind = event->kind,
        .site = site_of(account),
    };
    bool is_restored = event->flags & CUSHIM_TRACE_RESTORED;
    if (is_restored && thread->freed.site && thread->freed.address == event->address) {
        block = thread->freed; /* it was never freed */
        sums->n_frees--;
        count_freed(account, thread, -(uint64_t)1);
        thread->freed.site = NULL;
    } else if (!is_restored) {
        block.request = ++thread->n_requests;
    } else {
        account->n_start = account->n_events;
        sums->n_before++;
        sums->before_bytes += event->n_bytes;
    }
    HASH_GET(account->tables->pools, number, block.pool, pool);
    if (pool)
        HASH_GET(account->tables->live, block.address, block.address, live);
    if (!live) {
        account->error = ENOMEM;
        return;
    }
    live->block = block;
    DL_APPEND(pool->blocks, live);
    struct cushim_trace_site *site = block.site;
    bool is_sites = is_counted(account, block.device, block.kind);
    if (!is_restored) {
        sums->n_requests++;
        sums->n_hits += (event->flags & CUSHIM_TRACE_NO_CALL) != 0;
        sums->n_native += (event->flags & CUSHIM_TRACE_NATIVELY) != 0;
        sums->n_calls += (event->flags & CUSHIM_TRACE_NATIVELY) != 0;
        sums->requested_bytes += event->n_bytes;
        site->n_requests += is_sites;
        site->requested_bytes += is_sites * event->n_bytes;
    }
    if (!block.pool) /* the driver serves it, in no segment */
        hold(sums, block.n_bytes);
    site->kind = block.kind;
    sums->n_live++;
    sums->live_bytes += block.n_bytes;
    site->n_live += is_sites;
    site->live_bytes += is_sites * block.n_bytes;
    if (sums->live_bytes > sums->peak_live_bytes) {
        sums->peak_live_bytes = sums->live_bytes;
        sums->peak_ns = event->time_ns;
    }
    account->block = block;
    account->site = site;
}

/* Remove the block at the event's address; false: it is unknown. */
static bool remove_block(struct cushim_trace_account *account) {
    const struct cushim_trace_event *event = &account->event;
    struct live *live = find_live(account, event->address);
    struct thread *thread = thread_of(account);
    if (!live || !thread)
        return false;
    struct cushim_trace_block *block = &live->block;
    struct cushim_trace_sums *sums = &account->sums[block->device][block->kind];
    struct cushim_trace_site *site = block->site;
    sums->n_frees++;
    sums->n_live--;
    sums->live_bytes -= block->n_bytes;
    sums->held_bytes -= block->pool ? 0 : block->n_bytes;
    sums->n_calls += !block->pool;
    bool is_sites = is_counted(account, block->device, block->kind);
    site->n_live -= is_sites;
    site->live_bytes -= is_sites * block->n_bytes;
    thread->freed = account->block = *block;
    thread->freed_life_ns = event->time_ns - block->time_ns;
    thread->freed_temporary =
        block->thread == event->thread && block->request == thread->n_requests;
    count_freed(account, thread, 1);
    account->site = site;
    struct pool *pool = find_pool(account, block->pool);
    DL_DELETE(pool->blocks, live);
    HASH_DEL(account->tables->live, live);
    free(live);
    return true;
}

static void add_wait(struct cushim_trace_account *account) {
    struct thread *thread = thread_of(account);
    struct cushim_trace_sums *sums = sums_here(account);
    sums->n_waits += account->event.n_waits;
    sums->wait_ns += account->event.number;
    if (!thread || !thread->freed.site || account->event.flags & CUSHIM_TRACE_IN_REQUEST)
        return;
    account->site = thread->freed.site;
    if (is_counted(account, thread->freed.device, thread->freed.kind)) {
        account->site->n_waits += account->event.n_waits;
        account->site->wait_ns += account->event.number;
    }
}

static void add_refusal(struct cushim_trace_account *account) {
    sums_here(account)->n_refused++;
    account->site = site_of(account);
    account->site->n_refused += is_counted(account, account->event.device, account->event.kind);
}

/* ---- segments ---- */

static void leave_segment(struct cushim_trace_account *account, struct segment *segment) {
    struct cushim_trace_segment *row = &segment->segment;
    struct pool *pool = find_pool(account, row->pool);
    account->sums[row->device][row->kind].held_bytes -= row->n_bytes;
    DL_DELETE(pool->segments, segment);
    HASH_DEL(account->tables->segments, segment);
    free(segment);
}

static void move_segment(struct cushim_trace_account *account) {
    const struct cushim_trace_event *event = &account->event;
    struct segment *segment;
    struct pool *pool;
    sums_here(account)->n_moves++;
    HASH_FIND(hh, account->tables->segments, &event->address, sizeof event->address, segment);
    if (segment)
        leave_segment(account, segment);
    if (event->flags & CUSHIM_TRACE_GIVEN_BACK)
        return;
    HASH_GET(account->tables->pools, number, event->pool, pool);
    if (pool)
        HASH_GET(account->tables->segments, segment.base, event->address, segment);
    if (!pool || !segment) {
        account->error = ENOMEM;
        return;
    }
    segment->segment = (struct cushim_trace_segment){event->address, event->n_bytes, event->pool,
                                                     event->device, event->kind};
    DL_APPEND(pool->segments, segment);
    hold(sums_here(account), event->n_bytes);
}

static void lose_segments(struct cushim_trace_account *account) {
    const struct pool *pool = find_pool(account, account->event.number);
    while (pool && pool->segments)
        leave_segment(account, pool->segments);
}

/* ---- what an event implies ---- */

/* Report a free first that was not recorded, of a block at the address of a new one or of a pool
 * that went; false: there is none. */
static bool go_first(struct cushim_trace_account *account) {
    const struct cushim_trace_event event = account->event;
    const struct pool *pool =
        event.code == CUSHIM_TRACE_GONE && event.number ? find_pool(account, event.number) : NULL;
    const struct live *live = event.code == CUSHIM_TRACE_ALLOC ? find_live(account, event.address)
                              : pool && pool->blocks           ? pool->blocks->prev /* the last */
                                                               : NULL;
    if (!live)
        return false;
    account->n_disorder += event.code == CUSHIM_TRACE_ALLOC;
    account->tables->later = event;
    account->event = (struct cushim_trace_event){
        .code = CUSHIM_TRACE_FREE,
        .time_ns = event.time_ns,
        .address = live->block.address,
        .device = event.device,
        .kind = event.kind,
        .thread = event.thread,
    };
    account->is_guessed = true;
    remove_block(account);
    return true;
}

/* A request that is refused may be of any size, such as -1. */
static bool is_strange(const struct cushim_trace_event *event) {
    bool has_size = event->code != CUSHIM_TRACE_MODULE && event->code != CUSHIM_TRACE_REFUSE;
    return event->device >= CUSHIM_TRACE_DEVICES || event->kind >= CUSHIM_TRACE_KINDS ||
           (has_size && event->n_bytes > MOST_BYTES);
}

static void take_in(struct cushim_trace_account *account) {
    enum cushim_trace_code code = account->event.code;
    if (code == CUSHIM_TRACE_ALLOC)
        add_block(account);
    else if (code == CUSHIM_TRACE_FREE)
        account->n_foreign += !remove_block(account) && !account->error;
    else if (code == CUSHIM_TRACE_WAIT)
        add_wait(account);
    else if (code == CUSHIM_TRACE_REFUSE)
        add_refusal(account);
    else if (code == CUSHIM_TRACE_SEGMENT)
        move_segment(account);
    else if (code == CUSHIM_TRACE_STACK)
        add_stack(account);
    else if (code == CUSHIM_TRACE_MODULE)
        add_module(account);
    else if (code == CUSHIM_TRACE_GONE)
        lose_segments(account);
}

bool cushim_trace_account_next(struct cushim_trace_account *account) {
    struct cushim_trace_tables *tables = account->tables;
    account->block = (struct cushim_trace_block){0};
    account->site = NULL;
    account->is_guessed = false;
    if (account->error)
        return false;
    if (tables->has_later) {
        account->event = tables->later;
    } else {
        do {
            if (!cushim_trace_reader_next(&account->reader, &account->event, &account->writer))
                return false;
            account->n_strange += is_strange(&account->event);
        } while (is_strange(&account->event));
        if (account->until_ns && account->first_ns &&
            account->event.time_ns > account->first_ns + account->until_ns)
            return false;
        account->n_events++;
        if (!account->first_ns)
            account->first_ns = account->event.time_ns;
        account->last_ns = account->event.time_ns;
        if (account->foresee)
            account->foresee(account, account->foresee_context);
    }
    tables->has_later = go_first(account);
    if (!tables->has_later)
        take_in(account);
    return !account->error;
}

/* ---- what a reader asks for ---- */

struct cushim_trace_block *cushim_trace_account_live(const struct cushim_trace_account *account,
                                                     uint64_t address) {
    struct live *live = find_live(account, address);
    return live ? &live->block : NULL;
}

void cushim_trace_account_each(const struct cushim_trace_account *account,
                               void (*tell)(const struct cushim_trace_block *block, void *context),
                               void *context) {
    for (const struct live *live = account->tables->live; live; live = live->hh.next)
        tell(&live->block, context);
}

void cushim_trace_account_each_segment(const struct cushim_trace_account *account,
                                       cushim_trace_segment_fn *tell, void *context) {
    for (const struct segment *row = account->tables->segments; row; row = row->hh.next)
        tell(&row->segment, context);
}

uint64_t cushim_trace_account_end_ns(const struct cushim_trace_account *account) {
    const struct cushim_trace_head *head = &account->reader.head;
    uint64_t state = atomic_load(&head->state), end_ns = atomic_load(&head->end_ns);
    bool is_cut = state == CUSHIM_TRACE_FAILED || state == CUSHIM_TRACE_FULL;
    return is_cut || end_ns < account->last_ns ? account->last_ns : end_ns;
}

void cushim_trace_account_note(struct cushim_trace_account *account) {
    for (size_t i = 0; i < account->n_sites; i++) {
        account->sites[i]->n_noted = account->sites[i]->n_live;
        account->sites[i]->noted_bytes = account->sites[i]->live_bytes;
    }
}

void cushim_trace_account_sample(struct cushim_trace_account *account, unsigned i) {
    account->sample_ns[i] = account->last_ns;
    for (size_t site = 0; site < account->n_sites; site++)
        account->sites[site]->sample_bytes[i] = account->sites[site]->live_bytes;
}

void cushim_trace_account_date(struct cushim_trace_account *account) {
    for (size_t i = 0; i < account->n_sites; i++)
        account->sites[i]->oldest_ns = 0;
    for (const struct live *live = account->tables->live; live; live = live->hh.next) {
        const struct cushim_trace_block *block = &live->block;
        bool is_sites = is_counted(account, block->device, block->kind);
        if (is_sites && (!block->site->oldest_ns || block->time_ns < block->site->oldest_ns))
            block->site->oldest_ns = block->time_ns;
    }
}

const struct cushim_trace_module *
cushim_trace_account_module(const struct cushim_trace_account *account, uint64_t frame,
                            uint64_t *offset) {
    const struct cushim_trace_module *module =
        cushim_trace_mapped_find(&account->tables->mapped, frame);
    if (module)
        *offset = frame - module->start + module->offset;
    return module;
}

int cushim_trace_account_open(struct cushim_trace_account *account, const char *path) {
    memset(account, 0, sizeof *account);
    account->devices = account->kinds = UINT64_MAX;
    int error = cushim_trace_reader_open(&account->reader, path);
    if (error)
        return error;
    account->tables = calloc(1, sizeof *account->tables);
    if (account->tables)
        account->tables->nobody = calloc(1, sizeof *account->tables->nobody);
    if (!account->tables || !account->tables->nobody ||
        !list_site(account, account->tables->nobody)) {
        cushim_trace_account_close(account);
        return ENOMEM;
    }
    return 0;
}

void cushim_trace_account_close(struct cushim_trace_account *account) {
    struct cushim_trace_tables *tables = account->tables;
    if (tables) {
        HASH_FREE(tables->live);
        HASH_FREE(tables->segments);
        HASH_FREE(tables->stacks);
        HASH_FREE(tables->sites);
        HASH_FREE(tables->threads);
        HASH_FREE(tables->pools);
        cushim_trace_mapped_free(&tables->mapped);
        free(tables->nobody);
        free(tables);
    }
    free(account->sites);
    cushim_trace_reader_close(&account->reader);
    memset(account, 0, sizeof *account);
}
