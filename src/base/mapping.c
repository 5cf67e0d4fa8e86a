#include "base/mapping.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cancel.h"

/* The part of a line that is looked at: two addresses, rights and three numbers take 73 columns. */
enum { LINE_BYTES = 160 };

/* "start-end rights offset device inode    path"; only the path has a slash. */
static void parse(const char *line, struct cushim_mapping *mapping) {
    char *at;
    mapping->start = strtoull(line, &at, 16);
    mapping->end = *at == '-' ? strtoull(at + 1, &at, 16) : mapping->start;
    mapping->is_readable = at[0] == ' ' && at[1] == 'r';
    const char *path = strchr(at, '/');
    strncpy(mapping->path, path ? path : "", sizeof mapping->path - 1);
    mapping->path[sizeof mapping->path - 1] = 0;
}

static enum cushim_status find(uint64_t address, struct cushim_mapping *mapping) {
    char text[4096], line[LINE_BYTES];
    size_t length = 0;
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return CUSHIM_NOFILE;
    enum cushim_status status = CUSHIM_NOTFOUND;
    ssize_t n;
    while (status != CUSHIM_OK && (n = read(fd, text, sizeof text)) > 0) {
        for (ssize_t i = 0; status != CUSHIM_OK && i < n; i++) {
            if (text[i] != '\n') {
                if (length < sizeof line - 1)
                    line[length++] = text[i];
                continue;
            }
            line[length] = 0;
            length = 0;
            parse(line, mapping);
            if (address >= mapping->start && address < mapping->end)
                status = CUSHIM_OK;
        }
    }
    if (status != CUSHIM_OK && n < 0)
        status = CUSHIM_NOFILE;
    close(fd);
    return status;
}

enum cushim_status cushim_mapping_find(uint64_t address, struct cushim_mapping *mapping) {
    int cancel = cushim_cancel_hold();
    enum cushim_status status = find(address, mapping);
    cushim_cancel_let(cancel);
    return status;
}

bool cushim_mapping_is_of(const struct cushim_mapping *mapping, const char *file) {
    return strncmp(mapping->path, file, strlen(file)) == 0;
}
