/* Frames of a page, as text: a function and its line, or a name and an offset. */
#pragma once

#include "report/report.h"

/* Make their texts end, whatever is in them, and make them readable text. */
void cushim_frame_clean(struct cushim_page_frame frames[], size_t n_frames);

/* Shorten a name to `columns`, with "..." for what is left out: first the parameters, then
 * its type, arguments of templates, and its beginning.  The function's own name stays. */
void cushim_frame_shorten(char *name, size_t columns);

/* The function of a frame, and its line: "FILE:12".  False: the line is unknown, and "". */
bool cushim_frame_line(const struct cushim_page_frame *frame, cushim_report_find_line_fn *find_line,
                       char function[CUSHIM_REPORT_LINE_BYTES],
                       char line[CUSHIM_REPORT_LINE_BYTES]);

/* For people: a line of 80 columns for each, with `what` before the first. */
void cushim_frame_text(struct cushim_writer *out, const char *what,
                       const struct cushim_page_frame frames[], uint64_t n_frames,
                       cushim_report_find_line_fn *find_line);

/* For people: for each file of the program a line with the command that names the lines of its
 * frames; none if the path was cut. */
void cushim_frame_command(struct cushim_writer *out, const struct cushim_page_frame frames[],
                          uint64_t n_frames);

/* For programs: an array. */
void cushim_frame_json(struct cushim_writer *out, const struct cushim_page_frame frames[],
                       uint64_t n_frames, cushim_report_find_line_fn *find_line);

/* For programs: each frame as one string. */
void cushim_frame_json_texts(struct cushim_writer *out, const struct cushim_page_frame frames[],
                             uint64_t n_frames, cushim_report_find_line_fn *find_line);
