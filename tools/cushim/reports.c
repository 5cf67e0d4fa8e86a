#include "tools/cushim/reports.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/path.h"
#include "base/utf8.h"
#include "report/page_file.h"
#include "tools/cushim/json.h"
#include "tools/cushim/pages.h"
#include "tools/cushim/usage.h"

/* ---- a report of JSON: what is missing is 0 ---- */

static void take_text(char to[CUSHIM_NAME_BYTES], struct json_object *of, const char *name) {
    const char *text = json_text(of, name);
    snprintf(to, CUSHIM_NAME_BYTES, "%s", text ? text : "");
    cushim_utf8_clean(to);
}

static void take_kind(struct cushim_mem_stats *stats, struct json_object *kind) {
#define COUNTER(name, field, type, unit, sentence)                                                 \
    atomic_store(&stats->field, json_number(kind, #name));
#include "report/report.def"
#undef COUNTER
    atomic_store(&stats->free_segment_bytes, json_number(kind, "idle_bytes"));
}

static void take_device(struct cushim_report *report, struct json_object *device) {
    uint64_t i = json_number(device, "device");
    struct json_object *kinds = json_member(device, "kinds");
    if (i >= CUSHIM_MAX_DEVICES)
        return;
    for (int kind = 0; kind < CUSHIM_N_KINDS; kind++)
        take_kind(&report->page.stats[i][kind],
                  json_member(kinds, cushim_report_kind((enum cushim_kind)kind)));
    if (!json_member(kinds, cushim_report_kind(CUSHIM_KIND_MAPPED))) /* of an older cushim */
        take_kind(&report->page.stats[i][CUSHIM_KIND_MAPPED], json_member(device, "virtual"));
}

/* Take the findings.  The JSON has them for all devices and kinds together, so device 0 gets
 * them. */
static void take_findings(struct cushim_page *page, struct json_object *findings) {
    struct cushim_mem_stats *stats = &page->stats[0][CUSHIM_KIND_DEVICE];
#define TAKE(name, field, one, many) atomic_store(&stats->field, json_number(findings, #name));
    CUSHIM_REPORT_FINDINGS(TAKE)
#undef TAKE
    atomic_store(&page->n_foreign_frees, json_number(findings, "foreign_frees"));
}

static void take_report(struct cushim_report *report, struct json_object *json,
                        char ended[CUSHIM_NAME_BYTES]) {
    struct cushim_page_head *head = &report->page.head;
    struct json_object *devices = json_list(json, "devices");
    const char *source = json_text(json, "source"), *run = json_text(json, "run");
    memset(report, 0, sizeof *report);
    head->process = (int64_t)json_number(json, "pid");
    head->rank = json_member(json, "rank") ? (int64_t)json_number(json, "rank") : -1;
    head->ranks = json_member(json, "ranks") ? (int64_t)json_number(json, "ranks") : -1;
    head->run = run ? strtoull(run, NULL, 16) : 0;
    atomic_store(&head->is_software, json_object_get_boolean(json_member(json, "is_software")));
    take_text(head->program, json, "program");
    report->run_ns = json_number(json, "run_ns");
    report->is_of_page = source && strcmp(source, "live page") == 0;
    take_text(ended, json, "ended");
    report->ended = *ended ? ended : NULL;
    for (size_t i = 0; i < json_length(devices); i++)
        take_device(report, json_object_array_get_idx(devices, i));
    take_findings(&report->page, json_member(json, "findings"));
    atomic_store(&report->page.n_bypassed, json_number(json, "bypassed"));
}

/* ---- files ---- */

enum { MOST_BYTES = 256 << 20 };

static void show_json(struct json_object *json, const char *name, reports_show_fn *show,
                      void *context) {
    static struct cushim_report report;
    char ended[CUSHIM_NAME_BYTES];
    struct report_origin origin = {name, json, false};
    take_report(&report, json, ended);
    show(&report, &origin, context);
}

/* Show one report, or several.  Returns false if the JSON is no report. */
static bool show_all(struct json_object *json, const char *name, reports_show_fn *show,
                     void *context) {
    struct json_object *each = json_list(json, "reports");
    if (json_is_of(json, CUSHIM_REPORT_SCHEMA)) {
        show_json(json, name, show, context);
        return true;
    }
    if (!each || !json_is_of(json, REPORTS_SCHEMA))
        return false;
    for (size_t i = 0; i < json_length(each); i++) {
        struct json_object *one = json_object_array_get_idx(each, i);
        if (json_is_of(one, CUSHIM_REPORT_SCHEMA))
            show_json(one, name, show, context);
    }
    return true;
}

static bool show_file(const char *path, reports_show_fn *show, void *context) {
    struct json_object *json = json_read(path, MOST_BYTES);
    bool is_report = json && show_all(json, path, show, context);
    if (!json && errno)
        complain("%s: %s", path, strerror(errno));
    else if (!is_report)
        complain("%s is not a report of cushim", path);
    json_object_put(json);
    return is_report;
}

static int is_json(const struct dirent *entry) {
    return *entry->d_name != '.' && cushim_path_ends_in(entry->d_name, ".json");
}

bool reports_of_folder(const char *folder, reports_show_fn *show, void *context) {
    struct dirent **entries;
    bool is_whole = true;
    int n = scandir(folder, &entries, is_json, versionsort);
    if (n < 0)
        return complain("%s: %s", folder, strerror(errno));
    for (int i = 0; i < n; i++) {
        char path[PATH_MAX];
        bool fits = snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name) < PATH_MAX;
        struct json_object *json = fits ? json_read(path, MOST_BYTES) : NULL;
        if (json)
            show_all(json, path, show, context);
        else
            is_whole = complain("%s/%s cannot be read and is skipped", folder, entries[i]->d_name);
        json_object_put(json);
        free(entries[i]);
    }
    free(entries);
    return is_whole;
}

/* ---- live pages ---- */

struct wanted {
    const char *process;
    reports_show_fn *show;
    void *context;
    bool is_found;
};

static void show_page(const struct page *page, void *context) {
    struct wanted *wanted = context;
    char process[24];
    struct report_origin origin = {process, NULL, false};
    snprintf(process, sizeof process, "%ld", (long)page->report->page.head.process);
    if (strcmp(process, wanted->process) != 0)
        return;
    if (!page->is_alive)
        page->report->ended = "it ended";
    wanted->is_found = true;
    wanted->show(page->report, &origin, wanted->context);
}

bool reports_of(const char *what, reports_show_fn *show, void *context) {
    struct wanted wanted = {what, show, context, false};
    struct stat status;
    bool is_number = *what && strspn(what, "0123456789") == strlen(what);
    if (is_number && stat(what, &status) != 0) {
        pages_each(show_page, &wanted);
        return wanted.is_found || pages_complain_of_none(what);
    }
    if (stat(what, &status) == 0 && S_ISDIR(status.st_mode))
        return reports_of_folder(what, show, context);
    return show_file(what, show, context);
}
