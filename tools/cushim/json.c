#include "tools/cushim/json.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "report/report.h"

struct json_object *json_read(const char *path, size_t most_bytes) {
    enum { DEPTH = 32 };
    struct stat status;
    struct json_object *json = NULL;
    int file = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (file < 0)
        return NULL;
    errno = 0;
    if (fstat(file, &status) == 0 && S_ISREG(status.st_mode) &&
        (uint64_t)status.st_size <= most_bytes)
        json = json_object_from_fd_ex(file, DEPTH);
    close(file);
    return json;
}

struct json_object *json_member(struct json_object *of, const char *name) {
    struct json_object *found = NULL;
    return json_object_is_type(of, json_type_object) && json_object_object_get_ex(of, name, &found)
               ? found
               : NULL;
}

uint64_t json_number(struct json_object *of, const char *name) {
    struct json_object *found = json_member(of, name);
    return json_object_is_type(found, json_type_int) ? json_object_get_uint64(found) : 0;
}

const char *json_text(struct json_object *of, const char *name) {
    struct json_object *found = json_member(of, name);
    return json_object_is_type(found, json_type_string) ? json_object_get_string(found) : NULL;
}

struct json_object *json_list(struct json_object *of, const char *name) {
    struct json_object *found = json_member(of, name);
    return json_object_is_type(found, json_type_array) ? found : NULL;
}

void json_copy(char *to, size_t most, struct json_object *of, const char *name) {
    const char *found = json_text(of, name);
    snprintf(to, most, "%s", found ? found : "");
}

bool json_is_of(struct json_object *json, const char *schema) {
    const char *found = json_text(json, "schema");
    return found && strcmp(found, schema) == 0;
}

size_t json_length(struct json_object *list) {
    return list ? json_object_array_length(list) : 0;
}

/* ---- written ---- */

static void put_name(struct json_output *json, const char *name, bool has_break) {
    cushim_write(json->out, "%s", !json->needs_comma ? "" : has_break ? "," : ", ");
    if (name)
        cushim_write(json->out, "\"%s\": ", name);
    json->needs_comma = true;
}

void json_begin(struct json_output *json, const char *name, const char *bracket) {
    put_name(json, name, *bracket == '\n');
    cushim_write(json->out, "%s", bracket);
    json->needs_comma = false;
}

void json_end(struct json_output *json, const char *bracket) {
    cushim_write(json->out, "%s", bracket);
    json->needs_comma = true;
}

void json_put_text(struct json_output *json, const char *name, const char *text) {
    put_name(json, name, false);
    cushim_report_put_string(json->out, text);
}

void json_put_number(struct json_output *json, const char *name, uint64_t number) {
    json_put(json, name, "%" PRIu64, number);
}

void json_put_numbers(struct json_output *json, const char *names, const uint64_t numbers[]) {
    for (size_t n; (n = strcspn(names, " ")) != 0; names += n + (names[n] == ' '))
        json_put(json, NULL, "\"%.*s\": %" PRIu64, (int)n, names, *numbers++);
}

void json_put_bool(struct json_output *json, const char *name, bool is_true) {
    json_put(json, name, "%s", is_true ? "true" : "false");
}

void json_put(struct json_output *json, const char *name, const char *format, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    put_name(json, name, false);
    cushim_write(json->out, "%s", text);
}
