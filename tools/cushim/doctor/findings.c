#include "tools/cushim/doctor/findings.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/utf8.h"
#include "base/writer.h"
#include "tools/cushim/json.h"
#include "tools/cushim/usage.h"

static const struct {
    const char *mark; /* for a person, two columns wide */
    const char *word; /* in JSON */
} states[] = {
    [REPORT_OK] = {"ok", "ok"}, [REPORT_NOTE] = {"--", "note"}, [REPORT_WRONG] = {"!!", "wrong"}};

static void *must(void *memory) {
    if (memory)
        return memory;
    complain("no memory");
    exit(EXIT_OURS);
}

static char *format_text(const char *format, va_list arguments) {
    char *text;
    return must(vasprintf(&text, format, arguments) < 0 ? NULL : text);
}

void report_init(struct report *report) {
    *report = (struct report){.heading = ""};
}

void report_finish(struct report *report) {
    for (size_t i = 0; i < report->n_rows; i++) {
        free(report->rows[i].heading);
        free(report->rows[i].name);
        free(report->rows[i].text);
        free(report->rows[i].remedy);
    }
    free(report->rows);
}

void report_add(struct report *report, enum report_state state, const char *name,
                const char *format, ...) {
    report->rows = must(realloc(report->rows, (report->n_rows + 1) * sizeof *report->rows));
    struct report_row *row = &report->rows[report->n_rows++];
    va_list arguments;
    va_start(arguments, format);
    *row = (struct report_row){
        .state = state,
        .heading = must(strdup(report->heading)),
        .name = must(strdup(name)),
        .text = format_text(format, arguments),
    };
    va_end(arguments);
}

void report_remedy(struct report *report, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    report->rows[report->n_rows - 1].remedy = format_text(format, arguments);
    va_end(arguments);
}

size_t report_n_wrong(const struct report *report) {
    size_t n = 0;
    for (size_t i = 0; i < report->n_rows; i++)
        n += report->rows[i].state == REPORT_WRONG;
    return n;
}

/* In lines of 80 columns, from `lead` columns on.  A longer word is not cut, because users may copy
 * it. */
static void print_words(FILE *out, size_t lead, char *text) {
    enum { COLUMNS = 80 };
    size_t at = lead;
    char *rest = NULL;
    cushim_utf8_clean(text);
    for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        const size_t n = cushim_utf8_columns(word);
        if (at > lead && at + 1 + n > COLUMNS) {
            fprintf(out, "\n%*s", (int)lead, "");
            at = lead;
        }
        fprintf(out, "%s%s", at > lead ? " " : "", word);
        at += n + (at > lead);
    }
    fputc('\n', out);
}

void report_print(const struct report *report, FILE *out) {
    int width = 0;
    for (size_t i = 0; i < report->n_rows; i++) {
        int length = (int)strlen(report->rows[i].name);
        width = length > width ? length : width;
    }
    const char *heading = "", *name = "";
    for (size_t i = 0; i < report->n_rows; i++) {
        const struct report_row *row = &report->rows[i];
        if (strcmp(heading, row->heading) != 0) {
            fprintf(out, "%s%s\n", i ? "\n" : "", row->heading);
            name = "";
        }
        heading = row->heading;
        /* A name that repeats is printed once, above its texts. */
        fprintf(out, "  %s  %-*s  ", states[row->state].mark, width,
                strcmp(name, row->name) == 0 ? "" : row->name);
        print_words(out, (size_t)width + 8, row->text);
        name = row->name;
        if (row->remedy) {
            fprintf(out, "      %-*s  -> ", width, "");
            print_words(out, (size_t)width + 11, row->remedy);
        }
    }
    size_t n_wrong = report_n_wrong(report);
    if (n_wrong == 0)
        fputs("\nall is well\n", out);
    else
        fprintf(out, "\n%zu %s wrong\n", n_wrong, n_wrong == 1 ? "thing is" : "things are");
}

void report_print_json(const struct report *report) {
    struct cushim_writer out = {.fd = STDOUT_FILENO};
    struct json_output json = {&out, false};
    json_begin(&json, NULL, "{");
    json_put_text(&json, "schema", "cushim-doctor/1");
    json_put_text(&json, "cushim", CUSHIM_VERSION_TEXT);
    json_put_bool(&json, "well", report_n_wrong(report) == 0);
    json_begin(&json, "rows", "[");
    for (size_t i = 0; i < report->n_rows; i++) {
        const struct report_row *row = &report->rows[i];
        json_begin(&json, NULL, "\n  {");
        json_put_text(&json, "section", row->heading);
        json_put_text(&json, "name", row->name);
        json_put_text(&json, "state", states[row->state].word);
        json_put_text(&json, "text", row->text);
        if (row->remedy)
            json_put_text(&json, "remedy", row->remedy);
        json_end(&json, "}");
    }
    json_end(&json, "]}\n");
    usage_flush(&out);
}
