#include "report/frame.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "report/json.h"
#include "report/library.h"

void cushim_frame_clean(struct cushim_page_frame frames[], size_t n_frames) {
    for (size_t i = 0; i < n_frames; i++) {
        cushim_utf8_end(frames[i].file, sizeof frames[i].file);
        cushim_utf8_end(frames[i].function, sizeof frames[i].function);
    }
}

/* ---- names that are too long ---- */

static const char dots[] = "...";
enum { DOTS = sizeof dots - 1 };

/* Behind the bracket that closes the one at `at`; the end of the text if none does. */
static const char *behind_brackets(const char *at) {
    unsigned depth = 0;
    for (; *at; at++) {
        if (strchr("<([{", *at))
            depth++;
        else if (strchr(">)]}", *at) && !(*at == '>' && at[-1] == '-') && !--depth)
            return at + 1;
    }
    return at;
}

/* For "operator<<" and "operator()", whose word ends at `end`: the number of signs of the operator
 * at `at`, which are no brackets. */
static size_t signs_of_operator(const char *name, const char *end, const char *at) {
    static const char word[] = "operator";
    size_t n_word = sizeof word - 1;
    if ((size_t)(end - name) < n_word || memcmp(end - n_word, word, n_word) != 0)
        return 0;
    return *at == '(' || *at == '[' ? 2 : strspn(at, "<>=-*");
}

/* Replace what is in brackets of a kind by "...". */
static void empty_brackets(char *name, char kind) {
    static const char nameless[] = "(anonymous namespace)";
    const char *from = name;
    char *to = name;
    while (*from) {
        size_t n = signs_of_operator(name, to, from);
        bool has_group = !n && strchr("<([{", *from);
        const char *end = has_group ? behind_brackets(from) : from + (n ? n : 1);
        bool is_kept = !has_group || *from != kind || !strchr(">)]}", end[-1]) ||
                       (size_t)(end - from) <= DOTS + 2 ||
                       strncmp(from, nameless, sizeof nameless - 1) == 0;
        if (is_kept) {
            memmove(to, from, (size_t)(end - from));
            to += end - from;
        } else {
            char last = end[-1];
            *to++ = *from;
            memcpy(to, dots, DOTS);
            to += DOTS;
            *to++ = last;
        }
        from = end;
    }
    *to = 0;
}

/* Remove the type that a template's function has before its name. */
static void cut_type(char *name) {
    const char *begin = name;
    if (strstr(name, "operator")) /* its own name contains blanks */
        return;
    for (const char *at = name; *at && *at != '(';) {
        at = strchr("<[{", *at) ? behind_brackets(at) : at + 1;
        if (at[-1] == ' ')
            begin = at;
    }
    memmove(name, begin, strlen(begin) + 1);
}

/* Remove the parameters, and what follows them. */
static void cut_parameters(char *name) {
    char *last = NULL;
    for (char *at = name; *at;) {
        size_t n = signs_of_operator(name, at, at);
        if (!n && *at == '(' && at != name)
            last = at;
        at = n ? at + n : strchr("<([{", *at) ? (char *)behind_brackets(at) : at + 1;
    }
    if (last && strncmp(last, "(anonymous", 10) != 0)
        *last = 0;
}

/* Keep the end of the name, from a "::" on if it has one. */
static void cut_front(char *name, size_t columns) {
    size_t n = strlen(name), n_kept = columns > DOTS ? columns - DOTS : 0;
    const char *end = name + n - n_kept, *part = strstr(end, "::");
    if (part && part[2])
        end = part;
    while (((unsigned char)*end & 0xc0) == 0x80) /* a byte of a character that is cut */
        end++;
    memmove(name + DOTS, end, strlen(end) + 1);
    memcpy(name, dots, DOTS);
}

void cushim_frame_shorten(char *name, size_t columns) {
    if (strlen(name) > columns)
        empty_brackets(name, '(');
    if (strlen(name) > columns)
        cut_type(name);
    if (strlen(name) > columns)
        empty_brackets(name, '<');
    if (strlen(name) > columns)
        cut_parameters(name);
    if (strlen(name) > columns && columns > DOTS && strncmp(name, "_Z", 2) == 0)
        strcpy(name + columns - DOTS, dots); /* it was cut there before */
    if (strlen(name) > columns && columns > DOTS)
        cut_front(name, columns);
}

/* ---- for people and programs ---- */

bool cushim_frame_line(const struct cushim_page_frame *frame, cushim_report_find_line_fn *find_line,
                       char function[CUSHIM_REPORT_LINE_BYTES],
                       char line[CUSHIM_REPORT_LINE_BYTES]) {
    const char *slash = strrchr(frame->file, '/');
    *function = *line = 0;
    bool is_python = frame->offset & CUSHIM_PAGE_PYTHON;
    if (!is_python && find_line)
        find_line(frame, function, line);
    if (!*function)
        snprintf(function, CUSHIM_REPORT_LINE_BYTES, "%s", frame->function);
    if (!is_python)
        return *line;
    snprintf(line, CUSHIM_REPORT_LINE_BYTES, "%.100s:%" PRIu64, slash ? slash + 1 : frame->file,
             frame->offset & ~CUSHIM_PAGE_PYTHON);
    return true;
}

enum { TEXT_BYTES = 3 * CUSHIM_REPORT_LINE_BYTES, TEXT_COLUMNS = 80 - 13 };

/* "function  FILE:57", or "function  PROGRAM+0x1234". */
static void put(const struct cushim_page_frame *frame, cushim_report_find_line_fn *find_line,
                size_t columns, char text[TEXT_BYTES]) {
    char function[CUSHIM_REPORT_LINE_BYTES], line[2 * CUSHIM_REPORT_LINE_BYTES];
    const char *slash = strrchr(frame->file, '/');
    if (!cushim_frame_line(frame, find_line, function, line))
        snprintf(line, sizeof line, "%s+0x%" PRIx64, slash ? slash + 1 : frame->file,
                 frame->offset);
    cushim_frame_shorten(line, columns / 2);
    cushim_frame_shorten(function, columns - 2 - strlen(line));
    snprintf(text, TEXT_BYTES, "%s%s%s", function, *function ? "  " : "", line);
}

void cushim_frame_text(struct cushim_writer *out, const char *what,
                       const struct cushim_page_frame frames[], uint64_t n_frames,
                       cushim_report_find_line_fn *find_line) {
    for (uint64_t i = 0; i < n_frames; i++) {
        char text[TEXT_BYTES];
        put(&frames[i], find_line, TEXT_COLUMNS, text);
        cushim_write(out, "  %-*s %s\n", 10, i ? "" : what, text);
    }
}

/* Is it in compiled code of the program, in a file whose whole path is known? */
static bool has_command(const struct cushim_page_frame *frame) {
    char name[CUSHIM_LIBRARY_BYTES];
    bool is_whole = *frame->file == '/' && strlen(frame->file) < sizeof frame->file - 1;
    return is_whole && !strchr(frame->file, '\'') && !(frame->offset & CUSHIM_PAGE_PYTHON) &&
           cushim_library_of(frame->file, name) == CUSHIM_LIBRARY_PROGRAM;
}

void cushim_frame_command(struct cushim_writer *out, const struct cushim_page_frame frames[],
                          uint64_t n_frames) {
    const char *what = "lines by";
    for (uint64_t i = 0; i < n_frames; i++) {
        uint64_t first = 0;
        while (strcmp(frames[first].file, frames[i].file) != 0)
            first++;
        if (first < i || !has_command(&frames[i]))
            continue;
        cushim_write(out, "  %-10s addr2line -Cfpie '%s'", what, frames[i].file);
        for (uint64_t k = i; k < n_frames; k++) {
            if (strcmp(frames[k].file, frames[i].file) == 0) /* the call, not what follows */
                cushim_write(out, " 0x%" PRIx64, frames[k].offset - 1);
        }
        cushim_write(out, "\n");
        what = "";
    }
}

void cushim_frame_json(struct cushim_writer *out, const struct cushim_page_frame frames[],
                       uint64_t n_frames, cushim_report_find_line_fn *find_line) {
    cushim_write(out, "[");
    for (uint64_t i = 0; i < n_frames; i++) {
        const struct cushim_page_frame *frame = &frames[i];
        char function[CUSHIM_REPORT_LINE_BYTES], line[CUSHIM_REPORT_LINE_BYTES];
        bool has_line = cushim_frame_line(frame, find_line, function, line);
        cushim_json_begin(out, "\n      ", "{");
        cushim_json_text(out, "file", frame->file);
        cushim_json_number(out, "offset", frame->offset);
        cushim_json_text(out, "function", function);
        if (has_line)
            cushim_json_text(out, "line", line);
        cushim_write(out, "}");
    }
    cushim_write(out, "]");
}

void cushim_frame_json_texts(struct cushim_writer *out, const struct cushim_page_frame frames[],
                             uint64_t n_frames, cushim_report_find_line_fn *find_line) {
    cushim_write(out, "[");
    for (uint64_t i = 0; i < n_frames; i++) {
        char text[TEXT_BYTES];
        put(&frames[i], find_line, TEXT_BYTES, text);
        cushim_json_text(out, NULL, text);
    }
    cushim_write(out, "]");
}
