/* Reads JSON from a file: a member that is missing, or has another type, is NULL or 0. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <json-c/json.h>

/* Read a regular file of at most most_bytes.  Returns NULL with errno, which is 0 if it is no
 * JSON. */
struct json_object *json_read(const char *path, size_t most_bytes);

struct json_object *json_member(struct json_object *of, const char *name);
uint64_t json_number(struct json_object *of, const char *name);
const char *json_text(struct json_object *of, const char *name);
struct json_object *json_list(struct json_object *of, const char *name);

/* Does it name this schema? */
bool json_is_of(struct json_object *json, const char *schema);

/* The length of a list; 0 for NULL. */
size_t json_length(struct json_object *list);
