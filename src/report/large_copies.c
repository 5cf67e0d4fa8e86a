#include "report/large_copies.h"

#include <inttypes.h>

static uint64_t read_of(const struct cushim_report *report, enum cushim_copy_path path, int back,
                        char which) {
    const struct cushim_copy_counts *counts = &report->page.copies;
    return which == 'n'   ? cushim_mem_stats_read(&counts->large[path][back].n_copies)
           : which == 'b' ? cushim_mem_stats_read(&counts->large[path][back].n_bytes)
                          : cushim_mem_stats_read(&counts->large[path][back].ns);
}

static const char *const paths[CUSHIM_N_COPY_PATHS] = {"by the driver", "staged"};
static const char *const directions[] = {"to device", "to host"};

static void put_row(struct cushim_writer *out, const struct cushim_report *report,
                    enum cushim_copy_path path, int back) {
    uint64_t n_bytes = read_of(report, path, back, 'b'), ns = read_of(report, path, back, 't');
    char count[CUSHIM_AMOUNT_BYTES], bytes[CUSHIM_AMOUNT_BYTES], took[CUSHIM_AMOUNT_BYTES];
    cushim_write(out, "  %-10s %13s %11s %9s %9s", directions[back], paths[path],
                 cushim_text_count(count, read_of(report, path, back, 'n')),
                 cushim_text_bytes(bytes, n_bytes), cushim_text_time(took, ns));
    if (ns)
        cushim_write(out, " %8.1f", (double)n_bytes / (double)ns);
    cushim_write(out, "\n");
}

static void put_reasons(struct cushim_writer *out, const struct cushim_report *report) {
    static const char *const texts[] = {
#define REASON(name, word, text) text,
        CUSHIM_COPY_REASONS(REASON)
#undef REASON
    };
    char count[CUSHIM_AMOUNT_BYTES];
    for (int i = 0; i < CUSHIM_N_COPY_REASONS; i++) {
        uint64_t n = cushim_mem_stats_read(&report->page.copies.n_left[i]);
        if (n)
            cushim_write(out, "  not staged %13s  %s\n", cushim_text_count(count, n), texts[i]);
    }
}

uint64_t cushim_large_copies_unstaged_ns(const struct cushim_report *report) {
    uint64_t n =
        read_of(report, CUSHIM_COPY_STAGED, 0, 'n') + read_of(report, CUSHIM_COPY_STAGED, 1, 'n');
    for (int i = 0; i < CUSHIM_N_COPY_REASONS; i++)
        n += cushim_mem_stats_read(&report->page.copies.n_left[i]);
    return n ? 0
             : read_of(report, CUSHIM_COPY_BY_DRIVER, 0, 't') +
                   read_of(report, CUSHIM_COPY_BY_DRIVER, 1, 't');
}

void cushim_large_copies_text(struct cushim_writer *out, const struct cushim_report *report) {
    bool has_head = false;
    for (int back = 0; back < 2; back++) {
        for (int path = 0; path < CUSHIM_N_COPY_PATHS; path++) {
            if (!read_of(report, (enum cushim_copy_path)path, back, 'n'))
                continue;
            if (!has_head)
                cushim_write(out, "\n%-12s %13s %11s %9s %9s %8s\n", "pageable", "large ones",
                             "copies", "bytes", "time", "GB/s");
            has_head = true;
            put_row(out, report, (enum cushim_copy_path)path, back);
        }
    }
    put_reasons(out, report);
}

static void put_path(struct cushim_writer *out, const struct cushim_report *report,
                     enum cushim_copy_path path) {
    static const char *const names[] = {"host_to_device", "device_to_host"};
    for (int back = 0; back < 2; back++)
        cushim_write(
            out, "%s\"%s\": {\"count\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"ns\": %" PRIu64 "}",
            back ? ", " : "", names[back], read_of(report, path, back, 'n'),
            read_of(report, path, back, 'b'), read_of(report, path, back, 't'));
}

void cushim_large_copies_json(struct cushim_writer *out, const struct cushim_report *report) {
    static const char *const words[] = {
#define REASON(name, word, text) #word,
        CUSHIM_COPY_REASONS(REASON)
#undef REASON
    };
    cushim_write(out, "  \"large_copies\": {");
    put_path(out, report, CUSHIM_COPY_BY_DRIVER);
    cushim_write(out, "},\n  \"staged\": {");
    put_path(out, report, CUSHIM_COPY_STAGED);
    cushim_write(out, ", \"left\": {");
    for (int i = 0; i < CUSHIM_N_COPY_REASONS; i++)
        cushim_write(out, "%s\"%s\": %" PRIu64, i ? ", " : "", words[i],
                     cushim_mem_stats_read(&report->page.copies.n_left[i]));
    cushim_write(out, "}},\n");
}
