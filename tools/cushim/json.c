#include "tools/cushim/json.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

bool json_is_of(struct json_object *json, const char *schema) {
    const char *found = json_text(json, "schema");
    return found && strcmp(found, schema) == 0;
}

size_t json_length(struct json_object *list) {
    return list ? json_object_array_length(list) : 0;
}
