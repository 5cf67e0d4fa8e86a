#include "preload/report/report.h"

#include <errno.h>
#include <inttypes.h>
#include <unistd.h>

#include "base/clock.h"
#include "preload/entry/check_mode.h"

/* Every counter of a kind, by its name in the report. */
#define COUNTERS(X)                                                                                \
    X(requests, n_requests)                                                                        \
    X(no_call, n_hits)                                                                             \
    X(misses, n_misses)                                                                            \
    X(native, n_natively)                                                                          \
    X(refused, n_refused)                                                                          \
    X(frees, n_frees)                                                                              \
    X(requested_bytes, requested_bytes)                                                            \
    X(live_bytes, live_bytes)                                                                      \
    X(peak_live_bytes, peak_live_bytes)                                                            \
    X(block_bytes, block_bytes)                                                                    \
    X(held_bytes, held_bytes)                                                                      \
    X(peak_held_bytes, peak_held_bytes)                                                            \
    X(segments, n_segments)                                                                        \
    X(native_allocs, n_native_allocs)                                                              \
    X(native_alloc_ns, native_alloc_ns)                                                            \
    X(native_frees, n_native_frees)                                                                \
    X(native_free_ns, native_free_ns)                                                              \
    X(out_of_memory, n_out_of_memory)                                                              \
    X(reclaim_steps, n_reclaim_steps)                                                              \
    X(reclaim_waits, n_reclaim_waits)                                                              \
    X(arena, n_arena)                                                                              \
    X(arena_rewinds, n_arena_rewinds)                                                              \
    X(arena_kept, n_arena_kept)                                                                    \
    X(waits, n_waits)                                                                              \
    X(wait_ns, wait_ns)                                                                            \
    X(effect_waits, n_effect_waits)                                                                \
    X(effect_wait_ns, effect_wait_ns)

static void put_string(struct cushim_writer *out, const char *text) {
    cushim_write(out, "\"");
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            cushim_write(out, "\\%c", c);
        else if (c < 0x20 || c >= 0x7f)
            cushim_write(out, "\\u%04x", c);
        else
            cushim_write(out, "%c", c);
    }
    cushim_write(out, "\"");
}

static void put_kind(struct cushim_writer *out, int device, enum cushim_kind kind) {
    const struct cushim_mem_stats *stats = cushim_report_stats(device, kind);
    cushim_write(out, "\"%s\": {", cushim_report_kind(kind));
#define PUT(name, field)                                                                           \
    cushim_write(out, "\"" #name "\": %" PRIu64 ", ", cushim_mem_stats_read(&stats->field));
    COUNTERS(PUT)
#undef PUT
    cushim_write(out, "\"rounding_bytes\": %" PRIu64 "}", cushim_report_rounding_bytes(stats));
}

static void put_device(struct cushim_writer *out, int device) {
    const char *comma = "";
    cushim_write(out, "    {\"device\": %d, \"name\": ", device);
    put_string(out, cushim_process.device_names[device]);
    struct cushim_report_virtual created = cushim_report_virtual(device);
    cushim_write(out,
                 ", \"virtual\": {\"requests\": %" PRIu64 ", \"requested_bytes\": %" PRIu64
                 "}, \"kinds\": {",
                 created.n_requests, created.requested_bytes);
    for (int kind = 0; kind < CUSHIM_N_KINDS; kind++) {
        if (!cushim_report_has(device, (enum cushim_kind)kind))
            continue;
        cushim_write(out, "%s\n      ", comma);
        put_kind(out, device, (enum cushim_kind)kind);
        comma = ",";
    }
    cushim_write(out, "}}");
}

static void put_devices(struct cushim_writer *out) {
    const char *comma = "";
    cushim_write(out, "  \"devices\": [");
    for (int device = 0; device < CUSHIM_MAX_DEVICES; device++) {
        if (!cushim_report_has_device(device))
            continue;
        cushim_write(out, "%s\n", comma);
        put_device(out, device);
        comma = ",";
    }
    cushim_write(out, "],\n");
}

static void put_findings(struct cushim_writer *out) {
    cushim_write(out, "  \"findings\": {");
#define PUT(name, field, one, many)                                                                \
    cushim_write(out, "\"" #name "\": %" PRIu64 ", ", cushim_report_sum_##name());
    CUSHIM_REPORT_FINDINGS(PUT)
#undef PUT
    cushim_write(out,
                 "\"foreign_frees\": %" PRIu64 ", \"refused_ipc_handles\": %" PRIu64
                 ", \"stuck_blocks\": %" PRIu64 "},\n",
                 cushim_mem_stats_read(&cushim_process.n_foreign_frees),
                 cushim_mem_stats_read(&cushim_process.n_refused_handles),
                 cushim_mem_stats_read(&cushim_process.n_stuck_blocks));
}

static void put_stack(struct cushim_writer *out, const char *name,
                      const struct cushim_backtrace *stack) {
    int first = cushim_backtrace_first(stack);
    cushim_write(out, ", \"%s\": [", name);
    for (int i = first; i < stack->n_frames; i++) {
        char text[CUSHIM_BACKTRACE_FRAME_BYTES];
        cushim_backtrace_text(stack, i, text);
        cushim_write(out, i > first ? ", " : "");
        put_string(out, text);
    }
    cushim_write(out, "]");
}

static void put_harm(struct cushim_writer *out, const struct cushim_mem_finding *finding) {
    static const char *const harms[] = {[CUSHIM_MEM_HARM_BEFORE] = "before its start",
                                        [CUSHIM_MEM_HARM_AFTER] = "behind its end",
                                        [CUSHIM_MEM_HARM_FREED] = "after its free",
                                        [CUSHIM_MEM_HARM_AGAIN] = "freed again",
                                        [CUSHIM_MEM_HARM_INSIDE] = "freed inside",
                                        [CUSHIM_MEM_HARM_LEFT] = "left by a call",
                                        [CUSHIM_MEM_HARM_TOUCHED] =
                                            "touched by a call after its free"};
    bool is_refusal = cushim_mem_harm_is_refusal(finding->harm);
    cushim_write(out,
                 "\n    {\"fault\": \"%s\", \"harm\": \"%s\", \"address\": %" PRIu64
                 ", \"bytes\": %zu, \"offset\": %" PRId64,
                 cushim_check_fault(finding->harm), harms[finding->harm], finding->address,
                 finding->n_bytes, finding->offset);
    if (is_refusal)
        cushim_write(out, ", \"call\": \"%s\", \"call_bytes\": %zu", finding->call,
                     finding->span_bytes);
    else
        cushim_write(out, ", \"found\": %u, \"found_by\": \"%s\"", finding->found, finding->call);
    put_stack(out, "allocated", &finding->obtained);
    put_stack(out, "freed", &finding->freed);
    put_stack(out, is_refusal ? "called_at" : "found_at", &finding->at);
    cushim_write(out, "}");
}

static void put_harms(struct cushim_writer *out) {
    const char *comma = "";
    cushim_write(out, "  \"harms\": [");
    const struct cushim_mem_told *told = atomic_load(&cushim_check.told);
    for (; told; told = atomic_load(&told->next)) {
        cushim_write(out, "%s", comma);
        put_harm(out, &told->finding);
        comma = ",";
    }
    cushim_write(out, "],\n  \"n_harms\": %" PRIu64 ", \"unchecked\": %" PRIu64 ",\n",
                 cushim_mem_stats_read(&cushim_check.n_findings),
                 cushim_mem_stats_read(&cushim_check.n_unchecked));
}

static void put_copies(struct cushim_writer *out) {
    static const char *const memories[CUSHIM_N_HOST_MEMORIES] = {"other", "pageable", "pinned"};
    const char *comma = "";
    cushim_write(out, "  \"copies\": {");
    for (int direction = 0; direction < CUSHIM_N_DIRECTIONS; direction++) {
        cushim_write(out, "%s\n    \"%s\": {", comma,
                     cushim_report_direction((enum cushim_direction)direction));
        comma = ",";
        for (int memory = 0; memory < CUSHIM_N_HOST_MEMORIES; memory++)
            cushim_write(out, "%s\"%s\": {\"count\": %" PRIu64 ", \"bytes\": %" PRIu64 "}",
                         memory ? ", " : "", memories[memory],
                         cushim_mem_stats_read(&cushim_copy_counts.n_copies[direction][memory]),
                         cushim_mem_stats_read(&cushim_copy_counts.n_bytes[direction][memory]));
        cushim_write(out, "}");
    }
    cushim_write(out, "},\n");
}

static void put_calls(struct cushim_writer *out) {
    const char *comma = "";
    cushim_write(out, "  \"calls\": {");
    for (int row = 0; row < CUSHIM_N_SYMBOLS; row++) {
        uint64_t n = cushim_process_calls((enum cushim_cuda_symbol)row);
        if (!n)
            continue;
        cushim_write(out, "%s\n    \"%s\": %" PRIu64, comma,
                     cushim_cuda_symbol_name((enum cushim_cuda_symbol)row), n);
        comma = ",";
    }
    cushim_write(out, "},\n");
}

static void put_lookups(struct cushim_writer *out) {
    static const char *const identities[] = {"unknown", "same", "other"};
    const struct cushim_resolve_counts *counts = cushim_resolve_counts();
    cushim_write(
        out,
        "  \"lookups\": {\"count\": %lu, \"routed\": %lu, \"by_name\": %lu, \"unhooked\": %lu, "
        "\"identity\": \"%s\"},\n",
        atomic_load(&counts->n_lookups), atomic_load(&counts->n_routed),
        atomic_load(&counts->n_by_name), atomic_load(&counts->n_unhooked),
        identities[atomic_load(&counts->identity)]);
}

void cushim_report_json(struct cushim_writer *out) {
    cushim_report_begin();
    cushim_write(out, "{\n  \"schema\": \"%s\",\n  \"cushim\": \"%s\",\n  \"pid\": %ld,\n",
                 CUSHIM_REPORT_SCHEMA, CUSHIM_VERSION_TEXT, (long)getpid());
    cushim_write(out, "  \"program\": ");
    put_string(out, program_invocation_short_name);
    cushim_write(out, ",\n  \"run_ns\": %" PRIu64 ",\n",
                 cushim_clock_ns() - cushim_process.start_ns);
    put_devices(out);
    put_findings(out);
    put_harms(out);
    put_copies(out);
    put_calls(out);
    put_lookups(out);
    cushim_write(out, "  \"bypassed\": %" PRIu64 "\n}\n",
                 cushim_mem_stats_read(&cushim_process.n_bypassed));
}
