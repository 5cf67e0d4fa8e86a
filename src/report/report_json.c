/* The report as JSON: docs/schema/report-1.json describes it. */

#include <inttypes.h>

#include "cuda/symbol_name.h"
#include "report/advice.h"
#include "report/finding.h"
#include "report/json.h"
#include "report/large_copies.h"
#include "report/page_calls.h"
#include "report/page_mark.h"
#include "report/shortage.h"
#include "report/site.h"

static void put_kind(struct cushim_writer *out, const struct cushim_report *report, int device,
                     enum cushim_kind kind) {
    const struct cushim_mem_stats *stats = cushim_report_stats(report, device, kind);
    struct cushim_report_held held = cushim_report_held(stats);
    cushim_json_put(out, "\n      ", "\"%s\": {", cushim_report_kind(kind));
#define COUNTER(name, field, type, unit, sentence)                                                 \
    cushim_json_number(out, #name, cushim_mem_stats_read(&stats->field));
#include "report/report.def"
#undef COUNTER
    cushim_json_number(out, "idle_bytes", held.idle_bytes);
    cushim_json_number(out, "spare_bytes", held.spare_bytes);
    cushim_json_number(out, "rounding_bytes", cushim_report_rounding_bytes(stats));
    cushim_write(out, "}");
}

static void put_device(struct cushim_writer *out, const struct cushim_report *report, int device) {
    const struct cushim_mem_stats *mapped = cushim_report_stats(report, device, CUSHIM_KIND_MAPPED);
    uint64_t limit_bytes = cushim_mem_stats_read(&report->page.head.limit_bytes[device]);
    char uuid[CUSHIM_REPORT_UUID_BYTES];
    cushim_json_begin(out, "\n    ", "{");
    cushim_json_number(out, "device", (uint64_t)device);
    cushim_json_text(out, "name", report->page.device_names[device]);
    if (*cushim_report_uuid(uuid, report->page.device_uuids[device]))
        cushim_json_text(out, "uuid", uuid);
    if (*report->page.device_places[device])
        cushim_json_text(out, "pci", report->page.device_places[device]);
    if (limit_bytes)
        cushim_json_number(out, "limit_bytes", limit_bytes);
    cushim_json_begin(out, "virtual", "{");
    cushim_json_number(out, "requests", cushim_mem_stats_read(&mapped->n_requests));
    cushim_json_number(out, "requested_bytes", cushim_mem_stats_read(&mapped->requested_bytes));
    cushim_json_number(out, "live_bytes", cushim_mem_stats_read(&mapped->live_bytes));
    cushim_json_number(out, "peak_live_bytes", cushim_mem_stats_read(&mapped->peak_live_bytes));
    cushim_write(out, "}");
    cushim_json_begin(out, "kinds", "{");
    for (int kind = 0; kind < CUSHIM_N_KINDS; kind++) {
        if (cushim_report_has(report, device, (enum cushim_kind)kind))
            put_kind(out, report, device, (enum cushim_kind)kind);
    }
    cushim_write(out, "}}");
}

static void put_devices(struct cushim_writer *out, const struct cushim_report *report) {
    cushim_json_begin(out, "\n  devices", "[");
    for (int device = -1; (device = cushim_report_next_device(report, device)) >= 0;)
        put_device(out, report, device);
    cushim_write(out, "]");
}

static void put_findings(struct cushim_writer *out, const struct cushim_page *page,
                         const struct cushim_report *report) {
    cushim_json_begin(out, "\n  findings", "{");
#define PUT(name, field, one, many)                                                                \
    cushim_json_number(out, #name, cushim_report_sum_all(report, field));
    CUSHIM_REPORT_FINDINGS(PUT)
#undef PUT
    cushim_json_number(out, "foreign_frees", cushim_mem_stats_read(&page->n_foreign_frees));
    cushim_json_number(out, "refused_ipc_handles", cushim_mem_stats_read(&page->n_refused_handles));
    cushim_json_number(out, "stuck_blocks", cushim_mem_stats_read(&page->n_stuck_blocks));
    cushim_write(out, "}");
}

static void put_copies(struct cushim_writer *out, const struct cushim_copy_counts *copies) {
    static const char *const memories[CUSHIM_N_HOST_MEMORIES] = {"other", "pageable", "pinned"};
    cushim_json_begin(out, "\n  copies", "{");
    for (int direction = 0; direction < CUSHIM_N_DIRECTIONS; direction++) {
        cushim_json_put(out, "\n    ", "\"%s\": {",
                        cushim_report_direction((enum cushim_direction)direction));
        for (int i = 0; i < CUSHIM_N_HOST_MEMORIES; i++)
            cushim_json_put(out, memories[i], "{\"count\": %" PRIu64 ", \"bytes\": %" PRIu64 "}",
                            cushim_mem_stats_read(&copies->n_copies[direction][i]),
                            cushim_mem_stats_read(&copies->n_bytes[direction][i]));
        cushim_write(out, "}");
    }
    cushim_write(out, "}");
}

static void put_marks(struct cushim_writer *out, const struct cushim_report *report) {
    struct cushim_page_mark mark;
    cushim_json_begin(out, "\n  marks", "[");
    for (unsigned i = 0; i < CUSHIM_PAGE_MARKS; i++) {
        if (!cushim_page_mark_get(&report->page, i, &mark))
            continue;
        cushim_json_begin(out, "\n    ", "{");
        cushim_json_text(out, "name", mark.name);
        cushim_json_number(out, "ns", cushim_report_since(report, mark.ns));
        cushim_json_number(out, "live_bytes", mark.live_bytes);
        cushim_json_number(out, "held_bytes", mark.held_bytes);
        cushim_write(out, "}");
    }
    cushim_write(out, "]");
    cushim_json_number(out, "\n  n_marks", cushim_mem_stats_read(&report->page.n_marks));
}

static void put_calls(struct cushim_writer *out, const struct cushim_page_calls *calls) {
    static const char *const identities[] = {"unknown", "same", "other"};
    const struct cushim_resolve_counts *lookups = &calls->lookups;
    int identity = atomic_load(&lookups->identity); /* from a file, which may contain anything */
    cushim_json_begin(out, "\n  calls", "{");
    for (unsigned row = 0; row < CUSHIM_PAGE_SYMBOLS; row++) {
        uint64_t n = cushim_page_calls_of(calls, row);
        if (n)
            cushim_json_put(out, "\n    ", "\"%s\": %" PRIu64, cushim_cuda_symbol_name(row), n);
    }
    cushim_write(out, "}");
    cushim_json_begin(out, "\n  lookups", "{");
    cushim_json_numbers(
        out, "count routed by_name unhooked",
        (const uint64_t[]){atomic_load(&lookups->n_lookups), atomic_load(&lookups->n_routed),
                           atomic_load(&lookups->n_by_name), atomic_load(&lookups->n_unhooked)});
    cushim_json_text(out, "identity",
                     identities[identity > 0 && identity <= CUSHIM_IDENTITY_OTHER ? identity : 0]);
    cushim_write(out, "}");
}

/* Several texts (page.h). */
static void put_texts(struct cushim_writer *out, const char *name, const char *texts,
                      uint64_t n_bytes) {
    const char *text = NULL;
    cushim_json_begin(out, name, "[");
    while ((text = cushim_report_next_text(texts, n_bytes, text)))
        cushim_json_text(out, NULL, text);
    cushim_write(out, "]");
}

static void put_head(struct cushim_writer *out, const struct cushim_page_head *head,
                     uint64_t run_ns) {
    uint64_t version = cushim_mem_stats_read(&head->driver_version);
    cushim_json_text(out, "\n  schema", CUSHIM_REPORT_SCHEMA);
    cushim_json_text(out, "\n  cushim", head->version);
    cushim_json_put(out, "\n  pid", "%" PRId64, head->process);
    cushim_json_text(out, "\n  program", head->program);
    if (head->run)
        cushim_json_put(out, "\n  run", "\"%" PRIx64 "\"", head->run);
    if (head->rank >= 0)
        cushim_json_number(out, "\n  rank", (uint64_t)head->rank);
    if (head->rank >= 0 && head->ranks >= 0)
        cushim_json_number(out, "\n  ranks", (uint64_t)head->ranks);
    cushim_json_number(out, "\n  run_ns", run_ns);
    cushim_json_text(out, "\n  host", head->host);
    cushim_json_text(out, "\n  boot", head->boot);
    cushim_json_number(out, "\n  start_ns", head->start_ns);
    cushim_json_text(out, "\n  folder", head->folder);
    put_texts(out, "\n  arguments", head->arguments, head->n_argument_bytes);
    put_texts(out, "\n  options", head->options, head->n_option_bytes);
    if (version)
        cushim_json_number(out, "\n  driver_version", version);
    if (cushim_mem_stats_read(&head->is_software))
        cushim_json_bool(out, "\n  is_software", true);
}

void cushim_report_json(struct cushim_writer *out, const struct cushim_report *report) {
    cushim_write(out, "{");
    put_head(out, &report->page.head, report->run_ns);
    cushim_json_text(out, "\n  source", report->is_of_page ? "live page" : "process");
    if (report->ended)
        cushim_json_text(out, "\n  ended", report->ended);
    if (report->suspended_ns)
        cushim_json_put(out, "\n  suspended", "{\"ns\": %" PRIu64 ", \"bytes\": %" PRIu64 "}",
                        report->suspended_ns, report->suspended_bytes);
    put_devices(out, report);
    put_findings(out, &report->page, report);
    put_copies(out, &report->page.copies);
    cushim_large_copies_json(out, report);
    cushim_site_json(out, report);
    put_marks(out, report);
    cushim_write(out, ",\n"); /* the next writes whole lines, as put_json does */
    cushim_shortage_json(out, report);
    cushim_advice_json(out, report);
    if (report->put_json) {
        cushim_write(out, ",\n");
        report->put_json(out);
    } else {
        cushim_finding_json(out, report);
    }
    if (report->calls)
        put_calls(out, report->calls);
    cushim_json_number(out, "\n  bypassed", cushim_mem_stats_read(&report->page.n_bypassed));
    cushim_write(out, "\n}\n");
}
