#include "ipc_slot.h"

#include "space.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { N_SLOTS = 32768, PAGE_BYTES = 4096 };
#define FILE_BYTES ((size_t)N_SLOTS * sizeof(struct sim_ipc_slot))
_Static_assert(PAGE_BYTES % sizeof(struct sim_ipc_slot) == 0, "a slot lies in one page");

/* All under the lock. */
static struct sim_ipc_slot *slots; /* [N_SLOTS] */
static int slots_fd;
static uint64_t slots_inode;
static uint64_t last_life;
static uint32_t n_used, free_ones[N_SLOTS], n_free;

static bool start(void) {
    if (getrandom(&last_life, sizeof last_life, 0) != sizeof last_life)
        return false;
    int fd = sim_space_open_file(FILE_BYTES, &slots_inode);
    if (fd < 0)
        return false;
    void *words = mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (words == MAP_FAILED) {
        close(fd);
        return false;
    }
    slots = words;
    slots_fd = fd;
    return true;
}

struct sim_ipc_slot *sim_ipc_slot_take(void) {
    if (!slots && !start())
        return NULL;
    if (n_free == 0 && n_used == N_SLOTS)
        return NULL;
    struct sim_ipc_slot *slot = &slots[n_free ? free_ones[--n_free] : n_used++];
    if (++last_life == 0)
        last_life = 1;
    atomic_store(&slot->n_asked, 0);
    atomic_store(&slot->n_done, 0);
    atomic_store(&slot->asker, (int32_t)getpid());
    atomic_store(&slot->life, last_life);
    return slot;
}

void sim_ipc_slot_drop(struct sim_ipc_slot *slot) {
    atomic_store(&slot->life, 0);
    free_ones[n_free++] = (uint32_t)(slot - slots);
}

bool sim_ipc_slot_name(const struct sim_ipc_slot *slot, struct sim_ipc_name *name) {
    struct stat status;
    if (fstat(slots_fd, &status) != 0 || status.st_ino != slots_inode)
        return false;
    *name = (struct sim_ipc_name){.pid = (int32_t)getpid(),
                                  .fd = slots_fd,
                                  .index = (uint32_t)(slot - slots),
                                  .life = atomic_load(&slot->life)};
    return true;
}

struct sim_ipc_slot *sim_ipc_slot_open(const struct sim_ipc_name *name) {
    char path[64];
    struct stat status;
    size_t place = name->index * sizeof(struct sim_ipc_slot),
           page = place / PAGE_BYTES * PAGE_BYTES;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", name->pid, name->fd);
    int fd = name->index < N_SLOTS ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0)
        return NULL;
    char *words = MAP_FAILED;
    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_size == (off_t)FILE_BYTES)
        words = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)page);
    close(fd);
    if (words == MAP_FAILED)
        return NULL;
    struct sim_ipc_slot *slot = (struct sim_ipc_slot *)(words + (place - page));
    if (name->life == 0 || atomic_load(&slot->life) != name->life) {
        sim_ipc_slot_close(slot);
        return NULL;
    }
    return slot;
}

void sim_ipc_slot_close(struct sim_ipc_slot *slot) {
    munmap((void *)((uintptr_t)slot / PAGE_BYTES * PAGE_BYTES), PAGE_BYTES);
}

/* The lock on the byte of a slot. */
static struct flock lock_of(short type, uint32_t index) {
    return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = index, .l_len = 1};
}

int sim_ipc_slot_hold(const struct sim_ipc_name *name) {
    char path[64];
    struct stat status;
    uint64_t life;
    struct flock lock = lock_of(F_RDLCK, name->index);
    off_t place = (off_t)(name->index * sizeof(struct sim_ipc_slot));
    snprintf(path, sizeof path, "/proc/%d/fd/%d", name->pid, name->fd);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return -1;
    /* read the life after locking: its process ends the life first and then looks for locks */
    if (fstat(fd, &status) == 0 && status.st_size == (off_t)FILE_BYTES &&
        fcntl(fd, F_OFD_SETLK, &lock) == 0 && pread(fd, &life, sizeof life, place) == sizeof life &&
        life == name->life && life != 0)
        return fd;
    close(fd);
    return -1;
}

bool sim_ipc_slot_end(struct sim_ipc_slot *slot) {
    struct stat status;
    struct flock lock = lock_of(F_WRLCK, (uint32_t)(slot - slots));
    atomic_store(&slot->life, 0);
    return fstat(slots_fd, &status) == 0 && status.st_ino == slots_inode &&
           fcntl(slots_fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

bool sim_ipc_is_dead(pid_t pid) {
    return kill(pid, 0) != 0 && errno == ESRCH;
}
