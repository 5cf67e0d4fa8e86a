#include "preload/readers.h"

#include "base/log.h"
#include "preload/engine.h"
#include "preload/object.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { DEDICATED_FOR_READERS_BYTES = 2 << 20 };

static void expect(const char *why) {
    atomic_size_t *dedicated_bytes = &cushim_engine.policy.dedicated_bytes;
    if (atomic_load_explicit(dedicated_bytes, memory_order_relaxed) > DEDICATED_FOR_READERS_BYTES)
        atomic_store_explicit(dedicated_bytes, DEDICATED_FOR_READERS_BYTES, memory_order_relaxed);
    if (!atomic_exchange(&cushim_engine.policy.is_dedicated_uncached, true))
        log_info("pool",
                 "device memory may be read from outside (%s): 2 MiB and up is freed natively now",
                 why);
}

void cushim_readers_expect(void) {
    if (cushim_engine_is_on())
        expect("a pin was asked for");
}

/* Does a link of /proc/self/fd lead to a device whose name begins so? */
static bool is_device(int folder, const char *link, const char *device) {
    char path[128];
    ssize_t n = readlinkat(folder, link, path, sizeof path - 1);
    if (n <= 0)
        return false;
    path[n] = '\0';
    const char *slash = strrchr(path, '/');
    return slash && !strncmp(slash + 1, device, strlen(device));
}

/* Without /proc nobody can tell: true.  Reads the folder by hand, since opendir allocates. */
static bool has_open(const char *device) {
    _Alignas(struct dirent64) char buffer[2048];
    int folder = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return true;
    bool is_found = false;
    for (ssize_t n; !is_found && (n = getdents64(folder, buffer, sizeof buffer)) > 0;) {
        for (ssize_t at = 0; !is_found && at < n;) {
            const struct dirent64 *entry = (const struct dirent64 *)(buffer + at);
            is_found = is_device(folder, entry->d_name, device);
            at += entry->d_reclen;
        }
    }
    close(folder);
    return is_found;
}

/*
 * A library alone is no reader: PyTorch is linked with libcufile and maps it in every process.  It
 * pins memory through a device of its own, which it opens first.
 */
void cushim_readers_look(void) {
    static const struct {
        const char *library, *device;
    } readers[] = {
        {"libibverbs.so", "uverbs"}, {"libcufile.so", "nvidia-fs"}, {"libgdrapi.so", "gdrdrv"}};
    if (atomic_load_explicit(&cushim_engine.policy.is_dedicated_uncached, memory_order_relaxed))
        return;
    for (unsigned i = 0; i < sizeof readers / sizeof readers[0]; i++) {
        if (cushim_object_list(readers[i].library, NULL, NULL, 0) && has_open(readers[i].device))
            expect(readers[i].library);
    }
}
