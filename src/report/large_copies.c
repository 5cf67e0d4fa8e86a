#include "report/large_copies.h"

#include "report/json.h"

struct large {
    uint64_t n_copies, n_bytes, ns;
};

static struct large large_of(const struct cushim_report *report, int path, int back) {
    return (struct large){
        cushim_mem_stats_read(&report->page.copies.large[path][back].n_copies),
        cushim_mem_stats_read(&report->page.copies.large[path][back].n_bytes),
        cushim_mem_stats_read(&report->page.copies.large[path][back].ns),
    };
}

static const char *const paths[CUSHIM_N_COPY_PATHS] = {"by the driver", "staged"};
static const char *const directions[] = {"to device", "to host"};

static void put_row(struct cushim_writer *out, const struct large *large, int path, int back) {
    cushim_write(out, "  %-10s %13s %11s %9s %9s", directions[back], paths[path],
                 CUSHIM_COUNT(large->n_copies), CUSHIM_BYTES(large->n_bytes),
                 CUSHIM_TIME(large->ns));
    if (large->ns)
        cushim_write(out, " %8.1f", (double)large->n_bytes / (double)large->ns);
    cushim_write(out, "\n");
}

static void put_reasons(struct cushim_writer *out, const struct cushim_report *report) {
    static const char *const texts[] = {
#define REASON(name, word, text) text,
        CUSHIM_COPY_REASONS(REASON)
#undef REASON
    };
    for (int i = 0; i < CUSHIM_N_COPY_REASONS; i++) {
        uint64_t n = cushim_mem_stats_read(&report->page.copies.n_left[i]);
        if (n)
            cushim_write(out, "  not staged %13s  %s\n", CUSHIM_COUNT(n), texts[i]);
    }
}

uint64_t cushim_large_copies_unstaged_ns(const struct cushim_report *report) {
    uint64_t n_tried = 0, ns = 0;
    for (int back = 0; back < 2; back++) {
        n_tried += large_of(report, CUSHIM_COPY_STAGED, back).n_copies;
        ns += large_of(report, CUSHIM_COPY_BY_DRIVER, back).ns;
    }
    for (int i = 0; i < CUSHIM_N_COPY_REASONS; i++)
        n_tried += cushim_mem_stats_read(&report->page.copies.n_left[i]);
    return n_tried ? 0 : ns;
}

void cushim_large_copies_text(struct cushim_writer *out, const struct cushim_report *report) {
    bool has_head = false, is_software = cushim_mem_stats_read(&report->page.head.is_software);
    for (int back = 0; back < 2; back++) {
        for (int path = 0; path < CUSHIM_N_COPY_PATHS; path++) {
            struct large large = large_of(report, path, back);
            if (!large.n_copies)
                continue;
            if (!has_head)
                cushim_write(out, "\n%-12s %13s %11s %9s %9s %8s%s\n", "pageable", "large ones",
                             "copies", "bytes", "time", "GB/s", is_software ? " (no GPU)" : "");
            has_head = true;
            put_row(out, &large, path, back);
        }
    }
    put_reasons(out, report);
}

static void put_path(struct cushim_writer *out, const struct cushim_report *report, int path) {
    static const char *const names[] = {"host_to_device", "device_to_host"};
    for (int back = 0; back < 2; back++) {
        struct large large = large_of(report, path, back);
        cushim_json_begin(out, names[back], "{");
        cushim_json_numbers(out, "count bytes ns",
                            (const uint64_t[]){large.n_copies, large.n_bytes, large.ns});
        cushim_write(out, "}");
    }
}

void cushim_large_copies_json(struct cushim_writer *out, const struct cushim_report *report) {
    static const char *const words[] = {
#define REASON(name, word, text) #word,
        CUSHIM_COPY_REASONS(REASON)
#undef REASON
    };
    cushim_json_begin(out, "\n  large_copies", "{");
    put_path(out, report, CUSHIM_COPY_BY_DRIVER);
    cushim_write(out, "}");
    cushim_json_begin(out, "\n  staged", "{");
    put_path(out, report, CUSHIM_COPY_STAGED);
    cushim_json_begin(out, "left", "{");
    for (int i = 0; i < CUSHIM_N_COPY_REASONS; i++)
        cushim_json_number(out, words[i], cushim_mem_stats_read(&report->page.copies.n_left[i]));
    cushim_write(out, "}}");
}
