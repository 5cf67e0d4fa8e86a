#include "tools/cushim/doctor/findings.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/list.h"
#include "base/utf8.h"
#include "base/writer.h"
#include "report/json.h"
#include "tools/cushim/usage.h"

static const struct {
    const char *mark; /* for a person, two columns wide */
    const char *word; /* in JSON */
} states[] = {
    [REPORT_OK] = {"ok", "ok"}, [REPORT_NOTE] = {"--", "note"}, [REPORT_WRONG] = {"!!", "wrong"}};

static struct row {
    enum report_state state;
    const char *heading;
    char *name, *text, *remedy; /* remedy: may be NULL */
} * rows;
static size_t n_rows;
static const char *heading = "";

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

void report_heading(const char *text) {
    heading = text;
}

void report_add(enum report_state state, const char *name, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    struct row *row;
    LIST_ADD(rows, n_rows, row);
    *(struct row *)must(row) =
        (struct row){state, heading, must(strdup(name)), format_text(format, arguments), NULL};
    va_end(arguments);
}

void report_remedy(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    rows[n_rows - 1].remedy = format_text(format, arguments);
    va_end(arguments);
}

size_t report_n_wrong(void) {
    size_t n = 0;
    for (size_t i = 0; i < n_rows; i++)
        n += rows[i].state == REPORT_WRONG;
    return n;
}

void report_print(void) {
    enum { WIDTH = sizeof "cuGetProcAddress" - 1 }; /* the longest name */
    static size_t n_printed;
    const char *last = "", *name = "";
    for (; n_printed < n_rows; n_printed++) {
        const struct row *row = &rows[n_printed];
        if (strcmp(last, row->heading) != 0) {
            printf("%s%s\n", n_printed ? "\n" : "", row->heading);
            name = "";
        }
        last = row->heading;
        /* A name that repeats is printed once, above its texts. */
        printf("  %s  %-*s  ", states[row->state].mark, WIDTH,
               strcmp(name, row->name) == 0 ? "" : row->name);
        cushim_utf8_clean(row->text);
        usage_words(stdout, WIDTH + 8, row->text);
        name = row->name;
        if (row->remedy) {
            printf("      %-*s  -> ", WIDTH, "");
            cushim_utf8_clean(row->remedy);
            usage_words(stdout, WIDTH + 11, row->remedy);
        }
    }
}

void report_print_verdict(void) {
    size_t n_wrong = report_n_wrong();
    if (n_wrong == 0)
        puts("\nall is well");
    else
        printf("\n%zu %s wrong\n", n_wrong, n_wrong == 1 ? "thing is" : "things are");
}

int report_print_json(void) {
    struct cushim_writer out = {.fd = STDOUT_FILENO};
    cushim_json_begin(&out, NULL, "{");
    cushim_json_text(&out, "schema", "cushim-doctor/1");
    cushim_json_text(&out, "cushim", CUSHIM_VERSION_TEXT);
    cushim_json_bool(&out, "well", report_n_wrong() == 0);
    cushim_json_begin(&out, "rows", "[");
    for (size_t i = 0; i < n_rows; i++) {
        const struct row *row = &rows[i];
        cushim_json_begin(&out, "\n  ", "{");
        cushim_json_text(&out, "section", row->heading);
        cushim_json_text(&out, "name", row->name);
        cushim_json_text(&out, "state", states[row->state].word);
        cushim_json_text(&out, "text", row->text);
        if (row->remedy)
            cushim_json_text(&out, "remedy", row->remedy);
        cushim_write(&out, "}");
    }
    cushim_write(&out, "]}\n");
    return usage_flush(&out);
}
