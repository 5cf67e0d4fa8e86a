#include "report/report.h"

#include <stdio.h>
#include <string.h>

const char *cushim_report_kind(enum cushim_kind kind) {
    static const char *const names[CUSHIM_N_KINDS] = {"device",   "managed", "pinned", "async",
                                                      "mapped",   "array",   "graph",  "spilled",
                                                      "imported", "context"};
    return names[kind];
}

const char *cushim_report_direction(enum cushim_direction direction) {
    static const char *const names[CUSHIM_N_DIRECTIONS] = {"host_to_device",   "device_to_host",
                                                           "device_to_device", "host_to_host",
                                                           "by_address",       "set"};
    return names[direction];
}

bool cushim_report_has(const struct cushim_report *report, int device, enum cushim_kind kind) {
    const struct cushim_mem_stats *stats = cushim_report_stats(report, device, kind);
    return cushim_mem_stats_read(&stats->n_requests) || cushim_mem_stats_read(&stats->n_refused) ||
           cushim_mem_stats_read(&stats->peak_live_bytes); /* of a snapshot */
}

bool cushim_report_has_device(const struct cushim_report *report, int device) {
    for (int kind = 0; kind < CUSHIM_N_KINDS; kind++) {
        if (cushim_report_has(report, device, (enum cushim_kind)kind))
            return true;
    }
    return false;
}

int cushim_report_next_device(const struct cushim_report *report, int device) {
    while (++device < CUSHIM_MAX_DEVICES && !cushim_report_has_device(report, device))
        continue;
    return device < CUSHIM_MAX_DEVICES ? device : -1;
}

uint64_t cushim_report_rounding_bytes(const struct cushim_mem_stats *stats) {
    uint64_t block_bytes = cushim_mem_stats_read(&stats->block_bytes);
    uint64_t live_bytes = cushim_mem_stats_read(&stats->live_bytes);
    /* two reads with other threads in between, so never below 0; kinds that the driver serves have
     * no blocks */
    return block_bytes > live_bytes ? block_bytes - live_bytes : 0;
}

/* Take at most what is left. */
static uint64_t take(uint64_t *left_bytes, uint64_t n_bytes) {
    uint64_t taken_bytes = n_bytes < *left_bytes ? n_bytes : *left_bytes;
    *left_bytes -= taken_bytes;
    return taken_bytes;
}

struct cushim_report_held cushim_report_held(const struct cushim_mem_stats *stats) {
    struct cushim_report_held held = {.held_bytes = cushim_mem_stats_read(&stats->held_bytes)};
    uint64_t left_bytes = held.held_bytes;
    held.live_bytes = take(&left_bytes, cushim_mem_stats_read(&stats->live_bytes));
    held.rounding_bytes = take(&left_bytes, cushim_report_rounding_bytes(stats));
    held.idle_bytes = take(&left_bytes, cushim_mem_stats_read(&stats->free_segment_bytes));
    held.spare_bytes = left_bytes;
    return held;
}

uint64_t cushim_report_idle_bytes(const struct cushim_report *report, int device) {
    return cushim_report_held(cushim_report_stats(report, device, CUSHIM_KIND_DEVICE)).idle_bytes;
}

uint64_t cushim_report_sum_of(const struct cushim_report *report, int device, unsigned kinds,
                              size_t counter) {
    uint64_t sum = 0;
    for (int i = 0; i < CUSHIM_MAX_DEVICES; i++) {
        for (int kind = 0; kind < CUSHIM_N_KINDS; kind++) {
            const char *stats =
                (const char *)cushim_report_stats(report, i, (enum cushim_kind)kind);
            if ((device < 0 || i == device) && kinds >> kind & 1)
                sum += cushim_mem_stats_read((const atomic_uint_fast64_t *)(stats + counter));
        }
    }
    return sum;
}

const char *cushim_report_uuid(char text[CUSHIM_REPORT_UUID_BYTES], const unsigned char uuid[16]) {
    static const unsigned char none[16];
    char *end = text;
    *text = 0;
    if (memcmp(uuid, none, sizeof none) == 0)
        return text;
    end += sprintf(end, "GPU");
    for (int i = 0; i < 16; i++)
        end += sprintf(end, "%s%02x", i == 0 || i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                       uuid[i]);
    return text;
}

const char *cushim_report_next_text(const char *texts, uint64_t n_bytes, const char *text) {
    const char *next = text ? text + strlen(text) + 1 : texts;
    return next < texts + n_bytes ? next : NULL;
}

const char *cushim_report_option(const struct cushim_page_head *head, const char *name) {
    const char *text = NULL;
    size_t n = strlen(name);
    while ((text = cushim_report_next_text(head->options, head->n_option_bytes, text))) {
        if (strncmp(text, name, n) == 0 && text[n] == '=')
            return text + n + 1;
    }
    return NULL;
}

/* Write a line with what fits; returns the rest. */
static const char *put_line(struct cushim_writer *out, const char *head, const char *text) {
    enum { WIDTH = 71 };
    size_t n = strlen(text);
    if (n > WIDTH) {
        n = WIDTH;
        while (n && text[n] != ' ')
            n--;
        n = n ? n : WIDTH;
    }
    cushim_write(out, "%-8s %.*s\n", head, (int)n, text);
    text += n;
    return *text == ' ' ? text + 1 : text;
}

void cushim_report_put_folded(struct cushim_writer *out, const char *head, const char *text) {
    const char *rest = put_line(out, head, text);
    while (*rest)
        rest = put_line(out, "", rest);
}

uint64_t cushim_report_since(const struct cushim_report *report, uint64_t ns) {
    uint64_t start_ns = report->page.head.start_ns;
    return ns > start_ns ? ns - start_ns : 0;
}
