#include "tools/cushim/commands.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/utf8.h"
#include "base/writer.h"
#include "report/json.h"
#include "tools/cushim/arguments.h"
#include "tools/cushim/recording/recording.h"
#include "tools/cushim/replay/plan.h"
#include "tools/cushim/usage.h"

enum { MOST_SETTINGS = 16 };

struct request {
    const char *path;
    bool is_json, wants_limit;
    struct setting settings[MOST_SETTINGS];
    size_t n_settings;
};

/* ---- arguments ---- */

static void take_settings(void *context, const char *list) {
    struct request *request = context;
    request->n_settings = 0;
    for (;;) {
        size_t n = strcspn(list, ",");
        if (request->n_settings == MOST_SETTINGS)
            usage_error("replay", "--with takes %d settings", MOST_SETTINGS);
        setting_read(&request->settings[request->n_settings++], list, n);
        if (!list[n])
            return;
        list += n + 1;
    }
}

static void take_arguments(struct request *request, int argc, char **argv) {
    bool is_plan; /* what it always does; some write it */
    const struct argument rows[] = {{"--plan", .flag = &is_plan},
                                    {"--with", .take = take_settings},
                                    {"--json", .flag = &request->is_json},
                                    {"--least-limit", .flag = &request->wants_limit},
                                    {0}};
    take_settings(request, "native,exact,relaxed");
    arguments_words("replay", rows, request, 1, 1, "one recording", argc, argv);
    request->path = *argv;
}

/* ---- output ---- */

struct row {
    const char *name;
    bool has_held;
    struct plan plan;
    uint64_t limit_bytes; /* 0 if not asked for */
};

static void put_row(struct cushim_writer *out, const struct row *row,
                    const struct plan_sums *sums) {
    char ratio[24] = "-";
    const uint64_t live = sums->peak_live_bytes, held = sums->peak_held_bytes;
    if (row->has_held && live)
        snprintf(ratio, sizeof ratio, "%" PRIu64 ".%02" PRIu64, held / live,
                 (uint64_t)((__uint128_t)(held % live) * 100 / live));
    if (strlen(ratio) > 9) /* only a made-up recording has such a ratio */
        snprintf(ratio, sizeof ratio, "%.2e", (double)held / (double)live);
    cushim_write(out, "  %-24.24s %13s %10s %10s %9s %7s\n", row->name, CUSHIM_COUNT(sums->n_calls),
                 CUSHIM_BYTES(live), row->has_held ? CUSHIM_BYTES(held) : "-", ratio,
                 CUSHIM_COUNT(sums->n_refused));
}

static const char *scope_name(int scope, char text[32]) {
    return recording_scope_name(
        &(struct recording_scope){
            .device = scope < CUSHIM_TRACE_DEVICES ? scope : CUSHIM_TRACE_DEVICES - 1 - scope},
        text);
}

static void put_text(struct cushim_writer *out, const struct cushim_trace_head *head,
                     const struct row *rows, size_t n_rows) {
    char name[32], program[sizeof((struct cushim_trace_head *)0)->program + 1] = "";
    memcpy(program, head->program, sizeof head->program);
    cushim_utf8_clean(program);
    cushim_write(out, "%s   process %" PRIu64 ", planned without a device: no free waits\n",
                 cushim_utf8_fit(program, 20), head->process);
    for (int scope = 0; scope < PLAN_SCOPES; scope++) {
        uint64_t n = rows->plan.sums[scope].n_requests;
        if (!n)
            continue;
        cushim_write(out, "\n%s, %s\n", scope_name(scope, name), CUSHIM_SOME(n, "request"));
        cushim_write(out, "  %-24s %13s %10s %10s %9s %7s\n", "with", "driver calls", "peak live",
                     "peak held", "held/live", "refused");
        for (size_t i = 0; i < n_rows; i++)
            put_row(out, &rows[i], &rows[i].plan.sums[scope]);
    }
    const char *break_before = "\n";
    for (size_t i = 0; i < n_rows; i++) {
        if (!rows[i].limit_bytes)
            continue;
        cushim_write(out, "%sleast limit that serves as much with %.24s: %s\n", break_before,
                     rows[i].name, CUSHIM_BYTES(rows[i].limit_bytes));
        break_before = "";
    }
}

static void put_json_scope(struct cushim_writer *out, const struct row *row, int scope) {
    const struct plan_sums *sums = &row->plan.sums[scope];
    char name[32];
    cushim_json_begin(out, "\n    ", "{");
    cushim_json_text(out, "memory", scope_name(scope, name));
    cushim_json_numbers(out, "requests driver_calls peak_live_bytes refused",
                        (const uint64_t[]){sums->n_requests, sums->n_calls, sums->peak_live_bytes,
                                           sums->n_refused});
    if (row->has_held)
        cushim_json_number(out, "peak_held_bytes", sums->peak_held_bytes);
    cushim_write(out, "}");
}

static void put_json(struct cushim_writer *out, const struct cushim_trace_head *head,
                     const struct row *rows, size_t n_rows) {
    cushim_json_begin(out, NULL, "{");
    cushim_json_text(out, "schema", "cushim-plan/1");
    cushim_json_text(out, "program", head->program);
    cushim_json_number(out, "pid", head->process);
    cushim_json_begin(out, "settings", "[");
    for (size_t i = 0; i < n_rows; i++) {
        cushim_json_begin(out, "\n  ", "{");
        cushim_json_text(out, "with", rows[i].name);
        if (rows[i].limit_bytes)
            cushim_json_number(out, "least_limit_bytes", rows[i].limit_bytes);
        cushim_json_begin(out, "memory", "[");
        for (int scope = 0; scope < PLAN_SCOPES; scope++) {
            if (rows[i].plan.sums[scope].n_requests)
                put_json_scope(out, &rows[i], scope);
        }
        cushim_write(out, "]}");
    }
    cushim_write(out, "]}");
}

/* Plan one recording with each setting.  Returns 0 or an errno. */
static int plan_all(const struct request *request, const char *path, struct cushim_writer *out) {
    static struct row rows[MOST_SETTINGS + 1]; /* too large for a stack */
    struct cushim_trace_reader reader;
    memset(rows, 0, sizeof rows);
    rows[0] = (struct row){.name = "as recorded", .has_held = true};
    int error = cushim_trace_reader_open(&reader, path);
    if (error)
        return error;
    error = plan_recorded(&rows[0].plan, path);
    for (size_t i = 0; i < request->n_settings && !error; i++) {
        const struct setting *setting = &request->settings[i];
        struct row *row = &rows[i + 1];
        row->name = setting->name;
        row->has_held = !setting->is_native;
        error = plan_make(&row->plan, path, setting);
        if (!error && request->wants_limit && row->has_held)
            error = plan_least_limit(&row->limit_bytes, path, setting);
    }
    if (!error)
        (request->is_json ? put_json : put_text)(out, &reader.head, rows, request->n_settings + 1);
    cushim_trace_reader_close(&reader);
    return error;
}

/* Returns an exit code. */
static int plan_path(const struct request *request) {
    struct cushim_writer out = {.fd = STDOUT_FILENO};
    struct recording_files files;
    int code = EXIT_WELL, error = recording_files(&files, request->path);
    if (error || !files.n)
        return complain_as(EXIT_WRONG, "%s: %s", request->path,
                           recording_error(error ? error : ENOEXEC));
    cushim_write(&out, "%s", request->is_json ? "[" : "");
    for (size_t i = 0, n = 0; i < files.n; i++) {
        if (n)
            cushim_write(&out, "%s", request->is_json ? "," : "\n");
        error = plan_all(request, files.paths[i], &out);
        n += !error;
        if (error)
            code = complain_as(EXIT_WRONG, "%s: %s", files.paths[i], recording_error(error));
    }
    cushim_write(&out, "%s", request->is_json ? "]\n" : "");
    cushim_writer_flush(&out);
    recording_files_free(&files);
    return out.error ? usage_unwritten(NULL, out.error) : code;
}

int replay_main(int argc, char **argv) {
    static struct request request; /* static, because options are large */
    take_arguments(&request, argc, argv);
    return plan_path(&request);
}
