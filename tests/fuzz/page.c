/*
 * Any words in a live page: it is read or refused, and all output about it is text.
 *
 * The input is steps of 12 bytes: an offset in the file and a word to store there. Seven eighths of
 * the steps spare the words by which a page is refused.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/writer.h"
#include "report/page_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

enum { STEP_BYTES = 12, FILE_BYTES = CUSHIM_PAGE_FILE_BYTES + sizeof(struct cushim_page_sites) };
enum { N_REGIONS = 4 };

static char path[] = "/tmp/cushim-fuzz-page-XXXXXX";
static int folder = -1, file = -1, told = -1;
static struct cushim_page page;

static void must(bool is_well) {
    if (!is_well)
        abort();
}

static void tear_down(void) {
    unlinkat(folder, "1-1.page", 0);
    rmdir(path);
}

static void set_up(void) {
    if (folder >= 0)
        return;
    must(mkdtemp(path) != NULL && (folder = open(path, O_RDONLY | O_DIRECTORY)) >= 0);
    atexit(tear_down);
    memcpy(page.head.magic, CUSHIM_PAGE_MAGIC, sizeof page.head.magic);
    page.head.layout = cushim_page_layout();
    page.head.sample_bytes = 1;
    snprintf(page.head.program, sizeof page.head.program, "train");
    snprintf(page.head.version, sizeof page.head.version, "%s", CUSHIM_VERSION_TEXT);
    must((file = cushim_page_file_make(folder, "1-1.page", &page)) >= 0);
    must((told = memfd_create("told", MFD_CLOEXEC)) >= 0);
}

/* The offset of a step, which favours the head and the counters, because they are a small part of
 * the file. */
static size_t place_of(const uint8_t *step) {
    static const size_t ends[N_REGIONS] = {sizeof(struct cushim_page_head), sizeof page,
                                           CUSHIM_PAGE_CALLS_AT, FILE_BYTES};
    uint32_t at;
    memcpy(&at, step, sizeof at);
    return (at >> 2) % (ends[at % N_REGIONS] / 8) * 8;
}

static void check_told(void) {
    static char text[1 << 22];
    ssize_t n = pread(told, text, sizeof text, 0);
    must(n > 0 && n < (ssize_t)sizeof text);
    for (ssize_t i = 0; i < n; i++)
        must((unsigned char)text[i] >= ' ' || text[i] == '\n');
}

static void tell(void (*put)(struct cushim_writer *, const struct cushim_report *),
                 const struct cushim_report *report) {
    struct cushim_writer out = {.fd = told};
    must(ftruncate(told, 0) == 0 && lseek(told, 0, SEEK_SET) == 0);
    put(&out, report);
    cushim_writer_flush(&out);
    must(out.error == 0);
    check_told();
}

/* Restores the words that a reader checks first. */
static void make_readable(void) {
    const struct {
        size_t at, n;
    } parts[] = {{0, offsetof(struct cushim_page_head, state)},
                 {offsetof(struct cushim_page_head, sample_bytes), 8},
                 {offsetof(struct cushim_page_head, version), sizeof page.head.version}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        must(pwrite(file, (const char *)&page + parts[i].at, parts[i].n, (off_t)parts[i].at) ==
             (ssize_t)parts[i].n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
    static struct cushim_report report;
    uint64_t saved[512];
    size_t n = n_bytes / STEP_BYTES;
    n = n < sizeof saved / sizeof *saved ? n : sizeof saved / sizeof *saved;
    set_up();
    for (size_t i = 0; i < n; i++) {
        const uint8_t *step = data + i * STEP_BYTES;
        must(pread(file, &saved[i], 8, (off_t)place_of(step)) == 8);
        must(pwrite(file, step + 4, 8, (off_t)place_of(step)) == 8);
    }
    if (n_bytes % 8)
        make_readable();
    int error = cushim_page_file_read(folder, "1-1.page", &report);
    if (!error) {
        tell(cushim_report_text, &report);
        tell(cushim_report_json, &report);
    }
    must(!error || error == ENOEXEC);
    for (size_t i = n; i-- > 0;)
        must(pwrite(file, &saved[i], 8, (off_t)place_of(data + i * STEP_BYTES)) == 8);
    return 0;
}
