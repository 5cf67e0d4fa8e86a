/*
 * JSON, written piece by piece; the commas come by themselves.
 *
 * `name` is the name of a member, with the line break and the blanks before it: "\n  pid".  In a
 * list it has only these, or is NULL.
 */
#pragma once

#include <stdbool.h>

#include "base/writer.h"

/* Begin an object or a list; its end is written as it is. */
void cushim_json_begin(struct cushim_writer *out, const char *name, const char *bracket);

void cushim_json_text(struct cushim_writer *out, const char *name, const char *text);
void cushim_json_bool(struct cushim_writer *out, const char *name, bool is_true);
void cushim_json_number(struct cushim_writer *out, const char *name, uint64_t number);
void cushim_json_list(struct cushim_writer *out, const char *name, const uint64_t numbers[],
                      size_t n);
/* Write a number for each of the names, which have blanks between them. */
void cushim_json_numbers(struct cushim_writer *out, const char *names, const uint64_t numbers[]);

/* Write a value that is JSON already. */
__attribute__((format(printf, 3, 4))) void
cushim_json_put(struct cushim_writer *out, const char *name, const char *format, ...);
