#include "report/shortage.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/bits.h"
#include "base/utf8.h"
#include "report/frame.h"
#include "report/page_ring.h"
#include "report/words.h"

enum { N_BLOCKS = 6, N_FRAMES = 8, N_OTHERS = 3 };

uint64_t cushim_shortage_get(const struct cushim_page *page, unsigned i,
                             struct cushim_page_shortage *shortage) {
    struct cushim_page *readable = (struct cushim_page *)page; /* rings are also written */
    uint64_t n = cushim_mem_stats_read(&page->n_shortages);
    if (!cushim_page_ring_get(CUSHIM_PAGE_RING(readable->shortages), n, i, shortage))
        return 0;
    if (shortage->n_frames > N_FRAMES)
        shortage->n_frames = N_FRAMES;
    cushim_frame_clean(shortage->frames, N_FRAMES);
    for (int k = 0; k < N_OTHERS; k++)
        cushim_utf8_end(shortage->others[k].program, sizeof shortage->others[k].program);
    return cushim_less(n, CUSHIM_PAGE_SHORTAGES) + i + 1;
}

/* ---- for people ---- */

static const char *kind_of(const struct cushim_page_shortage *shortage) {
    bool is_known = shortage->kind < CUSHIM_N_KINDS;
    return is_known ? cushim_report_kind((enum cushim_kind)shortage->kind) : "some";
}

static bool is_of_host(const struct cushim_page_shortage *shortage) {
    return shortage->kind == CUSHIM_KIND_PINNED;
}

void cushim_shortage_line(struct cushim_writer *out, uint64_t number,
                          const struct cushim_page_shortage *shortage) {
    const char *amount =
        shortage->asked_bytes ? CUSHIM_BYTES(shortage->asked_bytes) : "an unknown amount";
    cushim_write(out, "out of memory #%" PRIu64 ": %s of %s memory for device %" PRIu64 "\n",
                 number, amount, kind_of(shortage), shortage->device);
}

static uint64_t sum(uint64_t a, uint64_t b) {
    return a + b < a ? UINT64_MAX : a + b;
}

/* What the driver alone serves. */
static uint64_t forwarded_bytes(const struct cushim_page_shortage *shortage) {
    return sum(sum(shortage->async_bytes, shortage->mapped_bytes),
               sum(shortage->array_bytes, shortage->graph_bytes));
}

/* What this process asked for on the device, and did not free. */
static uint64_t own_bytes(const struct cushim_page_shortage *shortage) {
    uint64_t plain_bytes = shortage->kind == CUSHIM_KIND_MANAGED ? shortage->plain_bytes : 0;
    return sum(sum(shortage->live_bytes, plain_bytes),
               cushim_less(forwarded_bytes(shortage), shortage->pools_bytes));
}

/* What is in use of the device, and this process did not ask for: contexts and modules, managed
 * memory that lies there, and other processes. */
static uint64_t rest_bytes(const struct cushim_page_shortage *shortage) {
    uint64_t known_bytes =
        sum(sum(shortage->free_bytes, shortage->plain_bytes), forwarded_bytes(shortage));
    return cushim_less(shortage->total_bytes, known_bytes);
}

/* How the limit is raised: for the next run by the option, and at once by a command if one reaches
 * the process. */
static void put_raise(struct cushim_writer *out, const struct cushim_page_head *head,
                      bool is_live) {
    const char *group = cushim_report_option(head, "limit-group");
    char name[CUSHIM_PAGE_OPTIONS_BYTES];
    if (group)
        snprintf(name, sizeof name, "%s", group);
    else
        snprintf(name, sizeof name, "%" PRIu64, head->process);
    cushim_utf8_clean(name);
    if (is_live)
        cushim_write(out,
                     "or raise --limit, while it runs by\n"
                     "             `cushim limit %s SIZE`\n",
                     name);
    else
        cushim_write(out, "or raise --limit\n");
}

static void put_limit(struct cushim_writer *out, const struct cushim_page_shortage *shortage,
                      const struct cushim_page_head *head, bool is_live) {
    const char *limit = CUSHIM_BYTES(shortage->limit_bytes);
    if (shortage->asked_bytes > shortage->limit_bytes)
        cushim_write(out,
                     "--limit allows %s in all: ask for less at a time,\n"
                     "             ",
                     limit);
    else if (shortage->group_bytes)
        cushim_write(out,
                     "--limit allows its group %s, of which others have %s:\n"
                     "             free some first, ",
                     limit, CUSHIM_BYTES(shortage->group_bytes));
    else
        cushim_write(out, "--limit allows %s, and %s are live: free some first%s", limit,
                     CUSHIM_BYTES(own_bytes(shortage)),
                     shortage->blocks[0].n ? "\n             (`biggest` says what it is), "
                                           : ",\n             ");
    put_raise(out, head, is_live);
}

/* If the driver had room, or did not; what it said then. */
static void put_driver(struct cushim_writer *out, const struct cushim_page_shortage *shortage,
                       const struct cushim_page_head *head, bool is_live) {
    uint64_t asked_bytes = shortage->asked_bytes ? shortage->asked_bytes : UINT64_MAX;
    if (!shortage->total_bytes)
        cushim_write(out, "the driver did not say what takes the rest of the device%s\n",
                     shortage->others[0].n_bytes ? "; `others` has some" : "");
    else if (shortage->free_bytes >= asked_bytes && shortage->limit_bytes)
        put_limit(out, shortage, head, is_live);
    else if (shortage->free_bytes >= asked_bytes)
        cushim_write(out, "%s are free by the driver's word, and it refused all the same\n",
                     CUSHIM_BYTES(shortage->free_bytes));
    else if (shortage->pools_bytes >= asked_bytes)
        cushim_write(out,
                     "%s are in the driver's pools and not live: cudaMemPoolTrimTo\n"
                     "             gives them back, or a lower release threshold\n",
                     CUSHIM_BYTES(shortage->pools_bytes));
    else if (own_bytes(shortage) > rest_bytes(shortage))
        cushim_write(out,
                     "%s are live, and %s of the device are contexts, modules\n"
                     "             and others, so it cannot fit: free some of it first\n",
                     CUSHIM_BYTES(own_bytes(shortage)), CUSHIM_BYTES(rest_bytes(shortage)));
    else
        cushim_write(out,
                     "%s of the device are contexts and modules, managed memory, and\n"
                     "             other processes (%s)\n",
                     CUSHIM_BYTES(rest_bytes(shortage)),
                     shortage->others[0].n_bytes ? "`others` has the largest"
                                                 : "nvidia-smi shows them");
}

/* Why the request was not served, in a sentence of its numbers. */
static void put_advice(struct cushim_writer *out, const struct cushim_page_shortage *shortage,
                       const struct cushim_page_head *head, bool is_live) {
    uint64_t live_bytes = own_bytes(shortage);
    uint64_t wanted_bytes = sum(live_bytes, shortage->asked_bytes);
    uint64_t free_bytes = sum(shortage->spare_bytes, shortage->idle_bytes);
    bool fits_device = !shortage->total_bytes || shortage->asked_bytes <= shortage->total_bytes;
    cushim_write(out, "  advice     ");
    if (is_of_host(shortage))
        cushim_write(out, "the host had no memory to pin: free some, or pin less at a time\n");
    else if (shortage->limit_bytes && fits_device &&
             sum(sum(wanted_bytes, shortage->rounding_bytes), shortage->group_bytes) >
                 shortage->limit_bytes)
        put_limit(out, shortage, head, is_live);
    else if (!shortage->device_bytes)
        put_driver(out, shortage, head, is_live);
    else if (shortage->asked_bytes > shortage->device_bytes)
        cushim_write(out, "the device has less than that in all: ask for less at a time\n");
    else if (wanted_bytes > shortage->device_bytes)
        cushim_write(out,
                     shortage->blocks[0].n
                         ? "%s are live, so it cannot fit: free some of it first;\n"
                           "             `biggest` says what it is\n"
                         : "%s are live, so it cannot fit: free some of it first\n",
                     CUSHIM_BYTES(live_bytes));
    else if (sum(wanted_bytes, shortage->rounding_bytes) > shortage->device_bytes)
        cushim_write(out,
                     "%s are live and %s round them up: free some\n"
                     "             of it first%s\n",
                     CUSHIM_BYTES(live_bytes), CUSHIM_BYTES(shortage->rounding_bytes),
                     shortage->blocks[0].n ? "; `biggest` says what it is" : "");
    else if (shortage->is_busy && shortage->pending_bytes)
        cushim_write(out,
                     "%s were freed while the GPU worked on them, and it still does:\n"
                     "             synchronise before this request\n",
                     CUSHIM_BYTES(shortage->pending_bytes));
    else if (!shortage->is_native && free_bytes >= shortage->asked_bytes &&
             shortage->retired_bytes > free_bytes / 2)
        cushim_write(out,
                     "%s were freed, but other processes have their IPC handles and may\n"
                     "             read them, until what lives beside them is freed, too: share\n"
                     "             blocks above 1 MiB, which go back alone\n",
                     CUSHIM_BYTES(shortage->retired_bytes));
    else if (!shortage->is_native && free_bytes >= shortage->asked_bytes)
        cushim_write(out,
                     "%s are free in pieces of at most %s, live blocks between\n"
                     "             them: allocate what stays before what goes\n",
                     CUSHIM_BYTES(free_bytes), CUSHIM_BYTES(shortage->largest_free_bytes));
    else
        put_driver(out, shortage, head, is_live);
}

static void put_blocks(struct cushim_writer *out, const struct cushim_page_shortage *shortage) {
    const char *comma = "";
    for (int i = 0; i < N_BLOCKS && shortage->blocks[i].n; i++) {
        cushim_write(out, "%s%s x %s", i ? comma : "  biggest    ",
                     CUSHIM_COUNT(shortage->blocks[i].n),
                     CUSHIM_BYTES(shortage->blocks[i].n_bytes));
        comma = i == 2 ? ",\n             " : ", ";
    }
    if (shortage->blocks[0].n)
        cushim_write(out, " (live blocks)\n");
}

/* "80.0 GiB = cudaMalloc 60.0 GiB + mapped 9.00 GiB + other 10.0 GiB + free 1.00 GiB". */
static void put_split(struct cushim_writer *out, const struct cushim_page_shortage *shortage) {
    uint64_t rest = rest_bytes(shortage);
    uint64_t context_bytes = shortage->context_bytes < rest ? shortage->context_bytes : rest;
    const struct {
        const char *word;
        uint64_t n_bytes;
        bool is_always;
    } parts[] = {{"cudaMalloc", shortage->plain_bytes, true},
                 {"async", cushim_less(shortage->async_bytes, shortage->pools_bytes), false},
                 {"pools keep", shortage->pools_bytes, false},
                 {"mapped", shortage->mapped_bytes, false},
                 {"array", shortage->array_bytes, false},
                 {"graph", shortage->graph_bytes, false},
                 {"context", context_bytes, false},
                 {"other", rest - context_bytes, true},
                 {"free", shortage->free_bytes, true}};
    unsigned n = 0;
    cushim_write(out, "  device     %s =", CUSHIM_BYTES(shortage->total_bytes));
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (!parts[i].n_bytes && !parts[i].is_always)
            continue;
        cushim_write(out, "%s%s%s %s", n && n % 3 == 0 ? "\n             " : " ", n ? "+ " : "",
                     parts[i].word, CUSHIM_BYTES(parts[i].n_bytes));
        n++;
    }
    cushim_write(out, "\n");
}

static void put_others(struct cushim_writer *out, const struct cushim_page_shortage *shortage) {
    for (int i = 0; i < N_OTHERS && shortage->others[i].n_bytes; i++)
        cushim_write(out, "%s%s held by %s, process %" PRIu64 "\n",
                     i ? "             " : "  others     ",
                     CUSHIM_BYTES(shortage->others[i].n_bytes), shortage->others[i].program,
                     shortage->others[i].process);
}

/* What a heap did before it gave up. */
static void put_tried(struct cushim_writer *out, const struct cushim_page_shortage *shortage) {
    cushim_write(out, "  not live   in use by the GPU %s, in caches %s, largest %s\n",
                 CUSHIM_BYTES(shortage->pending_bytes), CUSHIM_BYTES(shortage->cached_bytes),
                 CUSHIM_BYTES(shortage->largest_free_bytes));
    if (shortage->retired_bytes)
        cushim_write(out,
                     "  shared     %s were freed and serve nobody: other processes may read them\n",
                     CUSHIM_BYTES(shortage->retired_bytes));
    cushim_write(out,
                 "  tried      %s; caches gave %s,\n             segments %s, other pools %s\n",
                 shortage->is_busy ? "the GPU stayed busy" : "waited for the GPU",
                 CUSHIM_BYTES(shortage->drained_bytes), CUSHIM_BYTES(shortage->returned_bytes),
                 CUSHIM_BYTES(shortage->others_bytes));
}

void cushim_shortage_text(struct cushim_writer *out, uint64_t number,
                          const struct cushim_page_shortage *shortage,
                          const struct cushim_page_head *head, bool is_live,
                          cushim_report_find_line_fn *find_line) {
    const char *spill = cushim_report_option(head, "spill");
    cushim_shortage_line(out, number, shortage);
    if (shortage->total_bytes)
        put_split(out, shortage);
    else if (!is_of_host(shortage) && shortage->device_bytes)
        cushim_write(out, "  device     %s\n", CUSHIM_BYTES(shortage->device_bytes));
    put_others(out, shortage);
    cushim_write(
        out, "  held       %s = %s %s + %s %s\n             + %s %s + %s %s\n",
        CUSHIM_BYTES(shortage->held_bytes), CUSHIM_WORD(live), CUSHIM_BYTES(shortage->live_bytes),
        CUSHIM_WORD(rounding), CUSHIM_BYTES(shortage->rounding_bytes), CUSHIM_WORD(spare),
        CUSHIM_BYTES(shortage->spare_bytes), CUSHIM_WORD(idle), CUSHIM_BYTES(shortage->idle_bytes));
    if (!shortage->is_native)
        put_tried(out, shortage);
    if (spill && !is_of_host(shortage))
        cushim_write(out, "  spilled    %s of --spill=%s lie in host memory\n",
                     CUSHIM_BYTES(shortage->spilled_bytes), spill);
    put_blocks(out, shortage);
    cushim_frame_text(out, "asked at", shortage->frames, shortage->n_frames, find_line);
    if (shortage->served_bytes)
        cushim_write(out, "  a probe    %s were served right after: the program got over it\n",
                     CUSHIM_BYTES(shortage->served_bytes));
    else
        put_advice(out, shortage, head, is_live);
}

/* ---- for programs ---- */

#define NUMBERS(X)                                                                                 \
    X(device)                                                                                      \
    X(asked_bytes)                                                                                 \
    X(device_bytes)                                                                                \
    X(limit_bytes)                                                                                 \
    X(group_bytes)                                                                                 \
    X(live_bytes)                                                                                  \
    X(rounding_bytes)                                                                              \
    X(spare_bytes)                                                                                 \
    X(idle_bytes)                                                                                  \
    X(held_bytes)                                                                                  \
    X(pending_bytes)                                                                               \
    X(cached_bytes)                                                                                \
    X(retired_bytes)                                                                               \
    X(largest_free_bytes)                                                                          \
    X(drained_bytes)                                                                               \
    X(returned_bytes)                                                                              \
    X(others_bytes)                                                                                \
    X(total_bytes)                                                                                 \
    X(free_bytes)                                                                                  \
    X(plain_bytes)                                                                                 \
    X(async_bytes)                                                                                 \
    X(mapped_bytes)                                                                                \
    X(array_bytes)                                                                                 \
    X(graph_bytes)                                                                                 \
    X(context_bytes)                                                                               \
    X(spilled_bytes)                                                                               \
    X(pools_bytes)                                                                                 \
    X(served_bytes)

static void put_json(struct cushim_writer *out, uint64_t number,
                     const struct cushim_page_shortage *shortage,
                     const struct cushim_report *report) {
    cushim_write(out, "\n    {\"number\": %" PRIu64 ", \"ns\": %" PRIu64 ", \"kind\": \"%s\", ",
                 number, cushim_report_since(report, shortage->ns), kind_of(shortage));
#define PUT(field) cushim_write(out, "\"" #field "\": %" PRIu64 ", ", shortage->field);
    NUMBERS(PUT)
#undef PUT
    cushim_write(out, "\"is_native\": %s, \"is_busy\": %s, \"live_blocks\": [",
                 shortage->is_native ? "true" : "false", shortage->is_busy ? "true" : "false");
    for (int i = 0; i < N_BLOCKS && shortage->blocks[i].n; i++)
        cushim_write(out, "%s{\"count\": %" PRIu64 ", \"bytes\": %" PRIu64 "}", i ? ", " : "",
                     shortage->blocks[i].n, shortage->blocks[i].n_bytes);
    cushim_write(out, "], \"others\": [");
    for (int i = 0; i < N_OTHERS && shortage->others[i].n_bytes; i++) {
        cushim_write(out, "%s{\"pid\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"program\": ",
                     i ? ", " : "", shortage->others[i].process, shortage->others[i].n_bytes);
        cushim_report_put_string(out, shortage->others[i].program);
        cushim_write(out, "}");
    }
    cushim_write(out, "], \"asked_at\": ");
    cushim_frame_json(out, shortage->frames, shortage->n_frames, report->find_line);
    cushim_write(out, "}");
}

void cushim_shortage_json(struct cushim_writer *out, const struct cushim_report *report) {
    struct cushim_page_shortage shortage;
    cushim_write(out, "  \"out_of_memory\": [");
    for (unsigned i = 0; i < CUSHIM_PAGE_SHORTAGES; i++) {
        uint64_t number = cushim_shortage_get(&report->page, i, &shortage);
        if (!number)
            continue;
        cushim_write(out, "%s", cushim_write_comma(out));
        put_json(out, number, &shortage, report);
    }
    cushim_write(out, "],\n");
}
