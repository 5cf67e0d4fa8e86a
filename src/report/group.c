#include "report/group.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cut_file.h"
#include "base/futex.h"
#include "base/output.h"
#include "report/page_file.h"

#define MAGIC "CUSHIMGR"

/* The byte behind those of the rows: a member that enters locks it. */
enum { DOOR = CUSHIM_GROUP_ROWS };

static const uint64_t turn_ns = 100000000, door_ns = 1000000000;

/* ---- locks ---- */

static bool set_lock(int file, int type, int first, int n, struct flock *lock) {
    *lock =
        (struct flock){.l_type = (short)type, .l_whence = SEEK_SET, .l_start = first, .l_len = n};
    return syscall(SYS_fcntl, file, type == F_RDLCK ? F_OFD_GETLK : F_OFD_SETLK, lock) == 0;
}

static bool lock(int file, int byte) {
    struct flock lock;
    return set_lock(file, F_WRLCK, byte, 1, &lock);
}

static void unlock(int file, int byte) {
    struct flock lock;
    set_lock(file, F_UNLCK, byte, 1, &lock);
}

/* By another description than this one. */
static bool is_locked(int file, int first, int n) {
    struct flock lock;
    return set_lock(file, F_RDLCK, first, n, &lock) && lock.l_type != F_UNLCK;
}

/* Without it two that enter at once may both believe that they are not the first. */
static void enter_door(int file) {
    uint64_t end_ns = cushim_clock_ns() + door_ns;
    unsigned n_looks = 0;
    while (!lock(file, DOOR) && cushim_clock_ns() < end_ns)
        cushim_futex_back_off(&n_looks);
}

/* ---- the file ---- */

/* A name is of this user alone, so its file is in the folder that no session changes. */
static int find_path(const char *name, bool is_made, char path[PATH_MAX]) {
    char folder[PATH_MAX];
    uid_t owner;
    if (strchr(name, '/'))
        return snprintf(path, PATH_MAX, "%s", name) < PATH_MAX ? 0 : ENAMETOOLONG;
    cushim_page_folder_path(folder);
    if (is_made && mkdir(folder, 0700) != 0 && errno != EEXIST)
        return errno;
    int descriptor = cushim_page_folder_read(folder, &owner);
    if (descriptor < 0)
        return errno;
    close(descriptor);
    if (owner != geteuid())
        return EPERM;
    return snprintf(path, PATH_MAX, "%s/%s.group", folder, name) < PATH_MAX ? 0 : ENAMETOOLONG;
}

/* A file that is there is opened without O_CREAT, which Linux refuses for another user's in a
 * folder such as /tmp.  Returns a descriptor, or -1 with errno. */
static int open_file(const char *path, bool is_made) {
    const int flags = O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    int file = open(path, flags);
    if (file < 0 && errno == ENOENT && is_made)
        file = open(path, flags | O_CREAT, 0600);
    return cushim_output_aside(file);
}

/* Is it a file of ours, or to be made one?  0 or an errno. */
static int judge(int file, struct cushim_group *group, bool is_made) {
    struct rlimit limit;
    struct stat status;
    if (fstat(file, &status) != 0)
        return errno;
    group->device = status.st_dev;
    group->inode = status.st_ino;
    if (!S_ISREG(status.st_mode))
        return ENOEXEC;
    if (status.st_size == sizeof *group->file)
        return 0;
    if (!is_made || status.st_size)
        return ENOEXEC;
    /* growing a file past it raises a signal */
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < sizeof *group->file)
        return EFBIG;
    return posix_fallocate(file, 0, sizeof *group->file);
}

static int map(int file, struct cushim_group *group) {
    void *memory = mmap(NULL, sizeof *group->file, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED)
        return errno;
    madvise(memory, sizeof *group->file, MADV_DONTFORK); /* a child would keep the lock */
    group->file = memory;
    cushim_cut_file_watch_shared(memory, sizeof *group->file, &group->is_cut);
    return 0;
}

void cushim_group_leave(struct cushim_group *group) {
    if (group->file) {
        cushim_cut_file_forget(group->file);
        munmap(group->file, sizeof *group->file);
    }
    group->file = NULL;
}

static bool is_ours(const struct cushim_group_file *file) {
    return memcmp(file->magic, MAGIC, sizeof file->magic) == 0 &&
           file->n_file_bytes == sizeof *file;
}

/* ---- members ---- */

static void void_row(struct cushim_group_file *file, int row) {
    for (int i = 0; i < CUSHIM_GROUP_DEVICES; i++)
        atomic_store(&file->rows[row].n_bytes[i], 0);
}

static int take_row(int file, struct cushim_group *group) {
    for (group->row = 0; group->row < CUSHIM_GROUP_ROWS && !lock(file, group->row);)
        group->row++;
    if (group->row == CUSHIM_GROUP_ROWS)
        return errno == EINVAL ? ENOLCK : EUSERS;
    if (!is_locked(file, 0, CUSHIM_GROUP_ROWS)) { /* all others are gone, and their limits */
        memset(group->file, 0, sizeof *group->file);
        memcpy(group->file->magic, MAGIC, sizeof group->file->magic);
        group->file->n_file_bytes = sizeof *group->file;
    }
    void_row(group->file, group->row);
    atomic_store(&group->file->rows[group->row].process, (uint64_t)getpid());
    return is_ours(group->file) ? 0 : ENOEXEC;
}

/* The mapping holds the lock, because programs close all descriptors. */
static int check_lock(const struct cushim_group *group) {
    int file = open_file(group->path, false);
    int error = file < 0 ? errno : is_locked(file, group->row, 1) ? 0 : ENOLCK;
    if (file >= 0)
        close(file);
    return error;
}

int cushim_group_join(struct cushim_group *group, const char *name) {
    group->file = NULL;
    int error = find_path(name, true, group->path);
    int file = error ? -1 : open_file(group->path, true);
    if (file < 0)
        return error ? error : errno;
    enter_door(file);
    error = judge(file, group, true);
    if (!error)
        error = map(file, group);
    if (!error)
        error = take_row(file, group);
    unlock(file, DOOR);
    close(file);
    if (!error)
        error = check_lock(group);
    if (error)
        cushim_group_leave(group);
    return error;
}

int cushim_group_look(struct cushim_group *group, const char *name) {
    *group = (struct cushim_group){.row = -1};
    int error = find_path(name, false, group->path);
    int file = error ? -1 : open_file(group->path, false);
    if (file < 0) {
        error = error ? error : errno;
        return error == ENOENT ? ESRCH : error;
    }
    error = judge(file, group, false);
    if (!error && !is_locked(file, 0, CUSHIM_GROUP_ROWS))
        error = ESRCH;
    if (!error)
        error = map(file, group);
    close(file);
    if (!error && !is_ours(group->file)) {
        cushim_group_leave(group);
        error = ENOEXEC;
    }
    return error;
}

int cushim_group_member(const struct cushim_group *group, int row) {
    int file = open_file(group->path, false);
    while (file >= 0 && row < CUSHIM_GROUP_ROWS && !is_locked(file, row, 1))
        row++;
    if (file >= 0)
        close(file);
    return file >= 0 && row < CUSHIM_GROUP_ROWS ? row : -1;
}

const char *cushim_group_fault(int error) {
    switch (error) {
    case ENOEXEC:
        return "the file is not a group's, or of another version of cushim";
    case ENOLCK:
        return "its file system keeps no locks";
    case EUSERS:
        return "it has as many members as there is room for";
    case ESRCH:
        return "no process of it runs";
    case EPERM:
        return "its folder belongs to another user, or others may write to it";
    default:
        return strerror(error);
    }
}

void cushim_group_sweep(struct cushim_group *group) {
    struct stat status;
    int file = open_file(group->path, false);
    bool is_it = file >= 0 && fstat(file, &status) == 0 && status.st_dev == group->device &&
                 status.st_ino == group->inode;
    for (int row = 0; is_it && row < CUSHIM_GROUP_ROWS; row++) {
        bool has_any = false;
        for (int i = 0; i < CUSHIM_GROUP_DEVICES; i++)
            has_any |= atomic_load(&group->file->rows[row].n_bytes[i]) != 0;
        if (!has_any || row == group->row || !lock(file, row))
            continue;
        void_row(group->file, row); /* no new member has it meanwhile, because it is locked */
        unlock(file, row);
    }
    if (file >= 0)
        close(file);
}

/* ---- the account ---- */

static void begin_turn(struct cushim_group *group) {
    uint64_t end_ns = cushim_clock_ns() + turn_ns, none = 0, own = (uint64_t)group->row + 1;
    unsigned n_looks = 0;
    while (!atomic_compare_exchange_strong(&group->file->turn, &none, own)) {
        if (cushim_clock_ns() >= end_ns) {
            atomic_store(&group->file->turn, own); /* its member was killed or stopped */
            return;
        }
        cushim_futex_back_off(&n_looks);
        none = 0;
    }
}

static void end_turn(struct cushim_group *group) {
    uint64_t own = (uint64_t)group->row + 1;
    atomic_compare_exchange_strong(&group->file->turn, &own, 0);
}

int cushim_group_device(struct cushim_group *group, const unsigned char uuid[16],
                        uint64_t total_bytes) {
    struct cushim_group_device *devices = group->file->devices;
    int device = 0;
    begin_turn(group);
    while (device < CUSHIM_GROUP_DEVICES && atomic_load(&devices[device].total_bytes) &&
           memcmp(devices[device].uuid, uuid, sizeof devices[device].uuid) != 0)
        device++;
    if (device < CUSHIM_GROUP_DEVICES && !atomic_load(&devices[device].total_bytes)) {
        memcpy(devices[device].uuid, uuid, sizeof devices[device].uuid);
        atomic_store(&devices[device].total_bytes, total_bytes ? total_bytes : 1);
    }
    end_turn(group);
    return device < CUSHIM_GROUP_DEVICES ? device : -1;
}

uint64_t cushim_group_others_bytes(const struct cushim_group *group, int device) {
    uint64_t n_bytes = 0;
    for (int row = 0; row < CUSHIM_GROUP_ROWS; row++) {
        if (row != group->row)
            n_bytes += atomic_load(&group->file->rows[row].n_bytes[device]);
    }
    return n_bytes;
}

void cushim_group_add(struct cushim_group *group, int device, int64_t n_bytes) {
    atomic_fetch_add(&group->file->rows[group->row].n_bytes[device], (uint64_t)n_bytes);
}

static bool try_charge(struct cushim_group *group, int device, uint64_t n_bytes) {
    uint64_t limit_bytes = atomic_load(&group->file->devices[device].limit_bytes);
    atomic_uint_fast64_t *own = &group->file->rows[group->row].n_bytes[device];
    bool fits = true;
    if (limit_bytes && n_bytes > limit_bytes) /* and no sum overflows */
        return false;
    begin_turn(group);
    uint64_t own_bytes = atomic_fetch_add(own, n_bytes) + n_bytes;
    if (limit_bytes && own_bytes + cushim_group_others_bytes(group, device) > limit_bytes) {
        atomic_fetch_sub(own, n_bytes);
        fits = false;
    }
    end_turn(group);
    return fits;
}

bool cushim_group_charge(struct cushim_group *group, int device, uint64_t n_bytes) {
    if (try_charge(group, device, n_bytes))
        return true;
    if (!cushim_group_others_bytes(group, device))
        return false;
    cushim_group_sweep(group);
    return try_charge(group, device, n_bytes);
}

bool cushim_group_ask(struct cushim_group *group, int device) {
    bool has_asked = false;
    for (int row = 0; row < CUSHIM_GROUP_ROWS; row++) {
        if (row == group->row || !atomic_load(&group->file->rows[row].n_bytes[device]))
            continue;
        atomic_fetch_add(&group->file->rows[row].n_asked, 1);
        has_asked = true;
    }
    return has_asked;
}
