/* Page files: read as they were written; and whatever is in them, a reader survives it. */
#include "report/page_file.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "memory/cache/cache.h"
#include "tests/unit/report/full_page.h"
#include "tests/unit/suite.h"

static const char name[] = "1-1.page";
static char path[64];
static int folder;
static struct cushim_report report, as_read;

static void in_folder(void) {
    const char *root = getenv("TMPDIR") ? getenv("TMPDIR") : P_tmpdir;
    ck_assert_int_eq(chdir(root), 0);
    strcpy(path, "cushim-page-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(path));
    ck_assert_int_eq(setenv(CUSHIM_PAGE_FOLDER_VARIABLE, path, 1), 0);
    folder = cushim_page_folder_open(false);
    ck_assert_int_ge(folder, 0);
}

static void leave_folder(void) {
    unlinkat(folder, name, 0);
    close(folder);
    ck_assert_int_eq(rmdir(path), 0);
}

static void fill(void) {
    full_page(&report, 10);
    memcpy(report.page.head.magic, CUSHIM_PAGE_MAGIC, 8);
    report.page.head.layout = cushim_page_layout();
    report.page.head.address = (uint64_t)&report.page;
    strcpy(report.page.head.version, CUSHIM_VERSION_TEXT);
}

TEST(a_page_is_read_as_it_was_written) {
    in_folder();
    fill();
    int file = cushim_page_file_make(folder, name, &report.page);
    ck_assert_int_ge(file, 0);
    ck_assert_int_eq(cushim_page_file_make(folder, name, &report.page), -1);
    ck_assert_int_eq(errno, EEXIST);
    ck_assert_int_eq(cushim_page_file_read(folder, name, &as_read), 0);
    for (int device = 0; device < 2; device++) { /* bytes that a terminal would obey */
        ck_assert_str_eq(as_read.page.device_names[device], "NVIDIA \"quoted\" \\ ? H200");
        strcpy(report.page.device_names[device], as_read.page.device_names[device]);
    }
    ck_assert_mem_eq(&as_read.page, &report.page, sizeof report.page);
    close(file);
    leave_folder();
}

/* A row belongs to the counters that it names by their address in its process. */
TEST(rows_of_caches_are_added) {
    static struct cushim_mem_cache cache;
    struct cushim_mem_stats *stats = &report.page.stats[1][CUSHIM_KIND_PINNED];
    in_folder();
    fill();
    report.page.head.n_caches = 2;
    cache.row.counts.n_hits = 5;
    cache.row.counts.unpublished_bytes = 7;
    cache.row.counts.most_bytes = 9;
    cache.row.stats = stats;
    int file = cushim_page_file_make(folder, name, &report.page);
    ck_assert_int_eq(pwrite(file, &cache.row, CUSHIM_PAGE_CACHE_BYTES, sizeof report.page),
                     CUSHIM_PAGE_CACHE_BYTES);
    ck_assert_int_eq(cushim_page_file_read(folder, name, &as_read), 0);
    const struct cushim_mem_stats *sum = &as_read.page.stats[1][CUSHIM_KIND_PINNED];
    ck_assert_uint_eq(sum->n_requests, 15);
    ck_assert_uint_eq(sum->live_bytes, 17);
    ck_assert_uint_eq(sum->peak_live_bytes, 19);
    ck_assert_uint_eq(as_read.page.stats[0][CUSHIM_KIND_PINNED].n_requests, 10);
    close(file);
    leave_folder();
}

/* The stores of a process while its page is read. */
static struct cushim_page *mapped;
static struct cushim_mem_cache_row *row;
static atomic_bool is_over;

static void *take_and_give(void *unused) {
    while (!atomic_load(&is_over)) {
        cushim_mem_stats_add(&mapped->stats[0][CUSHIM_KIND_DEVICE].n_requests, 1);
        cushim_mem_cache_bump(&row->counts.n_frees, 1);
    }
    return unused;
}

TEST(no_page_has_more_frees_than_requests) {
    pthread_t process;
    unsigned n_wrong = 0;
    const struct cushim_mem_stats *stats = &as_read.page.stats[0][CUSHIM_KIND_DEVICE];
    in_folder();
    fill();
    report.page.head.n_caches = 1;
    int file = cushim_page_file_make(folder, name, &report.page);
    mapped = mmap(NULL, CUSHIM_PAGE_CALLS_AT, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    ck_assert_ptr_ne(mapped, MAP_FAILED);
    row = (struct cushim_mem_cache_row *)(mapped + 1);
    row->stats = &report.page.stats[0][CUSHIM_KIND_DEVICE];
    atomic_store(&is_over, false);
    ck_assert_int_eq(pthread_create(&process, NULL, take_and_give, NULL), 0);
    for (unsigned i = 0; i < suite_turns(suite_steps(2000)); i++) {
        ck_assert_int_eq(cushim_page_file_read(folder, name, &as_read), 0);
        n_wrong +=
            cushim_mem_stats_read(&stats->n_frees) > cushim_mem_stats_read(&stats->n_requests);
    }
    atomic_store(&is_over, true);
    pthread_join(process, NULL);
    ck_assert_uint_eq(n_wrong, 0);
    ck_assert_int_eq(cushim_page_file_read(folder, name, &as_read), 0);
    ck_assert_uint_eq(stats->n_frees, stats->n_requests);
    munmap(mapped, CUSHIM_PAGE_CALLS_AT);
    close(file);
    leave_folder();
}

TEST(another_version_and_another_layout_are_refused) {
    in_folder();
    fill();
    strcpy(report.page.head.version, "0.0.9");
    close(cushim_page_file_make(folder, name, &report.page));
    ck_assert_int_eq(cushim_page_file_read(folder, name, &as_read), ENOEXEC);
    unlinkat(folder, name, 0);
    fill();
    report.page.head.layout--;
    close(cushim_page_file_make(folder, name, &report.page));
    ck_assert_int_eq(cushim_page_file_read(folder, name, &as_read), ENOEXEC);
    leave_folder();
}

/* Also in a page that any process may have written. */
TEST(texts_end_within_their_bytes) {
    in_folder();
    fill();
    struct cushim_page_head *head = &report.page.head;
    memset(head->arguments, 'x', sizeof head->arguments);
    head->n_argument_bytes = UINT64_MAX;
    memset(head->host, 'y', sizeof head->host);
    memset(head->boot, 'y', sizeof head->boot);
    memset(head->folder, 'z', sizeof head->folder);
    memset(report.page.device_places, 'p', sizeof report.page.device_places);
    close(cushim_page_file_make(folder, name, &report.page));
    ck_assert_int_eq(cushim_page_file_read(folder, name, &as_read), 0);
    head = &as_read.page.head;
    const char *text = cushim_report_next_text(head->arguments, head->n_argument_bytes, NULL);
    ck_assert_uint_eq(strlen(text), sizeof head->arguments - 1);
    ck_assert_ptr_null(cushim_report_next_text(head->arguments, head->n_argument_bytes, text));
    ck_assert_ptr_null(cushim_report_next_text(head->options, head->n_option_bytes, NULL));
    ck_assert_uint_eq(strlen(head->host), sizeof head->host - 1);
    ck_assert_uint_eq(strlen(head->boot), sizeof head->boot - 1);
    ck_assert_uint_eq(strlen(head->folder), sizeof head->folder - 1);
    ck_assert_uint_eq(strlen(as_read.page.device_places[0]), CUSHIM_PCI_BYTES - 1);
    leave_folder();
}

/* Bits of the head, the counters and the rows: refused, or shown as something. */
TEST(flipped_bits_harm_no_reader) {
    uint64_t seed = 7;
    unsigned n_read = 0;
    in_folder();
    fill();
    report.page.head.n_caches = CUSHIM_PAGE_CACHES;
    int file = cushim_page_file_make(folder, name, &report.page);
    for (unsigned i = 0; i < suite_steps(10000); i++) {
        off_t range = suite_random(&seed) % 2 ? 512 : (off_t)CUSHIM_PAGE_FILE_BYTES;
        off_t at = (off_t)(suite_random(&seed) % (uint64_t)range);
        unsigned char byte, flipped;
        ck_assert_int_eq(pread(file, &byte, 1, at), 1);
        flipped = byte ^ (unsigned char)(1 << suite_random(&seed) % 8);
        ck_assert_int_eq(pwrite(file, &flipped, 1, at), 1);
        if (cushim_page_file_read(folder, name, &as_read) == 0 && i % 16 == 0) {
            ck_assert_uint_gt(strlen(full_page_written(cushim_report_text, &as_read)), 0);
            ck_assert_uint_gt(strlen(full_page_written(cushim_report_json, &as_read)), 0);
            n_read++;
        }
        if (range == 512) /* the head stays one, so that the rest is read */
            ck_assert_int_eq(pwrite(file, &byte, 1, at), 1);
    }
    ck_assert_uint_gt(n_read, 0);
    close(file);
    leave_folder();
}

TEST(a_cut_file_is_refused) {
    in_folder();
    fill();
    int file = cushim_page_file_make(folder, name, &report.page);
    const off_t step_bytes = 64 * 1000 / suite_steps(1000);
    for (off_t n_bytes = CUSHIM_PAGE_FILE_BYTES - 1; n_bytes > 0; n_bytes -= step_bytes) {
        ck_assert_int_eq(ftruncate(file, n_bytes), 0);
        ck_assert_int_eq(cushim_page_file_read(folder, name, &as_read), ENOEXEC);
    }
    close(file);
    leave_folder();
}

TEST(a_folder_for_others_is_refused) {
    in_folder();
    const mode_t modes[] = {0710, 0701, 0755, 0770, 0777};
    for (unsigned i = 0; i < sizeof modes / sizeof *modes; i++) {
        ck_assert_int_eq(chmod(path, modes[i]), 0);
        ck_assert_int_eq(cushim_page_folder_open(true), -1);
        ck_assert_int_eq(errno, EPERM);
    }
    ck_assert_int_eq(chmod(path, 0700), 0);
    ck_assert_int_eq(symlink(path, "cushim-page-link"), 0);
    setenv(CUSHIM_PAGE_FOLDER_VARIABLE, "cushim-page-link", 1);
    int opened = cushim_page_folder_open(true);
    unlink("cushim-page-link");
    ck_assert_int_eq(opened, -1);
    leave_folder();
}

/* The signal of a file that grows too large would end the program. */
TEST(a_limit_on_files_is_an_error_and_no_signal) {
    struct rlimit limit;
    in_folder();
    fill();
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = CUSHIM_PAGE_FILE_BYTES - 1;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    ck_assert_int_eq(cushim_page_file_make(folder, name, &report.page), -1);
    ck_assert_int_eq(errno, EFBIG);
    ck_assert_int_eq(cushim_page_file_read(folder, name, &as_read), ENOENT);
    leave_folder();
}

/* The lock shows it, whatever number the process has; if it could have none, the mapped file does.
 */
TEST(a_page_lives_as_long_as_its_lock) {
    char own_name[CUSHIM_PAGE_NAME_BYTES];
    in_folder();
    fill();
    report.page.head.is_locked = 1;
    int file = cushim_page_file_make(folder, name, &report.page);
    ck_assert(cushim_page_is_alive(folder, name));
    void *held = mmap(NULL, CUSHIM_PAGE_BYTES, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    ck_assert(cushim_page_is_alive(folder, name)); /* the mapping holds it */
    munmap(held, CUSHIM_PAGE_BYTES);
    ck_assert(!cushim_page_is_alive(folder, name));
    unlinkat(folder, name, 0);
    ck_assert(!cushim_page_is_alive(folder, name));

    report.page.head.is_locked = 0;
    report.page.head.namespace = cushim_page_namespace();
    snprintf(own_name, sizeof own_name, "%ld-1.page", (long)getpid());
    close(file = cushim_page_file_make(folder, own_name, &report.page));
    ck_assert(!cushim_page_is_alive(folder, own_name));
    file = openat(folder, own_name, O_RDONLY);
    held = mmap(NULL, CUSHIM_PAGE_BYTES, PROT_READ, MAP_SHARED, file, 0);
    ck_assert(cushim_page_is_alive(folder, own_name));
    munmap(held, CUSHIM_PAGE_BYTES);
    close(file);
    unlinkat(folder, own_name, 0);
    report.page.head.namespace ++; /* its number says nothing here */
    close(cushim_page_file_make(folder, own_name, &report.page));
    ck_assert(cushim_page_is_alive(folder, own_name));
    unlinkat(folder, own_name, 0);
    close(file = openat(folder, name, O_RDWR | O_CREAT, 0600)); /* just made, and nothing in it */
    ck_assert(cushim_page_is_alive(folder, name));
    leave_folder();
}

/* Of files that may hold anything: the name of a process is told only if it lives, has another page
 * than the one that asks, and says what can be. */
TEST(others_that_hold_a_device_are_named_or_left_out) {
    struct cushim_page_other others[2] = {{.n_bytes = 0}};
    struct cushim_page_head own = {.process = 7, .start_ns = 1};
    uint64_t seed = 3;
    in_folder();
    fill();
    report.page.head.process = 4711;
    strcpy(report.page.head.program, "held\x1b by a name that is longer than what is kept");
    memcpy(report.page.device_uuids[1], "cushim-software1", 16);
    const unsigned char *uuid = report.page.device_uuids[1];
    int file = cushim_page_file_make(folder, name, &report.page);
    cushim_page_find_others(&own, uuid, UINT64_MAX, others, 2);
    ck_assert_uint_eq(others[0].process, 4711);
    ck_assert_str_eq(others[0].program, "held? by a name that is longer ");
    ck_assert_uint_eq(others[1].n_bytes, 0);
    uint64_t n_bytes = others[0].n_bytes;
    ck_assert_uint_gt(n_bytes, 0);
    others[0].n_bytes = 0;
    cushim_page_find_others(&own, uuid, n_bytes - 1, others, 2);
    cushim_page_find_others(&own, (const unsigned char *)"another device..", n_bytes, others, 2);
    cushim_page_find_others(&report.page.head, uuid, n_bytes, others, 2);
    ck_assert_uint_eq(others[0].n_bytes, 0);
    for (unsigned k = 0; k < suite_steps(100); k++) {
        uint64_t word = suite_random(&seed);
        ck_assert_int_eq(pwrite(file, &word, sizeof word, (off_t)(word >> 8) % (1 << 16) & ~7), 8);
        cushim_page_find_others(&own, uuid, UINT64_MAX, others, 2);
        ck_assert_ptr_nonnull(memchr(others[0].program, 0, sizeof others[0].program));
    }
    ck_assert_int_eq(ftruncate(file, CUSHIM_PAGE_BYTES), 0);
    memset(others, 0, sizeof others);
    cushim_page_find_others(&own, uuid, UINT64_MAX, others, 2);
    close(file);
    unlinkat(folder, name, 0);
    close(cushim_page_file_make(folder, name, &report.page)); /* its process has ended */
    cushim_page_find_others(&own, uuid, UINT64_MAX, others, 2);
    ck_assert_uint_eq(others[0].n_bytes, 0);
    leave_folder();
}

/* A process that can only read a page does not keep it alive. */
TEST(readers_hold_no_lock) {
    in_folder();
    fill();
    report.page.head.is_locked = 1;
    close(cushim_page_file_make(folder, name, &report.page));
    int reader = openat(folder, name, O_RDONLY);
    ck_assert_int_eq(flock(reader, LOCK_EX), 0);
    struct flock shared = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
    ck_assert_int_eq(fcntl(reader, F_OFD_SETLK, &shared), 0);
    ck_assert(!cushim_page_is_alive(folder, name));
    close(reader);
    leave_folder();
}

/* Zeros take no memory; 64 KiB are enough for a page of which little is used. */
TEST(a_file_has_holes) {
    struct stat status;
    in_folder();
    memset(&report, 0, sizeof report);
    memcpy(report.page.head.magic, CUSHIM_PAGE_MAGIC, 8);
    int file = cushim_page_file_make(folder, name, &report.page);
    ck_assert_int_eq(fstat(file, &status), 0);
    ck_assert_int_eq(status.st_size, CUSHIM_PAGE_FILE_BYTES);
    ck_assert_int_lt(status.st_blocks * 512, 1 << 16);
    close(file);
    leave_folder();
}

/* If the owner lets the group read the folder, the group can read the pages, and no other user. */
TEST(a_group_reads_what_the_folder_lets_it) {
    struct stat status, around;
    in_folder();
    fill();
    ck_assert_int_eq(chmod(path, 0750), 0);
    int opened = cushim_page_folder_open(true);
    ck_assert_int_ge(opened, 0);
    close(opened);
    close(cushim_page_file_make(folder, name, &report.page));
    ck_assert_int_eq(fstatat(folder, name, &status, 0), 0);
    ck_assert_int_eq(fstat(folder, &around), 0);
    ck_assert_uint_eq(status.st_mode & 0777, 0640);
    ck_assert_uint_eq(status.st_gid, around.st_gid);
    unlinkat(folder, name, 0);
    ck_assert_int_eq(chmod(path, 0700), 0);
    close(cushim_page_file_make(folder, name, &report.page));
    ck_assert_int_eq(fstatat(folder, name, &status, 0), 0);
    ck_assert_uint_eq(status.st_mode & 0777, 0600);
    leave_folder();
}

/* In a folder that any user can write to, or of root: as another user, or as root. */
TEST(a_page_of_somebody_else_than_the_folder_is_refused) {
    in_folder();
    fill();
    close(cushim_page_file_make(folder, name, &report.page));
    ck_assert_int_eq(cushim_page_file_read(folder, name, &as_read), 0);
    if (geteuid() == 0) {
        ck_assert_int_eq(fchownat(folder, name, 65534, (gid_t)-1, 0), 0);
        ck_assert_int_eq(cushim_page_file_read(folder, name, &as_read), EPERM);
    } else {
        char other[64];
        int root = open("/tmp", O_RDONLY | O_DIRECTORY);
        snprintf(other, sizeof other, "cushim-%ld-1.page", (long)getpid());
        close(cushim_page_file_make(root, other, &report.page));
        int error = cushim_page_file_read(root, other, &as_read);
        unlinkat(root, other, 0);
        close(root);
        ck_assert_int_eq(error, EPERM);
    }
    leave_folder();
}

/* The last event that has a time, or the normal end. */
TEST(how_long_a_process_is_known_to_have_run) {
    struct cushim_page *page = &report.page;
    fill();
    for (int device = 0; device < 2; device++) {
        for (int kind = 0; kind < CUSHIM_N_KINDS; kind++)
            page->stats[device][kind].last_ns = 0;
    }
    page->head.start_ns = 1000;
    page->head.state = CUSHIM_PAGE_RUNNING;
    ck_assert_uint_eq(cushim_page_known_ns(page), 0);
    page->stats[0][CUSHIM_KIND_PINNED].last_ns = 3000;
    page->stats[1][CUSHIM_KIND_DEVICE].last_ns = 2500;
    ck_assert_uint_eq(cushim_page_known_ns(page), 2000);
    page->head.state = CUSHIM_PAGE_LEFT;
    page->head.end_ns = 1500;
    ck_assert_uint_eq(cushim_page_known_ns(page), 500);
    page->head.end_ns = 10;
    ck_assert_uint_eq(cushim_page_known_ns(page), 0);
}

SUITE() {
    return tests_run("page_file");
}
