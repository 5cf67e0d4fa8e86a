#include "space.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NO_ACCESS_FLAGS = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE };

/* The file's number is high, because programs count on low ones. */
int sim_space_open_file(size_t n_bytes, uint64_t *inode) {
    struct stat status;
    int fd = memfd_create("cushim software device", MFD_CLOEXEC);
    if (fd < 0)
        return -1;
    int high = fcntl(fd, F_DUPFD_CLOEXEC, 200);
    if (high >= 0) {
        close(fd);
        fd = high;
    }
    if (ftruncate(fd, (off_t)n_bytes) != 0 || fstat(fd, &status) != 0) {
        close(fd);
        return -1;
    }
    *inode = status.st_ino;
    return fd;
}

bool sim_space_init(struct sim_space *space, size_t page_bytes, size_t n_pages, bool is_shared) {
    size_t n_bytes = page_bytes * n_pages;
    memset(space, 0, sizeof *space);
    space->page_bytes = page_bytes;
    space->n_pages = n_pages;
    space->fd = -1;
    space->is_used = calloc(n_pages, 1);
    if (!space->is_used)
        return false;
    /* One page more than needed, so that the range can begin on a page of its own size. */
    char *range = mmap(NULL, n_bytes + page_bytes, PROT_NONE, NO_ACCESS_FLAGS, -1, 0);
    if (range == MAP_FAILED)
        goto error_pages;
    space->base = (char *)(((uintptr_t)range + page_bytes - 1) / page_bytes * page_bytes);
    if (is_shared && (space->fd = sim_space_open_file(n_bytes, &space->inode)) < 0)
        goto error_range;
    return true;

error_range:
    munmap(range, n_bytes + page_bytes);
error_pages:
    free(space->is_used);
    return false;
}

bool sim_space_has(const struct sim_space *space, const void *address) {
    uintptr_t at = (uintptr_t)address, base = (uintptr_t)space->base;
    return at >= base && at - base < space->page_bytes * space->n_pages;
}

size_t sim_space_round(const struct sim_space *space, size_t n_bytes) {
    return (n_bytes + space->page_bytes - 1) / space->page_bytes * space->page_bytes;
}

static size_t page_of(const struct sim_space *space, const void *address) {
    return (size_t)((const char *)address - space->base) / space->page_bytes;
}

static bool is_free(const struct sim_space *space, size_t page, size_t n) {
    return page < space->n_pages && n <= space->n_pages - page &&
           (n == 0 || !memchr(space->is_used + page, 1, n));
}

static void mark(struct sim_space *space, size_t page, size_t n) {
    memset(space->is_used + page, 1, n);
    space->n_pages_used += n;
    while (space->lowest_free < space->n_pages && space->is_used[space->lowest_free])
        space->lowest_free++;
}

static size_t in_aligned(size_t page, size_t align_pages) {
    return (page + align_pages - 1) / align_pages * align_pages;
}

/* The first free page from a used one on. */
static size_t end_of_used(const struct sim_space *space, size_t page) {
    const uint8_t *found = memchr(space->is_used + page, 0, space->n_pages - page);
    return found ? (size_t)(found - space->is_used) : space->n_pages;
}

void *sim_space_take(struct sim_space *space, size_t n_bytes, size_t align_pages) {
    if (n_bytes > space->page_bytes * space->n_pages)
        return NULL;
    size_t n = sim_space_round(space, n_bytes) / space->page_bytes;
    size_t page = in_aligned(space->lowest_free, align_pages);
    while (page < space->n_pages && n <= space->n_pages - page) {
        const uint8_t *used = memrchr(space->is_used + page, 1, n);
        if (!used) {
            mark(space, page, n);
            return space->base + page * space->page_bytes;
        }
        page = in_aligned(end_of_used(space, (size_t)(used - space->is_used)), align_pages);
    }
    return NULL;
}

bool sim_space_take_at(struct sim_space *space, void *address, size_t n_bytes) {
    size_t n = sim_space_round(space, n_bytes) / space->page_bytes;
    size_t offset = (size_t)((char *)address - space->base);
    if (!sim_space_has(space, address) || offset % space->page_bytes != 0 ||
        !is_free(space, offset / space->page_bytes, n))
        return false;
    mark(space, offset / space->page_bytes, n);
    return true;
}

void sim_space_give(struct sim_space *space, void *address, size_t n_bytes) {
    size_t page = page_of(space, address);
    size_t n = sim_space_round(space, n_bytes) / space->page_bytes;
    memset(space->is_used + page, 0, n);
    space->n_pages_used -= n;
    if (page < space->lowest_free)
        space->lowest_free = page;
}

bool sim_space_commit(struct sim_space *space, void *address, size_t n_bytes) {
    if (space->is_unbacked)
        return true;
    size_t n = sim_space_round(space, n_bytes);
    int flags = space->fd >= 0 ? MAP_SHARED | MAP_FIXED : NO_ACCESS_FLAGS | MAP_FIXED;
    off_t offset = space->fd >= 0 ? (off_t)((char *)address - space->base) : 0;
    return mmap(address, n, PROT_READ | PROT_WRITE, flags, space->fd, offset) != MAP_FAILED;
}

void sim_space_decommit(struct sim_space *space, void *address, size_t n_bytes) {
    if (space->is_unbacked)
        return;
    size_t n = sim_space_round(space, n_bytes);
    mmap(address, n, PROT_NONE, NO_ACCESS_FLAGS | MAP_FIXED, -1, 0);
    if (space->fd >= 0)
        fallocate(space->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                  (off_t)((char *)address - space->base), (off_t)n);
}
