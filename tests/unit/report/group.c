/*
 * Groups: no order of charges passes the limit, and a member that is killed leaves nothing behind.
 * TEST_KILLS is how many are killed.
 */
#include "report/group.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/futex.h"
#include "report/page_file.h"
#include "tests/unit/suite.h"

static const unsigned char uuid[16] = {1, 2, 3}, other_uuid[16] = {4};
static char path[PATH_MAX];
static struct cushim_group first, second;

static void make_path(void) {
    const char *root = getenv("TMPDIR") ? getenv("TMPDIR") : P_tmpdir;
    snprintf(path, sizeof path, "%s/cushim-group-%ld", root, (long)getpid());
}

static void join(struct cushim_group *group) {
    ck_assert_int_eq(cushim_group_join(group, path), 0);
    ck_assert_int_eq(cushim_group_device(group, uuid, 1000), 0);
}

static void begin(void) {
    make_path();
    join(&first);
    join(&second);
    atomic_store(&first.file->devices[0].limit_bytes, 100);
}

static void end(void) {
    cushim_group_leave(&first);
    cushim_group_leave(&second);
    unlink(path);
}

/* ---- the account ---- */

TEST(members_have_the_limit_together) {
    begin();
    ck_assert_int_ne(first.row, second.row);
    ck_assert(cushim_group_charge(&first, 0, 60));
    ck_assert(!cushim_group_charge(&second, 0, 41));
    ck_assert(cushim_group_charge(&second, 0, 40));
    ck_assert(!cushim_group_charge(&first, 0, 1));
    ck_assert_uint_eq(cushim_group_others_bytes(&first, 0), 40);
    cushim_group_add(&second, 0, -10);
    ck_assert(cushim_group_charge(&first, 0, 10));
    cushim_group_add(&second, 0, 500); /* it is there already */
    ck_assert(!cushim_group_charge(&second, 0, 0));
    end();
}

TEST(each_device_has_its_own_account_and_there_may_be_no_limit) {
    begin();
    ck_assert_int_eq(cushim_group_device(&second, other_uuid, 2000), 1);
    ck_assert_int_eq(cushim_group_device(&first, other_uuid, 2000), 1);
    ck_assert_int_eq(cushim_group_device(&first, uuid, 1000), 0);
    ck_assert(cushim_group_charge(&first, 0, 100));
    ck_assert(cushim_group_charge(&first, 1, 1u << 30));
    ck_assert_uint_eq(cushim_group_others_bytes(&second, 1), 1u << 30);
    for (unsigned char i = 0; i < CUSHIM_GROUP_DEVICES - 2; i++)
        ck_assert_int_eq(cushim_group_device(&first, (unsigned char[16]){9, i}, 1), 2 + i);
    ck_assert_int_eq(cushim_group_device(&first, (unsigned char[16]){8}, 1), -1);
    end();
}

TEST(others_are_asked_if_they_have_memory) {
    begin();
    ck_assert(!cushim_group_ask(&first, 0));
    ck_assert(cushim_group_charge(&second, 0, 1));
    ck_assert(cushim_group_ask(&first, 0));
    ck_assert(!cushim_group_ask(&second, 0));
    ck_assert_uint_eq(atomic_load(&second.file->rows[second.row].n_asked), 1);
    ck_assert_uint_eq(atomic_load(&second.file->rows[first.row].n_asked), 0);
    end();
}

/* ---- who is a member ---- */

TEST(the_first_of_all_begins_anew_and_a_later_one_finds_the_limit) {
    begin();
    struct cushim_group looking;
    ck_assert(cushim_group_charge(&second, 0, 7));
    cushim_group_leave(&first);
    ck_assert_int_eq(cushim_group_look(&looking, path), 0);
    ck_assert_uint_eq(cushim_group_others_bytes(&looking, 0), 7);
    ck_assert_uint_eq(atomic_load(&looking.file->devices[0].limit_bytes), 100);
    cushim_group_leave(&second);
    cushim_group_leave(&looking);
    ck_assert_int_eq(cushim_group_look(&looking, path), ESRCH);
    join(&first);
    ck_assert_uint_eq(atomic_load(&first.file->devices[0].limit_bytes), 0);
    ck_assert_uint_eq(cushim_group_others_bytes(&first, 0), 0);
    end();
    ck_assert_int_eq(cushim_group_look(&looking, path), ESRCH);
}

TEST(a_name_is_a_file_in_the_folder_of_this_user) {
    struct cushim_group group;
    make_path();
    ck_assert_int_eq(setenv(CUSHIM_PAGE_FOLDER_VARIABLE, path, 1), 0);
    ck_assert_int_eq(cushim_group_look(&group, "team"), ESRCH);
    ck_assert_int_eq(cushim_group_join(&group, "team"), 0);
    cushim_group_leave(&group);
    strcat(path, "/team.group");
    ck_assert_int_eq(unlink(path), 0);
    *strrchr(path, '/') = 0;
    ck_assert_int_eq(chmod(path, 0777), 0);
    ck_assert_int_eq(cushim_group_join(&group, "team"), EPERM);
    ck_assert_int_eq(rmdir(path), 0);
}

TEST(what_is_no_file_of_a_group_is_refused_and_left_as_it_is) {
    struct cushim_group group;
    struct stat status;
    make_path();
    ck_assert_int_eq(mkdir(path, 0700), 0);
    ck_assert_int_ne(cushim_group_join(&group, path), 0);
    ck_assert_int_eq(rmdir(path), 0);
    ck_assert_int_eq(symlink("/dev/null", path), 0);
    ck_assert_int_eq(cushim_group_join(&group, path), ELOOP);
    ck_assert_int_eq(unlink(path), 0);
    int file = open(path, O_RDWR | O_CREAT, 0600);
    ck_assert_int_eq((int)write(file, "a text", 6), 6);
    ck_assert_int_eq(cushim_group_join(&group, path), ENOEXEC);
    ck_assert(fstat(file, &status) == 0 && status.st_size == 6);
    close(file);
    ck_assert_int_eq(unlink(path), 0);
    begin();
    first.file->n_file_bytes++; /* made by another version, which runs */
    ck_assert_int_eq(cushim_group_join(&group, path), ENOEXEC);
    ck_assert_int_eq(cushim_group_look(&group, path), ENOEXEC);
    cushim_group_leave(&first);
    cushim_group_leave(&second);
    join(&first); /* it ended */
    end();
}

/* ---- turns ---- */

static void *charge_in_turn(void *unused) {
    ck_assert(cushim_group_charge(&second, 0, 7));
    return unused;
}

/* It waits for a member that has the turn, but not for ever. */
TEST(a_member_waits_for_its_turn) {
    pthread_t thread;
    begin();
    for (int i = 0; i < 2; i++) {
        uint64_t start_ns = cushim_clock_ns();
        atomic_store(&first.file->turn, (uint64_t)first.row + 1);
        ck_assert_int_eq(pthread_create(&thread, NULL, charge_in_turn, NULL), 0);
        cushim_futex_nap(30000000);
        bool is_charged = cushim_group_others_bytes(&first, 0) == 7 * (uint64_t)(i + 1);
        ck_assert(!is_charged || cushim_clock_ns() - start_ns >= 100000000);
        if (i == 0)
            atomic_store(&first.file->turn, 0);
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
        ck_assert_uint_eq(cushim_group_others_bytes(&first, 0), 7 * (uint64_t)(i + 1));
        ck_assert_uint_eq(atomic_load(&first.file->turn), 0);
    }
    end();
}

/* ---- many at once ---- */

static pid_t start(void (*work)(void)) {
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child)
        return child;
    work();
    _exit(0);
}

static void take_80(void) {
    struct cushim_group group;
    if (cushim_group_join(&group, path) == 0 && cushim_group_charge(&group, 0, 80))
        kill(getpid(), SIGKILL);
}

TEST(a_member_that_is_killed_leaves_its_memory_to_the_others) {
    int status;
    begin();
    pid_t child = start(take_80);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    ck_assert(cushim_group_charge(&first, 0, 30));
    ck_assert(cushim_group_charge(&second, 0, 70));
    ck_assert(!cushim_group_charge(&first, 0, 1));
    end();
}

/* Charge 1, tell whether it was there to be had, and stay until the parent goes on. */
static int told[2], go[2];

static void take_one(void) {
    struct cushim_group group;
    close(go[1]);
    bool is_in = cushim_group_join(&group, path) == 0;
    char byte = !is_in ? '!' : cushim_group_charge(&group, 0, 1) ? '1' : '0';
    (void)!write(told[1], &byte, 1);
    (void)!read(go[0], &byte, 1);
}

TEST(of_64_members_at_once_as_many_are_served_as_there_is_room_for) {
    enum { N = 64, ROOM = 40 };
    pid_t children[N];
    int n_served = 0;
    begin();
    atomic_store(&first.file->devices[0].limit_bytes, ROOM + 1);
    ck_assert(cushim_group_charge(&first, 0, 1));
    ck_assert(pipe(told) == 0 && pipe(go) == 0);
    for (int i = 0; i < N; i++)
        children[i] = start(take_one);
    for (int i = 0; i < N; i++) {
        char byte;
        ck_assert_int_eq((int)read(told[0], &byte, 1), 1);
        ck_assert_int_ne(byte, '!');
        n_served += byte == '1';
    }
    ck_assert_int_eq(n_served, ROOM);
    ck_assert_uint_eq(cushim_group_others_bytes(&first, 0), ROOM);
    close(go[1]);
    for (int i = 0; i < N; i++)
        ck_assert_int_eq(waitpid(children[i], NULL, 0), children[i]);
    cushim_group_sweep(&first);
    ck_assert_uint_eq(cushim_group_others_bytes(&first, 0), 0);
    end();
}

/* Be killed anywhere. */
static void churn(void) {
    struct cushim_group group;
    for (uint64_t n = (uint64_t)getpid();; n++) {
        if (cushim_group_join(&group, path) != 0)
            continue;
        for (int i = 0; i < 200; i++) {
            if (cushim_group_charge(&group, 0, n % 50))
                cushim_group_add(&group, 0, -(int64_t)(n % 50));
            cushim_group_ask(&group, 0);
        }
        cushim_group_leave(&group);
    }
}

TEST(kills_at_random_moments_leave_no_account_wrong) {
    enum { N = 6 };
    pid_t children[N];
    unsigned long draw = 1;
    const char *text = getenv("TEST_KILLS");
    int n_kills = text ? atoi(text) : 200;
    begin();
    ck_assert(cushim_group_charge(&first, 0, 30));
    for (int i = 0; i < N; i++)
        children[i] = start(churn);
    for (int i = 0; i < n_kills; i++) {
        pid_t *child = &children[i % N];
        draw = draw * 6364136223846793005u + 1442695040888963407u;
        cushim_futex_nap((draw >> 33) % 3000000);
        ck_assert_int_eq(kill(*child, SIGKILL), 0);
        ck_assert_int_eq(waitpid(*child, NULL, 0), *child);
        /* a survivor's row stays */
        ck_assert_uint_eq(atomic_load(&first.file->rows[first.row].n_bytes[0]), 30);
        *child = i + N < n_kills ? start(churn) : 0;
    }
    for (int i = 0; i < N; i++) {
        if (children[i]) {
            kill(children[i], SIGKILL);
            waitpid(children[i], NULL, 0);
        }
    }
    /* all of the rest can be had, and no more, without a sweep that anybody asked for */
    ck_assert(cushim_group_charge(&second, 0, 70));
    ck_assert(!cushim_group_charge(&second, 0, 1));
    ck_assert_uint_eq(cushim_group_others_bytes(&second, 0), 30);
    end();
}

SUITE() {
    return tests_run("group");
}
