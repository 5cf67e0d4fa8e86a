/* A mapped file that is cut: root's process goes on, and every other fault ends it as before. */
#include "base/cut_file.h"

#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/base/sigbus.h"
#include "tests/unit/suite.h"

enum { N_PAGES = 4 };

static size_t page_bytes;
static int file;
static volatile char *memory;
static atomic_bool is_cut;

/* A file of some pages with an `a` in each, mapped. */
static void map(void) {
    page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    file = fileno(tmpfile());
    ck_assert_int_eq(ftruncate(file, (off_t)(N_PAGES * page_bytes)), 0);
    memory = mmap(NULL, N_PAGES * page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    ck_assert_ptr_ne((void *)memory, MAP_FAILED);
    for (size_t i = 0; i < N_PAGES; i++)
        memory[i * page_bytes] = 'a';
    is_cut = false;
}

/* Run it in a child: the signal that ended the child; 0 if it returned. */
static int signal_of(void (*run)(void)) {
    int status;
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        run();
        _exit(0);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : -WEXITSTATUS(status);
}

static void touch(void) {
    memory[N_PAGES * page_bytes - 1] = 'b';
}

static void cut_and_touch(void) {
    if (ftruncate(file, 0) == 0)
        touch();
}

TEST_IF(may_survive_a_cut(), a_page_that_is_cut_becomes_zeros_of_the_process) {
    map();
    cushim_cut_file_watch((char *)memory, N_PAGES * page_bytes, &is_cut);
    ck_assert(has_sigbus_handler() && !is_cut);
    ck_assert_int_eq(ftruncate(file, (off_t)page_bytes), 0);
    touch();
    ck_assert(is_cut);
    ck_assert_int_eq(memory[0], 'a'); /* in the file still */
    ck_assert_int_eq(memory[page_bytes], 0);
    ck_assert_int_eq(memory[(N_PAGES - 1) * page_bytes], 0);
    ck_assert_int_eq(memory[N_PAGES * page_bytes - 1], 'b');
    cushim_cut_file_forget((char *)memory);
}

static void touch_beside(void) {
    cushim_cut_file_watch((char *)memory, page_bytes, &is_cut);
    if (ftruncate(file, 0) == 0)
        memory[page_bytes] = 'b';
}

static void send(void) {
    cushim_cut_file_watch((char *)memory, page_bytes, &is_cut);
    kill(getpid(), SIGBUS);
}

TEST_IF(may_survive_a_cut(), another_fault_ends_the_process) {
    map();
    ck_assert_int_eq(signal_of(touch_beside), SIGBUS);
}

TEST_IF(may_survive_a_cut(), a_signal_that_is_sent_ends_the_process) {
    map();
    ck_assert_int_eq(signal_of(send), SIGBUS);
}

TEST_IF(may_survive_a_cut(), the_handler_goes_with_the_last_mapping) {
    map();
    cushim_cut_file_watch((char *)memory, page_bytes, &is_cut);
    cushim_cut_file_watch((char *)memory + page_bytes, page_bytes, &is_cut);
    cushim_cut_file_forget((char *)memory);
    ck_assert(has_sigbus_handler());
    cushim_cut_file_forget((char *)memory + page_bytes);
    ck_assert(!has_sigbus_handler());
    ck_assert_int_eq(signal_of(cut_and_touch), SIGBUS);
}

static void leave(int signal) {
    _exit(signal == SIGBUS ? 7 : 8);
}

static void have_a_handler_before(void) {
    signal(SIGBUS, leave);
    cushim_cut_file_watch((char *)memory, N_PAGES * page_bytes, &is_cut);
    cut_and_touch();
}

static void have_a_handler_later(void) {
    cushim_cut_file_watch((char *)memory, N_PAGES * page_bytes, &is_cut);
    signal(SIGBUS, leave);
    cushim_cut_file_forget((char *)memory);
    cut_and_touch();
}

TEST(a_handler_of_the_program_stays) {
    map();
    ck_assert_int_eq(signal_of(have_a_handler_before), -7);
    ck_assert_int_eq(ftruncate(file, (off_t)(N_PAGES * page_bytes)), 0);
    ck_assert_int_eq(signal_of(have_a_handler_later), -7);
}

static void cut_as_user(void) {
    if (setuid(65534) != 0)
        _exit(9);
    cushim_cut_file_watch((char *)memory, N_PAGES * page_bytes, &is_cut);
    _exit(has_sigbus_handler());
}

TEST_IF(may_survive_a_cut(), a_user_has_no_handler) {
    map();
    ck_assert_int_eq(signal_of(cut_as_user), 0);
}

static void cut_shared_as_user(void) {
    if (setuid(65534) != 0)
        _exit(9);
    cushim_cut_file_watch_shared((char *)memory, N_PAGES * page_bytes, &is_cut);
    cut_and_touch();
    _exit(is_cut ? 3 : 4);
}

TEST_IF(may_survive_a_cut(), a_user_survives_the_cut_of_a_file_that_others_may_write) {
    map();
    ck_assert_int_eq(signal_of(cut_shared_as_user), -3);
}

TEST(mappings_without_room_are_not_watched) {
    map();
    for (size_t i = 0; i < 2000; i++)
        cushim_cut_file_watch((char *)memory + i, 1, &is_cut);
    for (size_t i = 0; i < 2000; i++)
        cushim_cut_file_forget((char *)memory + i);
}

SUITE() {
    return tests_run("cut_file");
}
