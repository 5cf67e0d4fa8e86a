#include "preload/state/dma_readers.h"

#include "base/cancel.h"
#include "base/log.h"
#include "preload/state/process.h"
#include "preload/resolve/elf.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { DEDICATED_FOR_READERS_BYTES = 2 << 20 };

static void expect(const char *why) {
    atomic_size_t *dedicated_bytes = &cushim_process.policy.dedicated_bytes;
    if (atomic_load_explicit(dedicated_bytes, memory_order_relaxed) > DEDICATED_FOR_READERS_BYTES)
        atomic_store_explicit(dedicated_bytes, DEDICATED_FOR_READERS_BYTES, memory_order_relaxed);
    if (!atomic_exchange(&cushim_process.policy.is_dedicated_uncached, true))
        log_info("pool",
                 "device memory may be read from outside (%s): the driver serves and frees blocks "
                 "from 2 MiB on now",
                 why);
}

void cushim_dma_readers_expect(void) {
    if (cushim_process_is_on())
        expect("a pin was asked for");
}

/* A loaded library is no proof, because PyTorch is linked with libcufile, so every process of it
 * has it.  A reader pins memory through a device of its own, which it opens first. */
static const struct {
    const char *library, *device; /* the beginnings of their names */
} readers[] = {
    {"libibverbs.so", "uverbs"}, {"libcufile.so", "nvidia-fs"}, {"libgdrapi.so", "gdrdrv"}};
enum { N_READERS = sizeof readers / sizeof readers[0] };

/* A bit for each whose library is loaded. */
static unsigned loaded_readers(void) {
    unsigned loaded = 0;
    for (unsigned i = 0; i < N_READERS; i++)
        loaded |= (cushim_object_list(readers[i].library, NULL, NULL, 0) != 0) << i;
    return loaded;
}

/*
 * A process may have thousands of descriptors, so one look examines only some: those that were
 * opened since the last look, and a part of the others.  The next look continues after that part.
 */
struct look {
    int folder;         /* /proc/self/fd; its number was the lowest free one */
    unsigned loaded;    /* which readers */
    const char *reader; /* found; NULL: none so far */
};

enum { MOST_NEW = 64, PART_BYTES = 2048 }; /* some 80 entries */

/* Where the next look continues: a place in the list, and a number.  Two threads at the same time
 * may look at the same part. */
static _Atomic off_t next_place;
static atomic_int next_new;

/* Look at one link; false: there is none. */
static bool look_at(struct look *look, const char *link) {
    char path[128];
    ssize_t n = readlinkat(look->folder, link, path, sizeof path - 1);
    if (n <= 0)
        return false;
    path[n] = '\0';
    const char *slash = strrchr(path, '/');
    for (unsigned i = 0; slash && i < N_READERS; i++) {
        if (look->loaded & 1u << i &&
            !strncmp(slash + 1, readers[i].device, strlen(readers[i].device)))
            look->reader = readers[i].library;
    }
    return true;
}

/* A descriptor gets the lowest free number, so begin at the number that was that at the last
 * look. */
static void look_at_new(struct look *look) {
    char link[16];
    int first = atomic_load(&next_new), fd = first;
    while (fd < first + MOST_NEW && snprintf(link, sizeof link, "%d", fd) > 0 &&
           look_at(look, link))
        fd++;
    atomic_store(&next_new, fd < first + MOST_NEW ? look->folder : fd);
}

/* This makes the system call, because opendir allocates, and glibc has a function only since
 * 2.30. */
static void look_at_part(struct look *look) {
    _Alignas(struct dirent64) char buffer[PART_BYTES];
    off_t place = lseek(look->folder, atomic_load(&next_place), SEEK_SET);
    ssize_t n = syscall(SYS_getdents64, look->folder, buffer, sizeof buffer);
    if (n == 0 && place > 0) { /* at the end, so begin again */
        place = lseek(look->folder, 0, SEEK_SET);
        n = syscall(SYS_getdents64, look->folder, buffer, sizeof buffer);
    }
    for (ssize_t at = 0; at < n;) {
        const struct dirent64 *entry = (const struct dirent64 *)(buffer + at);
        look_at(look, entry->d_name);
        place = entry->d_off;
        at += entry->d_reclen;
    }
    atomic_store(&next_place, place);
}

void cushim_dma_readers_look(void) {
    if (atomic_load_explicit(&cushim_process.policy.is_dedicated_uncached, memory_order_relaxed))
        return;
    struct look look = {.loaded = loaded_readers()};
    if (!look.loaded)
        return;
    int cancel = cushim_cancel_hold();
    look.folder = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (look.folder < 0) {
        look.reader = "nobody can tell";
    } else {
        look_at_new(&look);
        look_at_part(&look);
        close(look.folder);
    }
    cushim_cancel_let(cancel);
    if (look.reader)
        expect(look.reader);
}
