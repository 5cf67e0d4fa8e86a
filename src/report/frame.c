#include "report/frame.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

static void end_text(char *text, size_t n_bytes) {
    text[n_bytes - 1] = 0;
    cushim_utf8_clean(text);
}

void cushim_frame_clean(struct cushim_page_frame frames[], size_t n_frames) {
    for (size_t i = 0; i < n_frames; i++) {
        end_text(frames[i].file, sizeof frames[i].file);
        end_text(frames[i].function, sizeof frames[i].function);
    }
}

enum { TEXT_BYTES = 3 * CUSHIM_REPORT_LINE_BYTES };

/* "function  train.c:57", or "function  train+0x1234". */
static void put(const struct cushim_page_frame *frame, cushim_report_find_line_fn *find_line,
                char text[TEXT_BYTES]) {
    char function[CUSHIM_REPORT_LINE_BYTES], line[CUSHIM_REPORT_LINE_BYTES];
    const char *slash = strrchr(frame->file, '/');
    if (find_line && find_line(frame, function, line))
        snprintf(text, TEXT_BYTES, "%s  %s", function, line);
    else
        snprintf(text, TEXT_BYTES, "%s%s%s+0x%" PRIx64, frame->function,
                 *frame->function ? "  " : "", slash ? slash + 1 : frame->file, frame->offset);
}

void cushim_frame_text(struct cushim_writer *out, const char *what,
                       const struct cushim_page_frame frames[], uint64_t n_frames,
                       cushim_report_find_line_fn *find_line) {
    for (uint64_t i = 0; i < n_frames; i++) {
        char text[TEXT_BYTES];
        put(&frames[i], find_line, text);
        cushim_write(out, "  %-*s %s\n", 10, i ? "" : what, text);
    }
}

void cushim_frame_json(struct cushim_writer *out, const struct cushim_page_frame frames[],
                       uint64_t n_frames, cushim_report_find_line_fn *find_line) {
    cushim_write(out, "[");
    for (uint64_t i = 0; i < n_frames; i++) {
        const struct cushim_page_frame *frame = &frames[i];
        char function[CUSHIM_REPORT_LINE_BYTES], line[CUSHIM_REPORT_LINE_BYTES];
        bool has_line = find_line && find_line(frame, function, line);
        cushim_write(out, "%s\n      {\"file\": ", i ? "," : "");
        cushim_report_put_string(out, frame->file);
        cushim_write(out, ", \"offset\": %" PRIu64 ", \"function\": ", frame->offset);
        cushim_report_put_string(out, has_line ? function : frame->function);
        if (has_line) {
            cushim_write(out, ", \"line\": ");
            cushim_report_put_string(out, line);
        }
        cushim_write(out, "}");
    }
    cushim_write(out, "]");
}

void cushim_frame_json_texts(struct cushim_writer *out, const struct cushim_page_frame frames[],
                             uint64_t n_frames, cushim_report_find_line_fn *find_line) {
    cushim_write(out, "[");
    for (uint64_t i = 0; i < n_frames; i++) {
        char text[TEXT_BYTES];
        put(&frames[i], find_line, text);
        cushim_write(out, "%s", i ? ", " : "");
        cushim_report_put_string(out, text);
    }
    cushim_write(out, "]");
}
