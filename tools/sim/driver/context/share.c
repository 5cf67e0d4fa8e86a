#include "share.h"

#include "device.h"
#include "tools/sim/driver/core/complain.h"
#include "tools/sim/driver/core/options.h"
#include "tools/sim/driver/core/setting.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Written by its process, and by a process that empties it or asks at the desk. */
struct slot {
    _Atomic uint64_t n_pages[SIM_PLACES];
    _Atomic uint64_t n_laid_down[SIM_MAX_DEVICES];
    struct sim_share_desk desk;
    _Atomic uint32_t n_contexts[SIM_MAX_DEVICES];
    _Atomic int32_t pid;
};

enum { N_SLOTS = 256 };
#define FILE_BYTES ((off_t)(N_SLOTS * sizeof(struct slot)))

/* All under the driver's lock.  Without a file there is one slot. */
static struct slot alone;
static struct slot *slots = &alone, *mine = &alone; /* mine: NULL if this process takes no part */
static unsigned n_slots = 1;
static int file = -1;
static bool is_refused;

static bool refuse(const char *path, const char *why) {
    if (!is_refused)
        sim_complain("%s cannot be shared: %s", path, why);
    is_refused = true;
    return false;
}

/* The number is high, because programs count on low ones. */
static int open_high(const char *path) {
    int low = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    int high = low < 0 ? -1 : fcntl(low, F_DUPFD_CLOEXEC, 200);
    if (high < 0)
        return low;
    close(low);
    return high;
}

static const char *why_not(int fd, struct slot **words) {
    struct stat status;
    if (fstat(fd, &status) != 0)
        return strerror(errno);
    if (!S_ISREG(status.st_mode) || (status.st_size != 0 && status.st_size != FILE_BYTES))
        return "it is no file of the software device";
    if (ftruncate(fd, FILE_BYTES) != 0)
        return strerror(errno);
    *words = mmap(NULL, (size_t)FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return *words == MAP_FAILED ? strerror(errno) : NULL;
}

/* Open the file, if there is to be one.  False: it cannot be opened. */
static bool open_file(void) {
    char variable[SIM_VARIABLE_BYTES];
    struct slot *words = NULL;
    if (!sim_options()->shared || file >= 0)
        return true;
    sim_setting_variable(&sim_settings[SIM_SETTING_shared], variable);
    const char *path = getenv(variable);
    if (!path || is_refused)
        return false;
    int fd = open_high(path);
    const char *why = fd < 0 ? strerror(errno) : why_not(fd, &words);
    if (why) {
        if (fd >= 0)
            close(fd);
        return refuse(path, why);
    }
    file = fd;
    slots = words;
    n_slots = N_SLOTS;
    mine = NULL;
    return true;
}

static struct flock byte_of(unsigned i, short type) {
    return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = i, .l_len = 1};
}

/* Lock the byte of a slot; never waits.  Only the process that has the slot locks it. */
static bool lock(unsigned i, short type) {
    struct flock byte = byte_of(i, type);
    return fcntl(file, F_OFD_SETLK, &byte) == 0;
}

static void empty(struct slot *slot) {
    atomic_store(&slot->pid, 0);
    atomic_store(&slot->desk.state, CU_PROCESS_STATE_RUNNING);
    atomic_store(&slot->desk.thread, 0);
    atomic_store(&slot->desk.n_answered, atomic_load(&slot->desk.n_asked));
    for (int i = 0; i < SIM_MAX_DEVICES; i++) {
        atomic_store(&slot->n_laid_down[i], 0);
        atomic_store(&slot->n_pages[i], 0);
        atomic_store(&slot->n_contexts[i], 0);
    }
    atomic_store(&slot->n_pages[SIM_HOST], 0);
}

/* Empty the slots of processes that are gone. */
static void reap(void) {
    for (unsigned i = 0; file >= 0 && i < n_slots; i++) {
        if (&slots[i] == mine || atomic_load(&slots[i].pid) == 0 || !lock(i, F_WRLCK))
            continue;
        empty(&slots[i]);
        lock(i, F_UNLCK);
    }
}

bool sim_share_join(void) {
    if (!open_file())
        return false;
    for (unsigned i = 0; !mine && i < n_slots; i++) {
        if (!lock(i, F_WRLCK))
            continue;
        mine = &slots[i];
        empty(mine);
        atomic_store(&mine->pid, (int32_t)getpid());
    }
    return mine || refuse("the device", "256 processes have it");
}

void sim_share_leave_child(void) {
    if (file >= 0) {
        close(file); /* the lock stays the parent's */
        munmap(slots, (size_t)FILE_BYTES);
    }
    file = -1;
    slots = mine = &alone;
    n_slots = 1;
    empty(&alone);
}

static size_t used(int device) {
    size_t n_pages = 0;
    for (unsigned i = 0; i < n_slots; i++)
        n_pages += atomic_load(&slots[i].n_pages[device]);
    return n_pages;
}

bool sim_share_charge(int device, size_t n_pages, size_t n_all) {
    if (n_pages > n_all)
        return false;
    for (int tries = 0; tries < 2; tries++) {
        atomic_fetch_add(&mine->n_pages[device], n_pages);
        if (used(device) <= n_all)
            return true;
        atomic_fetch_sub(&mine->n_pages[device], n_pages);
        reap();
    }
    return false;
}

void sim_share_refund(int device, size_t n_pages) {
    atomic_fetch_sub(&mine->n_pages[device], n_pages);
}

void sim_share_context(int device, int change) {
    atomic_fetch_add(&mine->n_contexts[device], (uint32_t)change);
}

size_t sim_share_used(int device) {
    if (open_file())
        reap();
    return used(device);
}

unsigned sim_share_processes(int device, struct sim_share *processes, unsigned n) {
    unsigned n_found = 0;
    if (open_file())
        reap();
    for (unsigned i = 0; i < n_slots; i++) {
        if (atomic_load(&slots[i].n_contexts[device]) == 0 ||
            atomic_load(&slots[i].desk.state) == CU_PROCESS_STATE_CHECKPOINTED)
            continue;
        pid_t pid = &slots[i] == mine ? getpid() : (pid_t)atomic_load(&slots[i].pid);
        if (n_found < n)
            processes[n_found] = (struct sim_share){pid, atomic_load(&slots[i].n_pages[device])};
        n_found++;
    }
    return n_found;
}

/* ---- checkpoints ---- */

struct sim_share_desk *sim_share_desk(void) {
    return file >= 0 && mine ? &mine->desk : NULL;
}

struct sim_share_desk *sim_share_desk_of(pid_t pid) {
    if (open_file())
        reap();
    for (unsigned i = 0; file >= 0 && i < n_slots; i++) {
        if (atomic_load(&slots[i].pid) == pid)
            return &slots[i].desk;
    }
    return NULL;
}

static unsigned number_of(const struct sim_share_desk *desk) {
    return (unsigned)(((const char *)desk - (const char *)slots) / (ptrdiff_t)sizeof(struct slot));
}

bool sim_share_desk_is_alive(const struct sim_share_desk *desk) {
    struct flock byte = byte_of(number_of(desk), F_WRLCK);
    return (mine && desk == &mine->desk) ||
           (fcntl(file, F_OFD_GETLK, &byte) == 0 && byte.l_type != F_UNLCK);
}

void sim_share_desk_lock(const struct sim_share_desk *desk, short type) {
    struct flock byte = byte_of(N_SLOTS + number_of(desk), type);
    while (fcntl(file, F_OFD_SETLKW, &byte) != 0 && errno == EINTR)
        ;
}

void sim_share_lay_down(void) {
    for (int i = 0; i < SIM_MAX_DEVICES; i++)
        atomic_store(&mine->n_laid_down[i], atomic_exchange(&mine->n_pages[i], 0));
}

bool sim_share_take_up(size_t n_all) {
    int i = 0;
    while (i < SIM_MAX_DEVICES && sim_share_charge(i, atomic_load(&mine->n_laid_down[i]), n_all))
        i++;
    for (int k = 0; k < i && i < SIM_MAX_DEVICES; k++)
        sim_share_refund(k, atomic_load(&mine->n_laid_down[k]));
    return i == SIM_MAX_DEVICES;
}
