#include "base/host_memory.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool cushim_read_text(const char *path, char *text, size_t n_bytes) {
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = file < 0 ? -1 : read(file, text, n_bytes - 1);
    if (file >= 0)
        close(file);
    text[n > 0 ? n : 0] = 0;
    return n > 0;
}

static void at_most(uint64_t *most, uint64_t n) {
    *most = n < *most ? n : *most;
}

uint64_t cushim_host_memory_bytes(int64_t process) {
    char path[1024], text[4096], group[512] = "", *at;
    uint64_t most = UINT64_MAX, kib, max, now;
    if (cushim_read_text("/proc/meminfo", text, sizeof text) &&
        (at = strstr(text, "MemAvailable:")) && sscanf(at, "MemAvailable: %" SCNu64, &kib) == 1)
        at_most(&most, kib << 10);
    snprintf(path, sizeof path, "/proc/%" PRId64 "/cgroup", process);
    if (cushim_read_text(path, text, sizeof text) && (at = strstr(text, "0::/")))
        sscanf(at, "0::%511[^\n]", group);
    while (*group) {
        snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.max", group);
        bool has_max =
            cushim_read_text(path, text, sizeof text) && sscanf(text, "%" SCNu64, &max) == 1;
        snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.current", group);
        if (has_max && cushim_read_text(path, text, sizeof text) &&
            sscanf(text, "%" SCNu64, &now) == 1)
            at_most(&most, max > now ? max - now : 0);
        *strrchr(group, '/') = 0;
    }
    return most;
}
