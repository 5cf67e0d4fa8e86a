#include "tools/cushim/recording/torch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/writer.h"
#include "report/page.h"
#include "tools/cushim/recording/live.h"
#include "tools/cushim/numbers.h"
#include "tools/cushim/recording/recording.h"

enum { MOST_ENTRIES = 200000, BATCH = 1000 };

/* Opcodes of pickles. */
enum {
    PROTOCOL = 0x80,
    STOP = '.',
    MARK = '(',
    EMPTY_DICT = '}',
    EMPTY_LIST = ']',
    SET_ITEMS = 'u',
    APPENDS = 'e',
    UNICODE = 'X',
    INT = 'J',
    LONG = 0x8a,
    FALSE = 0x89,
    MEMO_PUT = 'r',
    MEMO_GET = 'j'
};

struct torch {
    struct cushim_writer *out;
    struct recording all;                /* read to its end, for names */
    struct cushim_trace_account account; /* read again */
    struct numbers frames, sites, words; /* what was written already, for the memo */
    uint64_t n_entries[CUSHIM_TRACE_DEVICES], n_memo;
    uint64_t n_left, n_batch; /* entries to skip, and entries of the list that is written */
    int error;
};

/* ---- values ---- */

static void put_byte(struct torch *torch, int byte) {
    char one = (char)byte;
    cushim_write_bytes(torch->out, &one, 1);
}

static void put_code(struct torch *torch, int code, uint64_t number, unsigned n_bytes) {
    char bytes[9] = {(char)code};
    for (unsigned i = 0; i < n_bytes; i++)
        bytes[1 + i] = (char)(number >> (8 * i));
    cushim_write_bytes(torch->out, bytes, 1 + n_bytes);
}

static void put_text(struct torch *torch, const char *text) {
    size_t n = strlen(text);
    put_code(torch, UNICODE, n, 4);
    cushim_write_bytes(torch->out, text, n);
}

static void put_int(struct torch *torch, uint64_t number) {
    if (number <= INT32_MAX) {
        put_code(torch, INT, number, 4);
        return;
    }
    put_byte(torch, LONG);
    put_code(torch, 9, number, 8); /* 9 bytes, because with 8 it would be negative */
    put_byte(torch, 0);
}

/* If `key` of a kind was written before, refer to it and return true.  If not, the caller writes
 * it, and `remember` puts it into the memo. */
static bool refer(struct torch *torch, struct numbers *kind, uint64_t key, uint64_t *number) {
    bool is_new;
    if (!numbers_of(kind, key, number, &is_new)) {
        torch->error = ENOMEM;
        return true;
    }
    if (is_new)
        return false;
    put_code(torch, MEMO_GET, *number * 3 + (kind == &torch->frames) + 2 * (kind == &torch->words),
             4);
    return true;
}

static void remember(struct torch *torch, const struct numbers *kind, uint64_t number) {
    put_code(torch, MEMO_PUT, number * 3 + (kind == &torch->frames) + 2 * (kind == &torch->words),
             4);
}

/* Write the name of a field, in full only once.  Names are constants. */
static void put_name(struct torch *torch, const char *name) {
    uint64_t number;
    if (refer(torch, &torch->words, (uint64_t)(uintptr_t)name, &number))
        return;
    put_text(torch, name);
    remember(torch, &torch->words, number);
}

static void put_field(struct torch *torch, const char *name, uint64_t number) {
    put_name(torch, name);
    put_int(torch, number);
}

static void begin(struct torch *torch, int empty) {
    put_byte(torch, empty);
    put_byte(torch, MARK);
}

/* ---- frames ---- */

/* Write a frame, with "FILE:88" split into file and line. */
static void put_frame(struct torch *torch, uint64_t frame) {
    const struct name *name = names_of(torch->all.names, frame);
    char file[NAME_BYTES];
    uint64_t number, line = 0;
    if (refer(torch, &torch->frames, frame, &number))
        return;
    strcpy(file, *name->line ? name->line : name->module);
    char *colon = *name->line ? strrchr(file, ':') : NULL;
    if (colon) {
        line = strtoull(colon + 1, NULL, 10);
        *colon = 0;
    }
    begin(torch, EMPTY_DICT);
    put_name(torch, "filename");
    put_text(torch, file);
    put_field(torch, "line", line);
    put_name(torch, "name");
    put_text(torch, name->function);
    put_byte(torch, SET_ITEMS);
    remember(torch, &torch->frames, number);
}

/* The same site in the first reading. Returns NULL if the process still writes, and came to it
 * since. */
static const struct cushim_trace_site *known(const struct torch *torch,
                                             const struct cushim_trace_site *site) {
    const struct cushim_trace_account *all = &torch->all.account;
    const struct cushim_trace_site *same =
        site && site->number < all->n_sites ? all->sites[site->number] : NULL;
    bool is_same = same && same->n_frames == site->n_frames &&
                   memcmp(same->frames, site->frames, site->n_frames * sizeof *site->frames) == 0;
    return is_same ? same : NULL;
}

static void put_frames(struct torch *torch, const struct cushim_trace_site *of) {
    const struct cushim_trace_site *site = known(torch, of);
    uint64_t number;
    put_name(torch, "frames");
    if (refer(torch, &torch->sites, site ? site->number : UINT64_MAX, &number))
        return;
    begin(torch, EMPTY_LIST);
    for (unsigned i = site ? names_first(torch->all.names, site) : 0; site && i < site->n_frames;
         i++)
        put_frame(torch, site->frames[i]);
    put_byte(torch, APPENDS);
    remember(torch, &torch->sites, number);
}

/* ---- the trace ---- */

static void put_entry(struct torch *torch, const char *action, uint64_t address, uint64_t n_bytes,
                      const struct cushim_trace_site *site) {
    const struct cushim_trace_head *head = &torch->account.reader.head;
    if (torch->n_left) {
        torch->n_left--;
        return;
    }
    if (torch->n_batch++ % BATCH == BATCH - 1) {
        put_byte(torch, APPENDS);
        put_byte(torch, MARK);
    }
    begin(torch, EMPTY_DICT);
    put_name(torch, "action");
    put_name(torch, action);
    put_field(torch, strcmp(action, "oom") == 0 ? "device_free" : "addr", address);
    put_field(torch, "size", n_bytes);
    put_field(torch, "stream", 0);
    put_field(torch, "time_us",
              (head->start_wall_ns + torch->account.event.time_ns - head->start_ns) / 1000);
    put_frames(torch, site);
    put_byte(torch, SET_ITEMS);
}

/* Write the entries for an event. */
static void see(struct torch *torch, const struct cushim_trace_account *account, unsigned device,
                void (*put)(struct torch *torch, const char *action, uint64_t address,
                            uint64_t n_bytes, const struct cushim_trace_site *site)) {
    const struct cushim_trace_event *event = &account->event;
    const struct cushim_trace_block *block = &account->block;
    const bool is_block =
        event->code == CUSHIM_TRACE_ALLOC || (event->code == CUSHIM_TRACE_FREE && account->site);
    if ((is_block ? block->device : event->device) != device ||
        (is_block ? block->kind : event->kind) == CUSHIM_KIND_PINNED)
        return;
    if (event->code == CUSHIM_TRACE_ALLOC) {
        if (!block->pool)
            put(torch, "segment_alloc", block->address, block->n_bytes, account->site);
        put(torch, "alloc", block->address, block->n_bytes, account->site);
    } else if (is_block) {
        put(torch, "free_requested", block->address, block->n_bytes, account->site);
        put(torch, "free_completed", block->address, block->n_bytes, account->site);
        if (!block->pool)
            put(torch, "segment_free", block->address, block->n_bytes, account->site);
    } else if (event->code == CUSHIM_TRACE_SEGMENT) {
        put(torch, event->flags & CUSHIM_TRACE_GIVEN_BACK ? "segment_free" : "segment_alloc",
            event->address, event->n_bytes, NULL);
    } else if (event->code == CUSHIM_TRACE_REFUSE) {
        put(torch, "oom", 0, event->n_bytes, account->site);
    }
}

static unsigned counted_device;

static void count(struct torch *torch, const char *action, uint64_t address, uint64_t n_bytes,
                  const struct cushim_trace_site *site) {
    (void)action;
    (void)address;
    (void)n_bytes;
    (void)site;
    torch->n_entries[counted_device]++;
}

/* Count the entries of each device, and find the names of all frames. */
static int read_all(struct torch *torch, const char *path) {
    struct cushim_trace_account *account = &torch->all.account;
    int error = cushim_trace_account_open(account, path);
    if (error)
        return error;
    while (cushim_trace_account_next(account)) {
        const struct cushim_trace_event *event = &account->event;
        counted_device = account->site ? account->block.device : event->device;
        if (event->code == CUSHIM_TRACE_REFUSE)
            counted_device = event->device;
        see(torch, account, counted_device, count);
    }
    return account->error ? account->error : names_find(&torch->all.names, account);
}

static void put_trace(struct torch *torch, const char *path, unsigned device) {
    begin(torch, EMPTY_LIST);
    torch->n_batch = 0;
    torch->n_left =
        torch->n_entries[device] > MOST_ENTRIES ? torch->n_entries[device] - MOST_ENTRIES : 0;
    if (torch->n_entries[device]) {
        torch->error = cushim_trace_account_open(&torch->account, path);
        while (!torch->error && cushim_trace_account_next(&torch->account)) {
            see(torch, &torch->account, device, put_entry);
            if (torch->out->error)
                break;
        }
        if (!torch->error)
            torch->error = torch->account.error;
        cushim_trace_account_close(&torch->account);
    }
    put_byte(torch, APPENDS);
}

/* ---- segments ---- */

static void put_block(struct torch *torch, uint64_t address, uint64_t n_bytes,
                      const struct cushim_trace_site *site) {
    begin(torch, EMPTY_DICT);
    put_field(torch, "address", address);
    put_field(torch, "size", n_bytes);
    put_field(torch, "requested_size", site ? n_bytes : 0);
    put_name(torch, "state");
    put_name(torch, site ? "active_allocated" : "inactive");
    put_frames(torch, site);
    put_byte(torch, SET_ITEMS);
}

/* Write a segment, with its blocks and the free parts between them. */
static void put_segment(struct torch *torch, const struct cushim_trace_segment *segment,
                        const struct cushim_trace_block *blocks, size_t n_blocks) {
    uint64_t live_bytes = 0, covered = segment->base;
    const uint64_t end = segment->base + segment->n_bytes;
    begin(torch, EMPTY_DICT);
    put_name(torch, "blocks");
    begin(torch, EMPTY_LIST);
    for (size_t i = 0; i < n_blocks; i++) {
        const struct cushim_trace_block *block = &blocks[i];
        if (block->address < covered || block->n_bytes > end - block->address)
            continue; /* only a made-up recording has blocks in blocks */
        if (block->address > covered)
            put_block(torch, covered, block->address - covered, NULL);
        put_block(torch, block->address, block->n_bytes, block->site);
        covered = block->address + block->n_bytes;
        live_bytes += block->n_bytes;
    }
    if (covered < end)
        put_block(torch, covered, end - covered, NULL);
    put_byte(torch, APPENDS);
    put_field(torch, "device", segment->device);
    put_field(torch, "address", segment->base);
    put_field(torch, "total_size", segment->n_bytes);
    put_field(torch, "allocated_size", live_bytes);
    put_field(torch, "active_size", live_bytes);
    put_field(torch, "requested_size", live_bytes);
    put_field(torch, "stream", 0);
    put_name(torch, "segment_type");
    put_name(torch, segment->n_bytes > 2 << 20 ? "large" : "small");
    put_name(torch, "is_expandable");
    put_byte(torch, FALSE);
    put_frames(torch, NULL);
    put_byte(torch, SET_ITEMS);
}

/* A block that the driver served is a segment of its own. */
static void put_native(struct torch *torch, const struct cushim_trace_block *block) {
    const struct cushim_trace_segment segment = {block->address, block->n_bytes, 0, block->device,
                                                 block->kind};
    if (!block->pool)
        put_segment(torch, &segment, block, 1);
}

static void put_segments(struct torch *torch) {
    static const struct recording_scope scope = {.devices = UINT64_MAX,
                                                 .kinds = ~((uint64_t)1 << CUSHIM_KIND_PINNED)};
    struct live live;
    size_t next = 0;
    torch->error = live_list(&live, &torch->all.account, &scope, true);
    for (size_t i = 0; i < live.n_segments && !torch->error; i++) {
        const struct cushim_trace_segment *segment = &live.segments[i];
        /* blocks before it are in no segment: the driver serves them itself */
        for (; next < live.n_blocks && live.blocks[next].address < segment->base; next++)
            put_native(torch, &live.blocks[next]);
        size_t first = next;
        while (next < live.n_blocks && live.blocks[next].address - segment->base < segment->n_bytes)
            next++;
        put_segment(torch, segment, live.blocks + first, next - first);
    }
    for (; next < live.n_blocks && !torch->error; next++)
        put_native(torch, &live.blocks[next]);
    live_free(&live);
}

static void put_all(struct torch *torch, const char *path) {
    unsigned n_devices = 1;
    for (unsigned i = 0; i < CUSHIM_TRACE_DEVICES; i++)
        n_devices = torch->n_entries[i] ? i + 1 : n_devices;
    put_code(torch, PROTOCOL, 2, 1);
    begin(torch, EMPTY_DICT);
    put_name(torch, "device_traces");
    begin(torch, EMPTY_LIST);
    for (unsigned i = 0; i < n_devices && !torch->error; i++)
        put_trace(torch, path, i);
    put_byte(torch, APPENDS);
    put_name(torch, "segments");
    begin(torch, EMPTY_LIST);
    put_segments(torch);
    put_byte(torch, APPENDS);
    put_byte(torch, SET_ITEMS);
    put_byte(torch, STOP);
}

int torch_put(struct cushim_writer *out, const char *path) {
    struct torch *torch = calloc(1, sizeof *torch);
    if (!torch)
        return ENOMEM;
    torch->out = out;
    int error = read_all(torch, path);
    if (!error) {
        put_all(torch, path);
        error = torch->error;
    }
    numbers_free(&torch->frames);
    numbers_free(&torch->sites);
    numbers_free(&torch->words);
    recording_close(&torch->all);
    free(torch);
    return error;
}
