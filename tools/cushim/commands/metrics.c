#include "tools/cushim/commands.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/draft.h"
#include "base/list.h"
#include "tools/cushim/arguments.h"
#include "tools/cushim/devices.h"
#include "tools/cushim/pages.h"
#include "tools/cushim/suspended.h"
#include "tools/cushim/usage.h"

/* ---- the samples: all are read first, because those of a name must be together ---- */

enum { LABELS_BYTES = 1024 };

/* A process, or a device and a kind of memory of it. */
struct row {
    char labels[LABELS_BYTES];
    bool is_process;
    struct cushim_mem_stats stats;
    struct cushim_report_held held;
    uint64_t n_foreign_frees, n_shortages, n_findings, suspended_bytes, unaccounted_bytes;
    uint64_t limit_bytes; /* of device memory; 0: none */
    uint64_t n_copied_bytes[CUSHIM_N_DIRECTIONS][CUSHIM_N_HOST_MEMORIES];
};

struct rows {
    struct row *rows;
    size_t n;
};

/* Add a label; special characters of its value are escaped. */
static void add_label(char labels[LABELS_BYTES], const char *name, const char *value) {
    size_t n = strlen(labels);
    n += (size_t)snprintf(labels + n, LABELS_BYTES - n, "%s%s=\"", n ? "," : "", name);
    for (; *value && n < LABELS_BYTES - 3; value++) {
        if (*value == '\n' || *value == '"' || *value == '\\')
            labels[n++] = '\\';
        labels[n++] = *value == '\n' ? 'n' : *value;
    }
    labels[n++] = '"';
    labels[n] = 0;
}

static void add_number(char labels[LABELS_BYTES], const char *name, int64_t number) {
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, number);
    add_label(labels, name, text);
}

/* Add a row for a kind of memory, or for the process if kind is -1.  Returns NULL if there is no
 * memory. */
static struct row *add(struct rows *rows, const struct page *page, int device, int kind) {
    const struct cushim_page_head *head = &page->report->page.head;
    char uuid[CUSHIM_REPORT_UUID_BYTES] = "";
    struct row *row;
    LIST_ADD(rows->rows, rows->n, row);
    if (!row)
        return NULL;
    memset(row, 0, sizeof *row);
    row->is_process = kind < 0;
    add_number(row->labels, "pid", head->process);
    add_label(row->labels, "program", head->program);
    add_label(row->labels, "host", head->host);
    add_number(row->labels, "namespace", (int64_t)head->namespace);
    add_label(row->labels, "user", pages_user(page->user));
    if (head->rank >= 0)
        add_number(row->labels, "rank", head->rank);
    if (kind >= 0) {
        add_number(row->labels, "device", device);
        add_label(row->labels, "kind", cushim_report_kind((enum cushim_kind)kind));
        cushim_report_uuid(uuid, page->report->page.device_uuids[device]);
    }
    if (*uuid)
        add_label(row->labels, "uuid", uuid);
    if (cushim_mem_stats_read(&head->is_software))
        add_label(row->labels, "software", "1");
    return row;
}

/* Is the last row new?  Each series must occur once, even if somebody makes up a second page of
 * a process. */
static bool is_new(const struct rows *rows) {
    for (size_t i = 0; i + 1 < rows->n; i++) {
        if (strcmp(rows->rows[i].labels, rows->rows[rows->n - 1].labels) == 0)
            return false;
    }
    return true;
}

static void take(const struct page *page, void *context) {
    struct rows *rows = context;
    const struct cushim_page *counters = &page->report->page;
    struct row *row = page->is_alive ? add(rows, page, 0, -1) : NULL;
    if (!row)
        return;
    if (!is_new(rows)) {
        rows->n--;
        return;
    }
    row->n_foreign_frees = cushim_mem_stats_read(&counters->n_foreign_frees);
    row->n_shortages = cushim_mem_stats_read(&counters->n_shortages);
    row->n_findings = cushim_mem_stats_read(&counters->n_findings);
    suspended_note(page->report);
    row->suspended_bytes = page->report->suspended_bytes;
    row->unaccounted_bytes = devices_unaccounted_bytes(page->report, -1);
    for (int direction = 0; direction < CUSHIM_N_DIRECTIONS; direction++) {
        for (int memory = 0; memory < CUSHIM_N_HOST_MEMORIES; memory++)
            row->n_copied_bytes[direction][memory] =
                cushim_mem_stats_read(&counters->copies.n_bytes[direction][memory]);
    }
    for (int device = 0; device < CUSHIM_MAX_DEVICES; device++) {
        for (int kind = 0; kind < CUSHIM_N_KINDS; kind++) {
            if (!cushim_report_has(page->report, device, (enum cushim_kind)kind) ||
                !(row = add(rows, page, device, kind)))
                continue;
            cushim_mem_stats_copy(&row->stats, &counters->stats[device][kind]);
            row->held = cushim_report_held(&row->stats);
            row->limit_bytes = cushim_mem_stats_read(&counters->head.limit_bytes[device]);
        }
    }
}

/* ---- the text ---- */

enum type { SUM, GAUGE, PEAK };
enum unit { COUNT, BYTES, NS };

static void put_head(struct cushim_writer *out, const char *name, enum type type,
                     const char *sentence) {
    cushim_write(out, "# HELP %s %s\n# TYPE %s %s\n", name, sentence, name,
                 type == SUM ? "counter" : "gauge");
}

static void put_sample(struct cushim_writer *out, const char *name, const char *labels,
                       enum unit unit, uint64_t n) {
    cushim_write(out, "%s{%s} ", name, labels);
    if (unit == NS)
        cushim_write(out, "%" PRIu64 ".%09" PRIu64 "\n", n / 1000000000, n % 1000000000);
    else
        cushim_write(out, "%" PRIu64 "\n", n);
}

/* Write one number of each process, or of each kind of memory; it is `offset` bytes into the
 * row.  The sum "wait_ns" becomes cushim_wait_seconds_total. */
static void put_family(struct cushim_writer *out, const struct rows *rows, const char *member,
                       enum type type, enum unit unit, const char *sentence, size_t offset,
                       bool is_of_process) {
    char name[96];
    int n_kept = (int)strlen(member) - (unit == NS ? (int)strlen("_ns") : 0);
    snprintf(name, sizeof name, "cushim_%.*s%s%s", n_kept, member, unit == NS ? "_seconds" : "",
             type == SUM ? "_total" : "");
    put_head(out, name, type, sentence);
    for (size_t i = 0; i < rows->n; i++) {
        const struct row *row = &rows->rows[i];
        uint64_t n;
        memcpy(&n, (const char *)row + offset, sizeof n);
        if (row->is_process == is_of_process)
            put_sample(out, name, row->labels, unit, n);
    }
}

static void put_copies(struct cushim_writer *out, const struct rows *rows) {
    static const char *const memories[CUSHIM_N_HOST_MEMORIES] = {"none", "pageable", "pinned"};
    put_head(out, "cushim_copy_bytes_total", SUM, "bytes that copies and sets moved");
    for (size_t i = 0; i < rows->n; i++) {
        for (int k = 0; k < CUSHIM_N_DIRECTIONS * CUSHIM_N_HOST_MEMORIES; k++) {
            const int direction = k / CUSHIM_N_HOST_MEMORIES, memory = k % CUSHIM_N_HOST_MEMORIES;
            const uint64_t n = rows->rows[i].n_copied_bytes[direction][memory];
            char labels[LABELS_BYTES];
            if (!n)
                continue;
            strcpy(labels, rows->rows[i].labels);
            add_label(labels, "direction",
                      cushim_report_direction((enum cushim_direction)direction));
            add_label(labels, "host", memories[memory]);
            put_sample(out, "cushim_copy_bytes_total", labels, BYTES, n);
        }
    }
}

static void put_all(struct cushim_writer *out, const struct rows *rows) {
    put_head(out, "cushim_up", GAUGE, "1: the process runs, and has a live page");
    for (size_t i = 0; i < rows->n; i++) {
        if (rows->rows[i].is_process)
            put_sample(out, "cushim_up", rows->rows[i].labels, COUNT, 1);
    }
#define COUNTER(name, field, type, unit, sentence)                                                 \
    put_family(out, rows, #name, type, unit, sentence, offsetof(struct row, stats.field), false);
#include "report/report.def"
#undef COUNTER
#define PART(name, type, unit, sentence, field, is_of_process)                                     \
    put_family(out, rows, #name, type, unit, sentence, offsetof(struct row, field), is_of_process)
    PART(rounding_bytes, GAUGE, BYTES, "what live blocks are larger than was asked",
         held.rounding_bytes, false);
    PART(spare_bytes, GAUGE, BYTES, "free bytes in segments that also have live blocks",
         held.spare_bytes, false);
    PART(idle_bytes, GAUGE, BYTES, "bytes of segments without a live block", held.idle_bytes,
         false);
    PART(foreign_frees, SUM, COUNT, "frees of memory that was not seen being allocated",
         n_foreign_frees, true);
    PART(shortages, SUM, COUNT, "requests that found no memory, with a record", n_shortages, true);
    PART(limit_bytes, GAUGE, BYTES, "what the process may have of the device; 0: all of it",
         limit_bytes, false);
    PART(suspended_bytes, GAUGE, BYTES, "what a suspended process has in host memory",
         suspended_bytes, true);
    PART(unaccounted_bytes, GAUGE, BYTES,
         "what NVML counts for the process beyond its held bytes: of the driver, in no row",
         unaccounted_bytes, true);
    PART(findings, SUM, COUNT, "refused calls, and what the check found", n_findings, true);
#undef PART
    put_copies(out, rows);
    cushim_writer_flush(out);
}

/* ---- the command ---- */

struct request {
    const char *file;       /* NULL for standard output */
    unsigned every_seconds; /* 0 for one look */
};

/* All may read the file, because the collector runs as another user. */
static int write_file(const char *path, const struct rows *rows) {
    struct cushim_draft draft;
    int error = cushim_draft_begin(&draft, path);
    if (error)
        return error;
    struct cushim_writer out = {.fd = draft.fd};
    fchmod(draft.fd, 0644);
    put_all(&out, rows);
    return cushim_draft_end(&draft, out.error);
}

static int look(const struct request *request) {
    struct cushim_writer out = {.fd = STDOUT_FILENO};
    struct rows rows = {NULL, 0};
    devices_ask_again();
    pages_each(take, &rows);
    int error = 0;
    if (request->file) {
        error = write_file(request->file, &rows);
    } else {
        put_all(&out, &rows);
        error = out.error;
    }
    free(rows.rows);
    return error ? usage_unwritten(request->file, error) : EXIT_WELL;
}

static void take_arguments(struct request *request, int argc, char **argv) {
    enum { MOST_SECONDS = 24 * 60 * 60 };
    bool has_users = false;
    const struct argument rows[] = {
        {"--file", .text = &request->file},
        {"--every", .number = &request->every_seconds, .least = 1, .most = MOST_SECONDS},
        {"--all-users", .flag = &has_users},
        {0}};
    arguments_words("metrics", rows, NULL, 0, 0, NULL, argc, argv);
    if (has_users)
        pages_of_all_users();
}

int metrics_main(int argc, char **argv) {
    struct request request = {NULL, 0};
    int code;
    take_arguments(&request, argc, argv);
    do
        code = look(&request);
    while (code == EXIT_WELL && request.every_seconds && sleep(request.every_seconds) == 0);
    return code;
}
