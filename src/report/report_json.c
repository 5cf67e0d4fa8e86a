/* The report as JSON: docs/schema/report-1.json describes it. */

#include <inttypes.h>

#include "base/utf8.h"
#include "cuda/symbol_name.h"
#include "report/advice.h"
#include "report/finding.h"
#include "report/large_copies.h"
#include "report/page_calls.h"
#include "report/page_mark.h"
#include "report/shortage.h"
#include "report/site.h"

/* A code point as JSON escapes it: above U+FFFF as two halves. */
static void put_point(struct cushim_writer *out, uint32_t point) {
    if (point >= 0x10000) {
        point -= 0x10000;
        cushim_write(out, "\\u%04x\\u%04x", 0xd800 + (point >> 10), 0xdc00 + (point & 0x3ff));
    } else {
        cushim_write(out, "\\u%04x", point);
    }
}

void cushim_report_put_string(struct cushim_writer *out, const char *text) {
    cushim_write(out, "\"");
    while (*text) {
        uint32_t point = cushim_utf8_next(&text);
        if (point == '"' || point == '\\')
            cushim_write(out, "\\%c", (int)point);
        else if (point < 0x20 || point >= 0x7f || point == '<')
            put_point(out, point == CUSHIM_UTF8_BAD ? 0xfffd : point);
        else
            cushim_write(out, "%c", (int)point);
    }
    cushim_write(out, "\"");
}

void cushim_report_put_text(struct cushim_writer *out, const char *lead, const char *text) {
    cushim_write(out, "%s", lead);
    cushim_report_put_string(out, text);
}

static void put_kind(struct cushim_writer *out, const struct cushim_report *report, int device,
                     enum cushim_kind kind) {
    const struct cushim_mem_stats *stats = cushim_report_stats(report, device, kind);
    cushim_write(out, "\"%s\": {", cushim_report_kind(kind));
#define COUNTER(name, field, type, unit, sentence)                                                 \
    cushim_write(out, "\"" #name "\": %" PRIu64 ", ", cushim_mem_stats_read(&stats->field));
#include "report/report.def"
#undef COUNTER
    struct cushim_report_held held = cushim_report_held(stats);
    cushim_write(out,
                 "\"idle_bytes\": %" PRIu64 ", \"spare_bytes\": %" PRIu64
                 ", \"rounding_bytes\": %" PRIu64 "}",
                 held.idle_bytes, held.spare_bytes, cushim_report_rounding_bytes(stats));
}

static void put_device(struct cushim_writer *out, const struct cushim_report *report, int device) {
    char uuid[CUSHIM_REPORT_UUID_BYTES];
    cushim_write(out, "    {\"device\": %d, \"name\": ", device);
    cushim_report_put_string(out, report->page.device_names[device]);
    if (*cushim_report_uuid(uuid, report->page.device_uuids[device]))
        cushim_write(out, ", \"uuid\": \"%s\"", uuid);
    if (*report->page.device_places[device]) {
        cushim_report_put_text(out, ", \"pci\": ", report->page.device_places[device]);
    }
    uint64_t limit_bytes = cushim_mem_stats_read(&report->page.head.limit_bytes[device]);
    if (limit_bytes)
        cushim_write(out, ", \"limit_bytes\": %" PRIu64, limit_bytes);
    const struct cushim_mem_stats *mapped = cushim_report_stats(report, device, CUSHIM_KIND_MAPPED);
    cushim_write(out,
                 ", \"virtual\": {\"requests\": %" PRIu64 ", \"requested_bytes\": %" PRIu64
                 ", \"live_bytes\": %" PRIu64 ", \"peak_live_bytes\": %" PRIu64 "}, \"kinds\": {",
                 cushim_mem_stats_read(&mapped->n_requests),
                 cushim_mem_stats_read(&mapped->requested_bytes),
                 cushim_mem_stats_read(&mapped->live_bytes),
                 cushim_mem_stats_read(&mapped->peak_live_bytes));
    for (int kind = 0; kind < CUSHIM_N_KINDS; kind++) {
        if (!cushim_report_has(report, device, (enum cushim_kind)kind))
            continue;
        cushim_write(out, "%s\n      ", cushim_write_comma(out));
        put_kind(out, report, device, (enum cushim_kind)kind);
    }
    cushim_write(out, "}}");
}

static void put_devices(struct cushim_writer *out, const struct cushim_report *report) {
    cushim_write(out, "  \"devices\": [");
    for (int device = 0; device < CUSHIM_MAX_DEVICES; device++) {
        if (!cushim_report_has_device(report, device))
            continue;
        cushim_write(out, "%s\n", cushim_write_comma(out));
        put_device(out, report, device);
    }
    cushim_write(out, "],\n");
}

static void put_findings(struct cushim_writer *out, const struct cushim_report *report) {
    cushim_write(out, "  \"findings\": {");
#define PUT(name, field, one, many)                                                                \
    cushim_write(out, "\"" #name "\": %" PRIu64 ", ", cushim_report_sum_all(report, field));
    CUSHIM_REPORT_FINDINGS(PUT)
#undef PUT
    cushim_write(out,
                 "\"foreign_frees\": %" PRIu64 ", \"refused_ipc_handles\": %" PRIu64
                 ", \"stuck_blocks\": %" PRIu64 "},\n",
                 cushim_mem_stats_read(&report->page.n_foreign_frees),
                 cushim_mem_stats_read(&report->page.n_refused_handles),
                 cushim_mem_stats_read(&report->page.n_stuck_blocks));
}

static void put_copies(struct cushim_writer *out, const struct cushim_report *report) {
    static const char *const memories[CUSHIM_N_HOST_MEMORIES] = {"other", "pageable", "pinned"};
    cushim_write(out, "  \"copies\": {");
    for (int direction = 0; direction < CUSHIM_N_DIRECTIONS; direction++) {
        cushim_write(out, "%s\n    \"%s\": {", cushim_write_comma(out),
                     cushim_report_direction((enum cushim_direction)direction));
        for (int memory = 0; memory < CUSHIM_N_HOST_MEMORIES; memory++)
            cushim_write(out, "%s\"%s\": {\"count\": %" PRIu64 ", \"bytes\": %" PRIu64 "}",
                         memory ? ", " : "", memories[memory],
                         cushim_mem_stats_read(&report->page.copies.n_copies[direction][memory]),
                         cushim_mem_stats_read(&report->page.copies.n_bytes[direction][memory]));
        cushim_write(out, "}");
    }
    cushim_write(out, "},\n");
}

static void put_marks(struct cushim_writer *out, const struct cushim_report *report) {
    struct cushim_page_mark mark;
    cushim_write(out, "  \"marks\": [");
    for (unsigned i = 0; i < CUSHIM_PAGE_MARKS; i++) {
        if (!cushim_page_mark_get(&report->page, i, &mark))
            continue;
        cushim_write(out, "%s\n    {\"name\": ", cushim_write_comma(out));
        cushim_report_put_string(out, mark.name);
        cushim_write(
            out, ", \"ns\": %" PRIu64 ", \"live_bytes\": %" PRIu64 ", \"held_bytes\": %" PRIu64 "}",
            cushim_report_since(report, mark.ns), mark.live_bytes, mark.held_bytes);
    }
    cushim_write(out, "],\n  \"n_marks\": %" PRIu64 ",\n",
                 cushim_mem_stats_read(&report->page.n_marks));
}

static void put_calls(struct cushim_writer *out, const struct cushim_page_calls *calls) {
    static const char *const identities[] = {"unknown", "same", "other"};
    const struct cushim_resolve_counts *lookups = &calls->lookups;
    int identity = atomic_load(&lookups->identity); /* from a file, which may contain anything */
    cushim_write(out, "  \"calls\": {");
    for (unsigned row = 0; row < CUSHIM_PAGE_SYMBOLS; row++) {
        uint64_t n = cushim_page_calls_of(calls, row);
        if (!n)
            continue;
        cushim_write(out, "%s\n    \"%s\": %" PRIu64, cushim_write_comma(out),
                     cushim_cuda_symbol_name(row), n);
    }
    cushim_write(
        out,
        "},\n  \"lookups\": {\"count\": %lu, \"routed\": %lu, \"by_name\": %lu, \"unhooked\": %lu, "
        "\"identity\": \"%s\"},\n",
        atomic_load(&lookups->n_lookups), atomic_load(&lookups->n_routed),
        atomic_load(&lookups->n_by_name), atomic_load(&lookups->n_unhooked),
        identities[identity > 0 && identity <= CUSHIM_IDENTITY_OTHER ? identity : 0]);
}

static void put_head(struct cushim_writer *out, const struct cushim_report *report) {
    const struct cushim_page_head *head = &report->page.head;
    uint64_t version = cushim_mem_stats_read(&head->driver_version);
    const char *text = NULL, *comma = "";
    cushim_report_put_text(out, "  \"host\": ", head->host);
    cushim_report_put_text(out, ",\n  \"boot\": ", head->boot);
    cushim_write(out, ",\n  \"start_ns\": %" PRIu64 ",\n  \"folder\": ", head->start_ns);
    cushim_report_put_string(out, head->folder);
    cushim_write(out, ",\n  \"arguments\": [");
    while ((text = cushim_report_next_text(head->arguments, head->n_argument_bytes, text))) {
        cushim_report_put_text(out, comma, text);
        comma = ", ";
    }
    cushim_write(out, "],\n  \"options\": [");
    for (comma = ""; (text = cushim_report_next_text(head->options, head->n_option_bytes, text));
         comma = ", ") {
        cushim_report_put_text(out, comma, text);
    }
    cushim_write(out, "],\n");
    if (version)
        cushim_write(out, "  \"driver_version\": %" PRIu64 ",\n", version);
    if (cushim_mem_stats_read(&head->is_software))
        cushim_write(out, "  \"is_software\": true,\n");
}

void cushim_report_json(struct cushim_writer *out, const struct cushim_report *report) {
    const struct cushim_page_head *head = &report->page.head;
    cushim_write(out, "{\n  \"schema\": \"%s\",\n  \"cushim\": ", CUSHIM_REPORT_SCHEMA);
    cushim_report_put_string(out, head->version);
    cushim_write(out, ",\n  \"pid\": %ld,\n  \"program\": ", (long)head->process);
    cushim_report_put_string(out, head->program);
    if (head->run)
        cushim_write(out, ",\n  \"run\": \"%" PRIx64 "\"", head->run);
    if (head->rank >= 0)
        cushim_write(out, ",\n  \"rank\": %ld", (long)head->rank);
    if (head->rank >= 0 && head->ranks >= 0)
        cushim_write(out, ",\n  \"ranks\": %ld", (long)head->ranks);
    cushim_write(out, ",\n  \"run_ns\": %" PRIu64 ",\n", report->run_ns);
    put_head(out, report);
    cushim_write(out, "  \"source\": \"%s\",\n", report->is_of_page ? "live page" : "process");
    if (report->ended) {
        cushim_report_put_text(out, "  \"ended\": ", report->ended);
        cushim_write(out, ",\n");
    }
    if (report->suspended_ns)
        cushim_write(out, "  \"suspended\": {\"ns\": %" PRIu64 ", \"bytes\": %" PRIu64 "},\n",
                     report->suspended_ns, report->suspended_bytes);
    put_devices(out, report);
    put_findings(out, report);
    put_copies(out, report);
    cushim_large_copies_json(out, report);
    cushim_site_json(out, report);
    put_marks(out, report);
    cushim_shortage_json(out, report);
    cushim_advice_json(out, report);
    if (report->put_json)
        report->put_json(out);
    else
        cushim_finding_json(out, report);
    if (report->calls)
        put_calls(out, report->calls);
    cushim_write(out, "  \"bypassed\": %" PRIu64 "\n}\n",
                 cushim_mem_stats_read(&report->page.n_bypassed));
}
