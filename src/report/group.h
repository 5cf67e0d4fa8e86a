/*
 * A group: processes that share the limit of each device (--limit-group), and the file by which
 * they do.
 *
 * Each member has a row of the file, with the bytes that it has of each device, and a lock on the
 * byte of that number (fcntl(2), F_OFD_SETLK), whatever namespace it is in.  What the rows have
 * together is what the group has.  A row whose byte nobody has locked is void, so a member that is
 * killed leaves nothing behind.  The first member of all finds no lock, and begins anew.
 *
 * A member adds to its row first, and takes that back if the sum is over the limit, so no order of
 * events passes it.  It does so in its turn, because of two that add at once both would be over. A
 * turn is only a promise: the next member takes it after a tenth of a second.
 *
 * Who may write the file may write anything: members trust each other.
 */
#ifndef CUSHIM_REPORT_GROUP_H
#define CUSHIM_REPORT_GROUP_H

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { CUSHIM_GROUP_ROWS = 256, CUSHIM_GROUP_DEVICES = 16 };

struct cushim_group_file {
    char magic[8];
    uint64_t n_file_bytes;     /* sizeof, which is another in another version */
    atomic_uint_fast64_t turn; /* the number of the row that has it, plus 1; 0: none */
    struct cushim_group_device {
        unsigned char uuid[16];           /* written in a turn */
        atomic_uint_fast64_t total_bytes; /* of the device; 0: the row is free */
        atomic_uint_fast64_t limit_bytes; /* 0: none */
    } devices[CUSHIM_GROUP_DEVICES];
    struct {
        atomic_uint_fast64_t process; /* its number, as it sees itself */
        atomic_uint_fast64_t n_asked; /* how often others asked it to give back idle memory */
        atomic_uint_fast64_t n_bytes[CUSHIM_GROUP_DEVICES];
    } rows[CUSHIM_GROUP_ROWS];
};

struct cushim_group {
    struct cushim_group_file *file; /* NULL: none */
    int row;                        /* -1: it only looks */
    char path[PATH_MAX];
    dev_t device; /* and inode of the file */
    ino_t inode;
    atomic_bool is_cut; /* the account is lost */
};

/*
 * Become a member of a group: NAME, of this user, or the path of a file.  0, or an errno: ENOLCK if
 * the file system has no lock that lasts, EUSERS if all rows are taken, ENOEXEC if the file is
 * something else, or of another version.
 */
int cushim_group_join(struct cushim_group *group, const char *name);

/* Look at a group; ESRCH if it has no member. */
int cushim_group_look(struct cushim_group *group, const char *name);

/* The member that has the first row from this one on; -1: none. */
int cushim_group_member(const struct cushim_group *group, int row);

/* What such an error means. */
const char *cushim_group_fault(int error);

/* Unmap the file; a member's row is void. */
void cushim_group_leave(struct cushim_group *group);

/* The number of a device; -1: there is no room. */
int cushim_group_device(struct cushim_group *group, const unsigned char uuid[16],
                        uint64_t total_bytes);

/* Charge this member; false: that would pass the limit, and nothing is charged. */
bool cushim_group_charge(struct cushim_group *group, int device, uint64_t n_bytes);

/* The same, in any case; a negative number gives back. */
void cushim_group_add(struct cushim_group *group, int device, int64_t n_bytes);

/* What the other members have. */
uint64_t cushim_group_others_bytes(const struct cushim_group *group, int device);

/* Void the rows of members that are gone. */
void cushim_group_sweep(struct cushim_group *group);

/* Ask the others that have memory there to give back what is idle; false: there are none. */
bool cushim_group_ask(struct cushim_group *group, int device);

#endif
