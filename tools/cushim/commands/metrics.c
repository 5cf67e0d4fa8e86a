#include "tools/cushim/commands.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/draft.h"
#include "tools/cushim/arguments.h"
#include "tools/cushim/pages.h"
#include "tools/cushim/usage.h"

/* ---- the samples: all are read first, because those of a name must be together ---- */

/* A device and a kind of memory of a process; if kind is -1, the process itself. */
struct row {
    int64_t process, rank;
    uint64_t namespace; /* of the process number */
    uid_t user;
    char program[CUSHIM_NAME_BYTES], host[CUSHIM_NAME_BYTES];
    char uuid[CUSHIM_REPORT_UUID_BYTES]; /* of the device; "": not known */
    int device, kind;
    bool is_software;
    struct cushim_mem_stats stats;
    struct cushim_report_held held;
    uint64_t n_foreign_frees, n_shortages, n_findings;
    uint64_t n_copied_bytes[CUSHIM_N_DIRECTIONS][CUSHIM_N_HOST_MEMORIES];
};

struct rows {
    struct row *rows;
    size_t n;
};

/* Each series must be there once, also if somebody makes up a second page of a process. */
static bool has(const struct rows *rows, const struct page *page) {
    const struct cushim_page_head *head = &page->report->page.head;
    for (size_t i = 0; i < rows->n; i++) {
        const struct row *row = &rows->rows[i];
        if (row->kind < 0 && row->process == head->process && row->namespace == head->namespace &&
            row->user == page->user && strcmp(row->host, head->host) == 0)
            return true;
    }
    return false;
}

static struct row *add(struct rows *rows, const struct page *page) {
    const struct cushim_report *report = page->report;
    struct row *grown = realloc(rows->rows, (rows->n + 1) * sizeof *grown);
    if (!grown)
        return NULL;
    rows->rows = grown;
    struct row *row = &grown[rows->n++];
    memset(row, 0, sizeof *row);
    row->process = report->page.head.process;
    row->rank = report->page.head.rank;
    row->namespace = report->page.head.namespace;
    row->user = page->user;
    row->kind = -1;
    snprintf(row->host, sizeof row->host, "%s", report->page.head.host);
    snprintf(row->program, sizeof row->program, "%s", report->page.head.program);
    row->is_software = cushim_mem_stats_read(&report->page.head.is_software);
    return row;
}

static void take_process(struct row *row, const struct cushim_report *report) {
    row->n_foreign_frees = cushim_mem_stats_read(&report->page.n_foreign_frees);
    row->n_shortages = cushim_mem_stats_read(&report->page.n_shortages);
    row->n_findings = cushim_mem_stats_read(&report->page.n_findings);
    for (int direction = 0; direction < CUSHIM_N_DIRECTIONS; direction++) {
        for (int memory = 0; memory < CUSHIM_N_HOST_MEMORIES; memory++)
            row->n_copied_bytes[direction][memory] =
                cushim_mem_stats_read(&report->page.copies.n_bytes[direction][memory]);
    }
}

static void take(const struct page *page, void *context) {
    struct rows *rows = context;
    const struct cushim_report *report = page->report;
    struct row *row = page->is_alive && !has(rows, page) ? add(rows, page) : NULL;
    if (!row)
        return;
    take_process(row, report);
    for (int device = 0; device < CUSHIM_MAX_DEVICES; device++) {
        for (int kind = 0; kind < CUSHIM_N_KINDS; kind++) {
            if (!cushim_report_has(report, device, (enum cushim_kind)kind) ||
                !(row = add(rows, page)))
                continue;
            row->device = device;
            cushim_report_uuid(row->uuid, report->page.device_uuids[device]);
            row->kind = kind;
            cushim_mem_stats_copy(&row->stats, &report->page.stats[device][kind]);
            row->held = cushim_report_held(&row->stats);
        }
    }
}

/* ---- the text ---- */

enum type { SUM, GAUGE, PEAK };
enum unit { COUNT, BYTES, NS };

/* A value of a label, with its special characters escaped. */
static void put_value(struct cushim_writer *out, const char *text) {
    for (; *text; text++) {
        if (*text == '\n')
            cushim_write(out, "\\n");
        else
            cushim_write(out, *text == '"' || *text == '\\' ? "\\%c" : "%c", *text);
    }
}

static void put_labels(struct cushim_writer *out, const struct row *row) {
    cushim_write(out, "{pid=\"%" PRId64 "\",program=\"", row->process);
    put_value(out, row->program);
    cushim_write(out, "\",host=\"");
    put_value(out, row->host);
    cushim_write(out, "\",namespace=\"%" PRIu64 "\",user=\"", row->namespace);
    put_value(out, pages_user(row->user));
    cushim_write(out, "\"");
    if (row->rank >= 0)
        cushim_write(out, ",rank=\"%" PRId64 "\"", row->rank);
    if (row->kind >= 0)
        cushim_write(out, ",device=\"%d\",kind=\"%s\"", row->device,
                     cushim_report_kind((enum cushim_kind)row->kind));
    if (*row->uuid)
        cushim_write(out, ",uuid=\"%s\"", row->uuid);
    if (row->is_software)
        cushim_write(out, ",software=\"1\"");
}

static void put_number(struct cushim_writer *out, enum unit unit, uint64_t n) {
    if (unit == NS)
        cushim_write(out, "} %" PRIu64 ".%09" PRIu64 "\n", n / 1000000000, n % 1000000000);
    else
        cushim_write(out, "} %" PRIu64 "\n", n);
}

/* "wait_ns" of a sum is cushim_wait_seconds_total. */
static void make_name(char name[96], const char *member, enum type type, enum unit unit) {
    int n = (int)strlen(member);
    if (unit == NS)
        n -= 3;
    snprintf(name, 96, "cushim_%.*s%s%s", n, member, unit == NS ? "_seconds" : "",
             type == SUM ? "_total" : "");
}

static void put_head(struct cushim_writer *out, const char *name, enum type type,
                     const char *sentence) {
    cushim_write(out, "# HELP %s %s\n# TYPE %s %s\n", name, sentence, name,
                 type == SUM ? "counter" : "gauge");
}

/* One number of each row of a kind; it is `offset` bytes into the row. */
static void put_family(struct cushim_writer *out, const struct rows *rows, const char *member,
                       enum type type, enum unit unit, const char *sentence, size_t offset,
                       bool is_of_process) {
    char name[96];
    make_name(name, member, type, unit);
    put_head(out, name, type, sentence);
    for (size_t i = 0; i < rows->n; i++) {
        uint64_t n;
        if ((rows->rows[i].kind < 0) != is_of_process)
            continue;
        memcpy(&n, (const char *)&rows->rows[i] + offset, sizeof n);
        cushim_write(out, "%s", name);
        put_labels(out, &rows->rows[i]);
        put_number(out, unit, n);
    }
}

static void put_copies(struct cushim_writer *out, const struct rows *rows) {
    static const char *const memories[CUSHIM_N_HOST_MEMORIES] = {"none", "pageable", "pinned"};
    put_head(out, "cushim_copy_bytes_total", SUM, "what copies and sets moved");
    for (size_t i = 0; i < rows->n; i++) {
        for (int direction = 0; rows->rows[i].kind < 0 && direction < CUSHIM_N_DIRECTIONS;
             direction++) {
            for (int memory = 0; memory < CUSHIM_N_HOST_MEMORIES; memory++) {
                uint64_t n = rows->rows[i].n_copied_bytes[direction][memory];
                if (!n)
                    continue;
                cushim_write(out, "cushim_copy_bytes_total");
                put_labels(out, &rows->rows[i]);
                cushim_write(out, ",direction=\"%s\",host=\"%s\"",
                             cushim_report_direction((enum cushim_direction)direction),
                             memories[memory]);
                put_number(out, BYTES, n);
            }
        }
    }
}

static void put_all(struct cushim_writer *out, const struct rows *rows) {
    put_head(out, "cushim_up", GAUGE, "1: the process runs, and has a live page");
    for (size_t i = 0; i < rows->n; i++) {
        if (rows->rows[i].kind >= 0)
            continue;
        cushim_write(out, "cushim_up");
        put_labels(out, &rows->rows[i]);
        put_number(out, COUNT, 1);
    }
#define COUNTER(name, field, type, unit, sentence)                                                 \
    put_family(out, rows, #name, type, unit, sentence, offsetof(struct row, stats.field), false);
#include "report/report.def"
#undef COUNTER
    put_family(out, rows, "rounding_bytes", GAUGE, BYTES,
               "what live blocks are larger than was asked",
               offsetof(struct row, held.rounding_bytes), false);
    put_family(out, rows, "spare_bytes", GAUGE, BYTES,
               "free bytes in segments that also have live blocks",
               offsetof(struct row, held.spare_bytes), false);
    put_family(out, rows, "idle_bytes", GAUGE, BYTES, "bytes of segments without a live block",
               offsetof(struct row, held.idle_bytes), false);
    put_family(out, rows, "foreign_frees", SUM, COUNT,
               "frees of memory that was not seen being allocated",
               offsetof(struct row, n_foreign_frees), true);
    put_family(out, rows, "shortages", SUM, COUNT, "requests that found no memory, with a record",
               offsetof(struct row, n_shortages), true);
    put_family(out, rows, "findings", SUM, COUNT, "refused calls, and what the check found",
               offsetof(struct row, n_findings), true);
    put_copies(out, rows);
    cushim_writer_flush(out);
}

/* ---- the command ---- */

struct request {
    const char *file;       /* NULL: standard output */
    unsigned every_seconds; /* 0: once */
};

/* Other users read the file, so it is readable by all. */
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
    pages_each(take, &rows);
    int error = 0;
    if (request->file) {
        error = write_file(request->file, &rows);
    } else {
        put_all(&out, &rows);
        error = out.error;
    }
    free(rows.rows);
    if (error)
        complain("%s cannot be written: %s", request->file ? request->file : "standard output",
                 strerror(error));
    return error ? EXIT_OURS : EXIT_WELL;
}

static int take_arguments(struct request *request, int argc, char **argv) {
    enum { MOST_SECONDS = 24 * 60 * 60 };
    const char *every = NULL;
    bool has_users = false;
    const struct argument rows[] = {{"--file", .text = &request->file},
                                    {"--every", .text = &every},
                                    {"--all-users", .flag = &has_users},
                                    {0}};
    const struct arguments arguments = {.topic = "metrics", .rows = rows};
    int n = arguments_read(&arguments, argc, argv);
    if (n < 0)
        return -n;
    if (n)
        return usage_error("metrics", "metrics shows all processes; %s is too much", *argv);
    if (every && !arguments_number(every, 1, MOST_SECONDS, &request->every_seconds))
        return usage_error("metrics", "--every=%s: not whole seconds, 1 to %d", every,
                           (int)MOST_SECONDS);
    if (has_users)
        pages_of_all_users();
    return EXIT_WELL;
}

int metrics_main(int argc, char **argv) {
    struct request request = {NULL, 0};
    int code = take_arguments(&request, argc, argv);
    if (code != EXIT_WELL)
        return code;
    do
        code = look(&request);
    while (code == EXIT_WELL && request.every_seconds && sleep(request.every_seconds) == 0);
    return code;
}
