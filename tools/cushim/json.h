/* Reads JSON from a file, and writes JSON piece by piece. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <json-c/json.h>

/* ---- read, from anywhere: a member that is missing, or has another type, is NULL or 0 ---- */

/* Read a regular file of at most most_bytes.  Returns NULL with errno, which is 0 if it is no
 * JSON. */
struct json_object *json_read(const char *path, size_t most_bytes);

struct json_object *json_member(struct json_object *of, const char *name);
uint64_t json_number(struct json_object *of, const char *name);
const char *json_text(struct json_object *of, const char *name);
struct json_object *json_list(struct json_object *of, const char *name);

/* Copy a text, cut if it does not fit; "" if there is none. */
void json_copy(char *to, size_t most, struct json_object *of, const char *name);

/* Does it name this schema? */
bool json_is_of(struct json_object *json, const char *schema);

/* The length of a list; 0 for NULL. */
size_t json_length(struct json_object *list);

/* ---- written: the commas come by themselves ---- */

struct cushim_writer;

struct json_output {
    struct cushim_writer *out;
    bool needs_comma; /* before the next value */
};

/* Begin an object or a list, and end it.  `name` is the name of a member, or NULL inside a list
 * and at the top.  The bracket may have a line break before it. */
void json_begin(struct json_output *json, const char *name, const char *bracket);
void json_end(struct json_output *json, const char *bracket);

void json_put_text(struct json_output *json, const char *name, const char *text);
void json_put_number(struct json_output *json, const char *name, uint64_t number);
/* Write a number for each of the names, which have blanks between them. */
void json_put_numbers(struct json_output *json, const char *names, const uint64_t numbers[]);

void json_put_bool(struct json_output *json, const char *name, bool is_true);

/* Write a value that is JSON already. */
__attribute__((format(printf, 3, 4))) void json_put(struct json_output *json, const char *name,
                                                    const char *format, ...);
