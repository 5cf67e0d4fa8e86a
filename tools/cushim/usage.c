#include "tools/cushim/usage.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/nearest.h"
#include "base/utf8.h"
#include "base/writer.h"
#include "help_pages.h"
#include "report/words.h"
#include "tools/cushim/options.h"

/* The first of standard output: a flush that failed drops what it could not write. */
static int text_error;

void usage_words(FILE *out, int lead, const char *text) {
    enum { COLUMNS = 80 };
    char word[1024];
    int column = lead;
    for (size_t n; *(text += strspn(text, " ")); text += n) {
        n = strcspn(text, " ");
        snprintf(word, sizeof word, "%.*s", (int)n, text);
        int width = (int)cushim_utf8_columns(word);
        if (column > lead && column + 1 + width > COLUMNS)
            column = fprintf(out, "\n%*s", lead, "") - 1;
        else if (column > lead)
            column += fprintf(out, " ");
        fprintf(out, "%s", word);
        column += width;
    }
    fputc('\n', out);
}

void usage_beside(FILE *out, const char *head, const char *text) {
    enum { LEAD = 27 };
    int column = fprintf(out, "    %s", head);
    if (column > LEAD - 2)
        column = fprintf(out, "\n") - 1;
    fprintf(out, "%*s", LEAD - column, "");
    usage_words(out, LEAD, text);
}

static void print_words(FILE *out) {
    for (int i = 0; i < CUSHIM_N_WORDS; i++)
        usage_beside(out, cushim_report_words[i].text, cushim_report_words[i].sentence);
}

/* Lists that are printed where a page has their mark. */
static const struct {
    const char *mark;
    void (*print)(FILE *out);
} lists[] = {{"@OPTIONS@\n", settings_print_list},
             {"@SIM_OPTIONS@\n", settings_print_sim},
             {"@OPTIONS_TABLE@\n", settings_print_table},
             {"@SIM_TABLE@\n", settings_print_sim_table},
             {"@WORDS@\n", print_words}};

static void print_page(FILE *out, const char *text) {
    for (const char *mark; (mark = strchr(text, '@')); text = strchr(mark, '\n') + 1) {
        fwrite(text, 1, (size_t)(mark - text), out);
        for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
            if (strncmp(mark, lists[i].mark, strlen(lists[i].mark)) == 0)
                lists[i].print(out);
        }
    }
    fputs(text, out);
}

void usage_print(FILE *out, const char *topic) {
    const char *topics[sizeof help_pages / sizeof *help_pages];
    size_t n = 0;
    for (size_t i = 0; i < sizeof help_pages / sizeof *help_pages; i++) {
        if (strcmp(topic, help_pages[i].topic) == 0) {
            print_page(out, help_pages[i].text);
            return;
        }
        if (!strchr(help_pages[i].topic, '.'))
            topics[n++] = help_pages[i].topic;
    }
    usage_unknown("cushim", "page", topic, topics, n);
}

/* Print "cushim: " and a text.  Control characters are taken out, because parts of it may come
 * from anywhere. */
static void put_complaint(const char *format, va_list arguments) {
    char text[8192]; /* a path and more */
    vsnprintf(text, sizeof text, format, arguments);
    cushim_utf8_clean(text);
    fprintf(stderr, "cushim: %s", text);
}

void usage_error(const char *topic, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    put_complaint(format, arguments);
    va_end(arguments);
    if (strcmp(topic, "cushim") == 0)
        fputs("; try `cushim --help`\n", stderr);
    else
        fprintf(stderr, "; try `cushim help %s`\n", topic);
    exit(EXIT_USAGE);
}

void usage_unknown(const char *topic, const char *what, const char *word, const char *const *known,
                   size_t n_known) {
    struct cushim_nearest search;
    int n = (int)strcspn(word, "=");
    cushim_nearest_begin(&search, word, (size_t)n);
    for (size_t i = 0; i < n_known; i++)
        cushim_nearest_try(&search, known[i]);
    if (search.best)
        usage_error(topic, "no %s `%.*s` (did you mean `%s`?)", what, n, word, search.best);
    usage_error(topic, "no %s `%.*s`", what, n, word);
}

bool complain(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    put_complaint(format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    return false;
}

int usage_unwritten(const char *path, int error) {
    if (path || error != EPIPE)
        complain("%s cannot be written: %s", path ? path : "standard output", strerror(error));
    return EXIT_OURS;
}

int usage_flush(struct cushim_writer *out) {
    cushim_writer_flush(out);
    return out->error ? usage_unwritten(NULL, out->error) : EXIT_WELL;
}

bool usage_flush_text(void) {
    if (fflush(stdout) != 0 && !text_error)
        text_error = errno;
    return !text_error;
}

int usage_end(int code) {
    if (usage_flush_text())
        return code;
    int unwritten = usage_unwritten(NULL, text_error);
    return code == EXIT_WELL ? unwritten : code;
}
