/* Drafts: files that appear complete or not at all. */
#include "base/draft.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/suite.h"

static char folder[64], path[128];
static struct cushim_draft draft;

/* Each test removes the folder that it makes. */
static void in_folder(void) {
    const char *root = getenv("TMPDIR") ? getenv("TMPDIR") : P_tmpdir;
    ck_assert_int_eq(chdir(root), 0);
    strcpy(folder, "cushim-draft-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/report", folder);
}

static void leave_folder(void) {
    unlink(path);
    ck_assert_int_eq(rmdir(folder), 0); /* fails if anything else is left in it */
}

static unsigned count_files(void) {
    unsigned n = 0;
    DIR *open_folder = opendir(folder);
    for (const struct dirent *entry; (entry = readdir(open_folder));)
        n += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(open_folder);
    return n;
}

static void put(const char *text) {
    int file = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0644);
    ck_assert_int_eq(write(file, text, strlen(text)), (ssize_t)strlen(text));
    close(file);
}

static void check_text(const char *wanted) {
    char text[16] = "";
    int file = open(path, O_RDONLY);
    ck_assert_int_ge(read(file, text, sizeof text - 1), 0);
    close(file);
    ck_assert_str_eq(text, wanted);
}

TEST(a_file_is_private_to_its_owner_and_appears_once_it_is_complete) {
    struct stat about;
    in_folder();
    umask(0);
    for (int i = 0; i < 2; i++) {
        put("before");
        ck_assert_int_eq(cushim_draft_begin(&draft, path), 0);
        ck_assert_int_eq(fcntl(draft.fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
        ck_assert_int_eq(write(draft.fd, "text", 4), 4);
        check_text("before");
        ck_assert_int_eq(cushim_draft_end(&draft, 0), 0);
        check_text("text");
        ck_assert_int_eq(stat(path, &about), 0);
        ck_assert_uint_eq(about.st_mode & 0777, 0600);
        ck_assert_uint_eq(count_files(), 1);
    }
    leave_folder();
}

TEST(a_failed_write_leaves_the_old_file) {
    in_folder();
    put("before");
    ck_assert_int_eq(cushim_draft_begin(&draft, path), 0);
    ck_assert_int_eq(write(draft.fd, "te", 2), 2);
    ck_assert_int_eq(cushim_draft_end(&draft, ENOSPC), ENOSPC);
    check_text("before");
    unlink(path);
    ck_assert_int_eq(cushim_draft_begin(&draft, path), 0);
    ck_assert_int_eq(cushim_draft_end(&draft, ENOSPC), ENOSPC);
    leave_folder();
}

TEST(an_exclusive_draft_does_not_replace_a_file) {
    in_folder();
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(cushim_draft_begin(&draft, path), 0);
        draft.is_new = true;
        ck_assert_int_eq(write(draft.fd, i ? "2nd" : "first", i ? 3 : 5), i ? 3 : 5);
        ck_assert_int_eq(cushim_draft_end(&draft, 0), i ? EEXIST : 0);
        check_text("first");
    }
    leave_folder();
}

TEST(two_drafts_of_one_file_are_each_complete) {
    struct cushim_draft other;
    in_folder();
    ck_assert_int_eq(cushim_draft_begin(&draft, path), 0);
    ck_assert_int_eq(cushim_draft_begin(&other, path), 0);
    ck_assert_int_eq(write(draft.fd, "first", 5), 5);
    ck_assert_int_eq(write(other.fd, "2nd", 3), 3);
    ck_assert_int_eq(cushim_draft_end(&draft, 0), 0);
    check_text("first");
    ck_assert_int_eq(cushim_draft_end(&other, 0), 0);
    check_text("2nd");
    leave_folder();
}

TEST(a_symbolic_link_is_never_written_through) {
    char link[96];
    in_folder();
    put("kept");
    snprintf(link, sizeof link, "%s/link", folder);
    ck_assert_int_eq(symlink("report", link), 0);
    ck_assert_int_eq(cushim_draft_begin(&draft, link), ELOOP);
    check_text("kept");
    unlink(link);
    leave_folder();
}

TEST(a_path_without_a_folder_or_of_a_folder_is_refused) {
    char nowhere[96];
    in_folder();
    snprintf(nowhere, sizeof nowhere, "%s/none/report", folder);
    ck_assert_int_eq(cushim_draft_begin(&draft, nowhere), ENOENT);
    ck_assert_int_eq(cushim_draft_begin(&draft, folder), EISDIR);
    leave_folder();
}

TEST(a_pipe_without_a_reader_does_not_hang_the_program) {
    in_folder();
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    ck_assert_int_eq(cushim_draft_begin(&draft, path), ENXIO);
    leave_folder();
}

TEST(a_device_is_written_in_place) {
    ck_assert_int_eq(cushim_draft_begin(&draft, "/dev/null"), 0);
    ck_assert_int_eq(write(draft.fd, "text", 4), 4);
    ck_assert_int_eq(cushim_draft_end(&draft, 0), 0);
    struct stat about;
    ck_assert_int_eq(stat("/dev/null", &about), 0);
    ck_assert(S_ISCHR(about.st_mode));
}

SUITE() {
    return tests_run("draft");
}
