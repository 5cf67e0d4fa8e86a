#include "report/json.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "report/report.h"

/* A code point as JSON escapes it: above U+FFFF as two halves. */
static void put_point(struct cushim_writer *out, uint32_t point) {
    if (point >= 0x10000) {
        point -= 0x10000;
        cushim_write(out, "\\u%04x\\u%04x", 0xd800 + (point >> 10), 0xdc00 + (point & 0x3ff));
    } else {
        cushim_write(out, "\\u%04x", point);
    }
}

void cushim_report_put_string(struct cushim_writer *out, const char *text) {
    cushim_write(out, "\"");
    while (*text) {
        uint32_t point = cushim_utf8_next(&text);
        if (point == '"' || point == '\\')
            cushim_write(out, "\\%c", (int)point);
        else if (point < 0x20 || point >= 0x7f || point == '<')
            put_point(out, point == CUSHIM_UTF8_BAD ? 0xfffd : point);
        else
            cushim_write(out, "%c", (int)point);
    }
    cushim_write(out, "\"");
}

/* Nothing comes before the first item, or behind a comma or a line that somebody else wrote. */
static void put_name(struct cushim_writer *out, const char *name) {
    char last = cushim_write_last(out);
    size_t n_lead = name ? strspn(name, "\n ") : 0;
    if (!strchr("[{,\n", last))
        cushim_write(out, n_lead ? "," : ", ");
    if (last == '\n' && n_lead--)
        name++;
    cushim_write(out, "%.*s", (int)n_lead, name ? name : "");
    if (name && name[n_lead])
        cushim_write(out, "\"%s\": ", name + n_lead);
}

void cushim_json_begin(struct cushim_writer *out, const char *name, const char *bracket) {
    put_name(out, name);
    cushim_write(out, "%s", bracket);
}

void cushim_json_text(struct cushim_writer *out, const char *name, const char *text) {
    put_name(out, name);
    cushim_report_put_string(out, text);
}

void cushim_json_bool(struct cushim_writer *out, const char *name, bool is_true) {
    cushim_json_begin(out, name, is_true ? "true" : "false");
}

void cushim_json_number(struct cushim_writer *out, const char *name, uint64_t number) {
    cushim_json_put(out, name, "%" PRIu64, number);
}

void cushim_json_list(struct cushim_writer *out, const char *name, const uint64_t numbers[],
                      size_t n) {
    cushim_json_begin(out, name, "[");
    for (size_t i = 0; i < n; i++)
        cushim_json_number(out, NULL, numbers[i]);
    cushim_write(out, "]");
}

void cushim_json_numbers(struct cushim_writer *out, const char *names, const uint64_t numbers[]) {
    for (size_t n; (n = strcspn(names, " ")) != 0; names += n + (names[n] == ' '))
        cushim_json_put(out, NULL, "\"%.*s\": %" PRIu64, (int)n, names, *numbers++);
}

void cushim_json_put(struct cushim_writer *out, const char *name, const char *format, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    cushim_json_begin(out, name, text);
}
