#include "preload/report/report.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "preload/entry/check_mode.h"

/* Texts of one line; each lives until the line is written. */
struct texts {
    char text[12][CUSHIM_AMOUNT_BYTES];
};

/* "1 request", "2,000 requests": what is counted, with its number. */
static const char *some(char text[CUSHIM_AMOUNT_BYTES * 2], uint64_t n, const char *one,
                        const char *many) {
    char count[CUSHIM_AMOUNT_BYTES];
    snprintf(text, CUSHIM_AMOUNT_BYTES * 2, "%s %s", cushim_text_count(count, n),
             n == 1 ? one : many);
    return text;
}

static void put_kind(struct cushim_writer *out, int device, enum cushim_kind kind) {
    const struct cushim_mem_stats *stats = cushim_report_stats(device, kind);
    struct texts t;
    cushim_write(out, "  %-8s %11s %11s %9s %11s %9s %10s %9s %10s\n", cushim_report_kind(kind),
                 cushim_text_count(t.text[0], cushim_mem_stats_read(&stats->n_requests)),
                 cushim_text_count(t.text[1], cushim_mem_stats_read(&stats->n_hits)),
                 cushim_text_count(t.text[2], cushim_mem_stats_read(&stats->n_misses) +
                                                  cushim_mem_stats_read(&stats->n_natively)),
                 cushim_text_count(t.text[3], cushim_mem_stats_read(&stats->n_frees)),
                 cushim_text_bytes(t.text[4], cushim_mem_stats_read(&stats->live_bytes)),
                 cushim_text_bytes(t.text[5], cushim_mem_stats_read(&stats->peak_live_bytes)),
                 cushim_text_bytes(t.text[6], cushim_mem_stats_read(&stats->held_bytes)),
                 cushim_text_bytes(t.text[7], cushim_mem_stats_read(&stats->peak_held_bytes)));
}

/* One row of what frees and requests cost beneath: how often, and how long in all. */
static void put_cost(struct cushim_writer *out, const char *what, uint64_t n, uint64_t ns) {
    struct texts t;
    cushim_write(out, "  %-24s %9s %s, %s\n", what, cushim_text_count(t.text[0], n),
                 n == 1 ? "time" : "times", cushim_text_time(t.text[1], ns));
}

/* The driver calls made for device memory, and the waits that frees owe the program. */
static void put_driver(struct cushim_writer *out, int device) {
    const struct cushim_mem_stats *stats = cushim_report_stats(device, CUSHIM_KIND_DEVICE);
    struct texts t;
    put_cost(out, "driver allocated", cushim_mem_stats_read(&stats->n_native_allocs),
             cushim_mem_stats_read(&stats->native_alloc_ns));
    put_cost(out, "driver freed", cushim_mem_stats_read(&stats->n_native_frees),
             cushim_mem_stats_read(&stats->native_free_ns));
    put_cost(out, "free waited for the GPU", cushim_mem_stats_read(&stats->n_waits),
             cushim_mem_stats_read(&stats->wait_ns));
    if (cushim_process.policy.is_relaxed)
        put_cost(out, "  for what the host sees", cushim_mem_stats_read(&stats->n_effect_waits),
                 cushim_mem_stats_read(&stats->effect_wait_ns));
    cushim_write(out, "  %-24s %9s, %s of live blocks is rounding\n", "segments",
                 cushim_text_count(t.text[0], cushim_mem_stats_read(&stats->n_segments)),
                 cushim_text_bytes(t.text[1], cushim_report_rounding_bytes(stats)));
}

static void put_arena(struct cushim_writer *out, int device) {
    const struct cushim_mem_stats *stats = cushim_report_stats(device, CUSHIM_KIND_DEVICE);
    uint64_t n = cushim_mem_stats_read(&stats->n_arena);
    uint64_t n_rewinds = cushim_mem_stats_read(&stats->n_arena_rewinds);
    uint64_t n_kept = cushim_mem_stats_read(&stats->n_arena_kept);
    char rewinds[CUSHIM_AMOUNT_BYTES * 2], kept[CUSHIM_AMOUNT_BYTES * 2];
    struct texts t;
    if (n)
        cushim_write(out, "  %-24s %9s %s, %s, %s kept at a reset\n", "arena",
                     cushim_text_count(t.text[0], n), n == 1 ? "request" : "requests",
                     some(rewinds, n_rewinds, "rewind", "rewinds"),
                     some(kept, n_kept, "chunk", "chunks"));
}

static void put_memory_out(struct cushim_writer *out, int device) {
    const struct cushim_mem_stats *stats = cushim_report_stats(device, CUSHIM_KIND_DEVICE);
    uint64_t n = cushim_mem_stats_read(&stats->n_out_of_memory);
    uint64_t n_steps = cushim_mem_stats_read(&stats->n_reclaim_steps);
    char steps[CUSHIM_AMOUNT_BYTES * 2];
    struct texts t;
    if (n || n_steps)
        cushim_write(out, "  %-24s %9s %s, after %s of which %s waited\n", "out of memory",
                     cushim_text_count(t.text[0], n), n == 1 ? "time" : "times",
                     some(steps, n_steps, "step", "steps"),
                     cushim_text_count(t.text[1], cushim_mem_stats_read(&stats->n_reclaim_waits)));
}

/* What cuMemCreate made: the driver serves it as it was asked. */
static void put_virtual(struct cushim_writer *out, int device) {
    struct cushim_report_virtual created = cushim_report_virtual(device);
    struct texts t;
    if (created.n_requests)
        cushim_write(out, "  %-24s %9s %s, %s by cuMemCreate, forwarded\n", "virtual memory",
                     cushim_text_count(t.text[0], created.n_requests),
                     created.n_requests == 1 ? "request" : "requests",
                     cushim_text_bytes(t.text[1], created.requested_bytes));
}

static bool has_kinds(int device) {
    for (int kind = 0; kind < CUSHIM_N_KINDS; kind++) {
        if (cushim_report_has(device, (enum cushim_kind)kind))
            return true;
    }
    return false;
}

static void put_device(struct cushim_writer *out, int device) {
    const char *name = cushim_process.device_names[device];
    cushim_write(out, "\ndevice %d%s%s\n", device, *name ? "  " : "", name);
    /* two blanks before each head: what stands behind one is of the same column */
    if (has_kinds(device))
        cushim_write(out, "  %-8s %11s %11s %9s %11s %9s %10s %9s %10s\n", "memory", "requests",
                     "no call", "driver", "frees", "live", "peak live", "held", "peak held");
    for (int kind = 0; kind < CUSHIM_N_KINDS; kind++) {
        if (cushim_report_has(device, (enum cushim_kind)kind))
            put_kind(out, device, (enum cushim_kind)kind);
    }
    if (cushim_report_has(device, CUSHIM_KIND_DEVICE))
        put_driver(out, device);
    put_virtual(out, device);
    put_memory_out(out, device);
    put_arena(out, device);
}

static uint64_t copies_of(int direction) {
    uint64_t n = 0;
    for (int memory = 0; memory < CUSHIM_N_HOST_MEMORIES; memory++)
        n += cushim_mem_stats_read(&cushim_copy_counts.n_copies[direction][memory]);
    return n;
}

static void put_copies(struct cushim_writer *out) {
    static const char *const names[CUSHIM_N_DIRECTIONS] = {"host to device",   "device to host",
                                                           "device to device", "host to host",
                                                           "by address",       "set"};
    bool has_header = false;
    for (int direction = 0; direction < CUSHIM_N_DIRECTIONS; direction++) {
        struct texts t;
        if (!copies_of(direction))
            continue;
        if (!has_header)
            cushim_write(out, "\n%-18s %11s %9s %11s %9s %11s %9s\n", "copies", "pageable", "bytes",
                         "pinned", "bytes", "other", "bytes");
        has_header = true;
        cushim_write(out, "  %-16s", names[direction]);
        static const enum cushim_host_memory order[] = {CUSHIM_HOST_PAGEABLE, CUSHIM_HOST_PINNED,
                                                        CUSHIM_HOST_NONE};
        for (int i = 0; i < CUSHIM_N_HOST_MEMORIES; i++) {
            uint64_t n = cushim_mem_stats_read(&cushim_copy_counts.n_copies[direction][order[i]]);
            uint64_t n_bytes =
                cushim_mem_stats_read(&cushim_copy_counts.n_bytes[direction][order[i]]);
            cushim_write(out, " %11s %9s", n ? cushim_text_count(t.text[2 * i], n) : "-",
                         n ? cushim_text_bytes(t.text[2 * i + 1], n_bytes) : "-");
        }
        cushim_write(out, "\n");
    }
}

static void put_finding(struct cushim_writer *out, uint64_t n, const char *one, const char *many) {
    char text[CUSHIM_AMOUNT_BYTES];
    if (n)
        cushim_write(out, "finding: %s %s\n", cushim_text_count(text, n), n == 1 ? one : many);
}

static void put_findings(struct cushim_writer *out) {
    cushim_write(out, "\n");
#define PUT(name, field, one, many) put_finding(out, cushim_report_sum_##name(), one, many);
    CUSHIM_REPORT_FINDINGS(PUT)
#undef PUT
    put_finding(out, cushim_mem_stats_read(&cushim_process.n_foreign_frees),
                "free of memory that was not seen being allocated",
                "frees of memory that was not seen being allocated");
    put_finding(out, cushim_mem_stats_read(&cushim_process.n_refused_handles),
                "IPC handle refused (CUSHIM_IPC=dedicated would give it)",
                "IPC handles refused (CUSHIM_IPC=dedicated would give them)");
    put_finding(out, cushim_mem_stats_read(&cushim_process.n_stuck_blocks),
                "block freed in a capture is never reused (no user objects)",
                "blocks freed in a capture are never reused (no user objects)");
}

static void put_stack(struct cushim_writer *out, const char *what,
                      const struct cushim_backtrace *stack) {
    for (int i = cushim_backtrace_first(stack); i < stack->n_frames; i++) {
        char text[CUSHIM_BACKTRACE_FRAME_BYTES];
        cushim_backtrace_text(stack, i, text);
        cushim_write(out, "         %s %s\n", what, text);
    }
}

static void put_harms(struct cushim_writer *out) {
    const struct cushim_mem_told *told = atomic_load(&cushim_check.told);
    for (; told; told = atomic_load(&told->next)) {
        char text[CUSHIM_CHECK_TEXT_BYTES];
        cushim_check_text(&told->finding, text);
        cushim_write(out, "finding: %s\n", text);
        put_stack(out, "allocated at", &told->finding.obtained);
        put_stack(out, "freed at", &told->finding.freed);
        put_stack(out, cushim_check_place(told->finding.harm), &told->finding.at);
    }
    put_finding(out, cushim_mem_stats_read(&cushim_check.n_findings), "finding of the check",
                "findings of the check in all");
    put_finding(out, cushim_mem_stats_read(&cushim_check.n_unchecked),
                "block that the check could not look at",
                "blocks that the check could not look at");
}

/* "99.97": what n is of all in per cent, cut, so that 100.00 is all of them. */
static const char *share(char text[CUSHIM_AMOUNT_BYTES], uint64_t n, uint64_t n_all) {
    uint64_t per_10000 = (uint64_t)((__uint128_t)n * 10000 / n_all);
    snprintf(text, CUSHIM_AMOUNT_BYTES, "%u.%02u", (unsigned)(per_10000 / 100),
             (unsigned)(per_10000 % 100));
    return text;
}

static const char *const verdict_indent = "         ";

/* One kind of driver call that we made: how many, how long in all, and how long each. */
static void put_measured(struct cushim_writer *out, uint64_t n, uint64_t ns, const char *one,
                         const char *many) {
    char calls[CUSHIM_AMOUNT_BYTES * 2];
    struct texts t;
    if (!n)
        return;
    cushim_write(out, "%s%s took %s", verdict_indent, some(calls, n, one, many),
                 cushim_text_time(t.text[0], ns));
    if (n > 1)
        cushim_write(out, ", %s each", cushim_text_time(t.text[1], ns / n));
    cushim_write(out, " (measured)\n");
}

/* What the driver served as it was asked, and no pool could. */
static void put_forwarded(struct cushim_writer *out) {
    struct cushim_report_virtual created = cushim_report_virtual_sum();
    uint64_t n_async = cushim_report_sum(CUSHIM_KIND_ASYNC, n_requests);
    char calls[CUSHIM_AMOUNT_BYTES * 2];
    struct texts t;
    if (created.n_requests)
        cushim_write(out, "%s%s were asked for by cuMemCreate (%s) and forwarded\n", verdict_indent,
                     cushim_text_bytes(t.text[0], created.requested_bytes),
                     some(calls, created.n_requests, "call", "calls"));
    if (n_async)
        cushim_write(
            out, "%s%s were asked for in stream order (%s) and forwarded\n", verdict_indent,
            cushim_text_bytes(t.text[0], cushim_report_sum(CUSHIM_KIND_ASYNC, requested_bytes)),
            some(calls, n_async, "call", "calls"));
}

static void put_verdict(struct cushim_writer *out) {
    uint64_t n_requests = cushim_report_sum(CUSHIM_KIND_DEVICE, n_requests);
    uint64_t n_hits = cushim_report_sum(CUSHIM_KIND_DEVICE, n_hits);
    uint64_t n_misses = cushim_report_sum(CUSHIM_KIND_DEVICE, n_misses);
    bool is_forwarded =
        cushim_report_virtual_sum().n_requests || cushim_report_sum(CUSHIM_KIND_ASYNC, n_requests);
    char text[CUSHIM_AMOUNT_BYTES], requests[CUSHIM_AMOUNT_BYTES * 2];
    some(requests, n_requests, "request", "requests");
    if (n_hits || n_misses)
        cushim_write(out, "verdict: %s %% of %s made no driver call\n",
                     share(text, n_hits, n_requests), requests);
    else if (n_requests)
        cushim_write(out, "verdict: cushim pooled no device memory: %s went to the driver\n",
                     requests);
    else if (is_forwarded)
        cushim_write(out, "verdict: no device memory was asked for by cudaMalloc or cuMemAlloc\n");
    else
        cushim_write(out, "verdict: no device memory was asked for\n");
    put_measured(out, cushim_report_sum(CUSHIM_KIND_DEVICE, n_native_allocs),
                 cushim_report_sum(CUSHIM_KIND_DEVICE, native_alloc_ns), "driver allocation",
                 "driver allocations");
    put_measured(out, cushim_report_sum(CUSHIM_KIND_DEVICE, n_native_frees),
                 cushim_report_sum(CUSHIM_KIND_DEVICE, native_free_ns), "driver free",
                 "driver frees");
    put_forwarded(out);
}

void cushim_report_tell(void) {
    cushim_report_begin();
    log_info("engine",
             "ended; requests of device memory: %lu, without a driver call: %lu, around us: %lu",
             (unsigned long)cushim_report_sum(CUSHIM_KIND_DEVICE, n_requests),
             (unsigned long)cushim_report_sum(CUSHIM_KIND_DEVICE, n_hits),
             (unsigned long)cushim_mem_stats_read(&cushim_process.n_bypassed));
}

void cushim_report_text(struct cushim_writer *out) {
    struct texts t;
    cushim_report_begin();
    cushim_write(out, "cushim %s: %s, process %ld, %s\n", CUSHIM_VERSION_TEXT,
                 program_invocation_short_name, (long)getpid(),
                 cushim_text_time(t.text[0], cushim_clock_ns() - cushim_process.start_ns));
    for (int device = 0; device < CUSHIM_MAX_DEVICES; device++) {
        if (cushim_report_has_device(device))
            put_device(out, device);
    }
    put_copies(out);
    put_findings(out);
    put_harms(out);
    put_verdict(out);
}
