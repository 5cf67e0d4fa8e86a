#include "report/finding.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "cuda/symbol.h"
#include "report/frame.h"
#include "report/json.h"
#include "report/page_ring.h"

enum { N_FRAMES = 6 };

static void end_stack(struct cushim_page_frame frames[N_FRAMES], uint64_t *n_frames) {
    *n_frames = *n_frames < N_FRAMES ? *n_frames : N_FRAMES;
    cushim_frame_clean(frames, N_FRAMES);
}

static uint64_t n_requests_of(const struct cushim_report *report, int device) {
    return cushim_report_sum_of(report, device, (1 << CUSHIM_KIND_IMPORTED) - 1,
                                offsetof(struct cushim_mem_stats, n_requests));
}

/* What a process finds at its end was not found by one that was killed. */
static bool is_killed(const struct cushim_report *report) {
    return report->is_of_page && report->ended &&
           atomic_load(&report->page.head.state) == CUSHIM_PAGE_RUNNING;
}

static bool find_forked(const struct cushim_report *report, struct cushim_page_finding *finding) {
    uint64_t orphan = cushim_mem_stats_read(&report->page.orphan);
    if (!orphan || (uint32_t)orphan >= CUSHIM_N_SYMBOLS)
        return false;
    *finding = (struct cushim_page_finding){.is_refusal = 2,
                                            .offset = orphan >> 32,
                                            .fault = CUSHIM_FINDING_FORKED,
                                            .harm = CUSHIM_FINDING_FORKED_HARM};
    snprintf(finding->call, sizeof finding->call, "%s",
             cushim_cuda_symbol_name((enum cushim_cuda_symbol)(uint32_t)orphan));
    snprintf(finding->text, sizeof finding->text, CUSHIM_FINDING_FORKED_TEXT, finding->fault,
             (long)finding->offset, finding->call);
    return true;
}

static bool find_stray(const struct cushim_report *report, unsigned device,
                       struct cushim_page_finding *finding) {
    const struct cushim_page_made *made = report->page.made;
    uint64_t n = 0;
    if (!cushim_mem_stats_read(&made[device].is_known) || n_requests_of(report, (int)device))
        return false;
    for (int i = 0; i < CUSHIM_MAX_DEVICES; i++)
        n += cushim_mem_stats_read(&made[i].is_known) ? n_requests_of(report, i) : 0;
    *finding = (struct cushim_page_finding){.is_refusal = 2,
                                            .offset = device,
                                            .fault = CUSHIM_FINDING_STRAY,
                                            .harm = CUSHIM_FINDING_STRAY_HARM,
                                            .n_at = made[device].n_at};
    memcpy(finding->call, made[device].call, sizeof made->call);
    memcpy(finding->at, made[device].at, sizeof made->at);
    cushim_utf8_end(finding->call, sizeof made->call);
    snprintf(finding->text, sizeof finding->text, CUSHIM_FINDING_STRAY_TEXT, finding->fault,
             finding->call, (long)device);
    return n;
}

static bool find(const struct cushim_report *report, unsigned i,
                 struct cushim_page_finding *finding) {
    struct cushim_page *readable = (struct cushim_page *)&report->page; /* rings are also written */
    if (i < CUSHIM_PAGE_FINDINGS)
        return cushim_page_ring_get(CUSHIM_PAGE_RING(readable->findings),
                                    cushim_mem_stats_read(&readable->n_findings), i, finding);
    if (!is_killed(report))
        return false;
    return i < CUSHIM_N_FINDINGS - 1 ? find_stray(report, i - CUSHIM_PAGE_FINDINGS, finding)
                                     : find_forked(report, finding);
}

bool cushim_finding_get(const struct cushim_report *report, unsigned i,
                        struct cushim_page_finding *finding) {
    if (!find(report, i, finding))
        return false;
    cushim_utf8_end(finding->fault, sizeof finding->fault);
    cushim_utf8_end(finding->harm, sizeof finding->harm);
    cushim_utf8_end(finding->call, sizeof finding->call);
    cushim_utf8_end(finding->text, sizeof finding->text);
    end_stack(finding->obtained, &finding->n_obtained);
    end_stack(finding->freed, &finding->n_freed);
    end_stack(finding->at, &finding->n_at);
    return true;
}

bool cushim_finding_text(struct cushim_writer *out, const struct cushim_report *report) {
    struct cushim_page_finding finding;
    bool has_any = false;
    for (unsigned i = 0; i < CUSHIM_N_FINDINGS; i++) {
        if (!cushim_finding_get(report, i, &finding))
            continue;
        has_any = true;
        cushim_report_put_folded(out, "finding:", finding.text);
        cushim_frame_text(out, "allocated", finding.obtained, finding.n_obtained,
                          report->find_line);
        cushim_frame_text(out, "freed", finding.freed, finding.n_freed, report->find_line);
        cushim_frame_text(out, finding.is_refusal ? "called at" : "found at", finding.at,
                          finding.n_at, report->find_line);
    }
    if (cushim_report_option(&report->page.head, "check"))
        cushim_report_put_finding(out, cushim_mem_stats_read(&report->page.n_findings),
                                  "finding of the check", "findings of the check in all");
    cushim_report_put_finding(out, cushim_mem_stats_read(&report->page.n_unchecked),
                              "block that the check could not look at",
                              "blocks that the check could not look at");
    return has_any;
}

static void put_stack(struct cushim_writer *out, const char *name,
                      const struct cushim_page_frame frames[], uint64_t n_frames,
                      const struct cushim_report *report) {
    cushim_json_begin(out, name, "");
    cushim_frame_json_texts(out, frames, n_frames, report->find_line);
}

static void put(struct cushim_writer *out, const struct cushim_page_finding *finding,
                const struct cushim_report *report) {
    cushim_json_begin(out, "\n    ", "{");
    cushim_json_text(out, "fault", finding->fault);
    cushim_json_text(out, "harm", finding->harm);
    cushim_json_text(out, finding->is_refusal ? "call" : "found_by", finding->call);
    cushim_json_number(out, finding->is_refusal ? "call_bytes" : "found",
                       finding->is_refusal ? finding->span_bytes : finding->found);
    cushim_json_number(out, "address", finding->address);
    cushim_json_number(out, "bytes", finding->n_bytes);
    cushim_json_put(out, "offset", "%" PRId64, (int64_t)finding->offset);
    put_stack(out, "allocated", finding->obtained, finding->n_obtained, report);
    put_stack(out, "freed", finding->freed, finding->n_freed, report);
    put_stack(out, finding->is_refusal ? "called_at" : "found_at", finding->at, finding->n_at,
              report);
    cushim_write(out, "}");
}

void cushim_finding_json(struct cushim_writer *out, const struct cushim_report *report) {
    struct cushim_page_finding finding;
    uint64_t n_found = 0;
    cushim_json_begin(out, "\n  harms", "[");
    for (unsigned i = 0; i < CUSHIM_N_FINDINGS; i++) {
        if (!cushim_finding_get(report, i, &finding))
            continue;
        put(out, &finding, report);
        n_found += i >= CUSHIM_PAGE_FINDINGS;
    }
    cushim_write(out, "]");
    cushim_json_number(out, "\n  n_harms",
                       cushim_mem_stats_read(&report->page.n_findings) + n_found);
    cushim_json_number(out, "unchecked", cushim_mem_stats_read(&report->page.n_unchecked));
}
