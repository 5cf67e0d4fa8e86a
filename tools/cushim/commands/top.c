#include "tools/cushim/commands.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/utf8.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/writer.h"
#include "report/words.h"
#include "tools/cushim/arguments.h"
#include "tools/cushim/pages.h"
#include "tools/cushim/devices.h"
#include "tools/cushim/commands/screen.h"
#include "tools/cushim/suspended.h"
#include "tools/cushim/symbols.h"
#include "tools/cushim/usage.h"

/* ---- what was seen ---- */

enum { N_PAST = 60, LINE_BYTES = 512 };

/* A device of a process. */
struct row {
    char page[CUSHIM_PAGE_NAME_BYTES]; /* identifies the process even if its number is reused */
    int64_t process;
    uid_t user;
    char program[CUSHIM_NAME_BYTES];
    int device;
    bool is_seen, is_alive;
    uint64_t live_bytes, held_bytes, spare_bytes, spilled_bytes, unaccounted_bytes, limit_bytes;
    struct sample {
        uint64_t n_requests, wait_ns, at_ns;
    } now, before;               /* of this look, and of the one before */
    uint64_t past_bytes[N_PAST]; /* what was held, the last look last */
    unsigned n_past;
    uint64_t most_bytes; /* the most that was held since the first look, or since the key r */
};

enum sort { BY_HELD, BY_LIVE, BY_REQUESTS, BY_PROCESS, N_SORTS };

struct top {
    struct row *rows;
    size_t n;
    struct devices devices; /* of live processes */
    unsigned every_ms;
    enum sort sort;
    size_t chosen;                                 /* the index of a row */
    enum detail { TABLE, REPORT, TROUBLE } detail; /* what is shown of the chosen row */
    struct screen_picture *picture;                /* that is drawn */
    bool is_paused, is_utf8, has_devices;
    bool is_once, is_batch, has_users, has_limits;
};

static const char *const sort_names[N_SORTS] = {"held", "live", "requests/s", "process"};

static struct row *row_of(struct top *top, const struct page *page, int device) {
    struct row *row;
    for (size_t i = 0; i < top->n; i++) {
        if (top->rows[i].device == device && strcmp(top->rows[i].page, page->name) == 0)
            return &top->rows[i];
    }
    LIST_ADD(top->rows, top->n, row);
    if (!row)
        return NULL;
    *row = (struct row){
        .process = page->report->page.head.process, .user = page->user, .device = device};
    snprintf(row->page, sizeof row->page, "%s", page->name);
    snprintf(row->program, sizeof row->program, "%s", page->report->page.head.program);
    return row;
}

static void take_device(struct top *top, const struct page *page, int device) {
    struct row *row = row_of(top, page, device);
    const struct cushim_mem_stats *stats =
        cushim_report_stats(page->report, device, CUSHIM_KIND_DEVICE);
    struct cushim_report_held held = cushim_report_held(stats);
    if (!row)
        return;
    row->is_seen = true;
    row->is_alive = page->is_alive;
    row->before = row->now;
    row->now = (struct sample){cushim_mem_stats_read(&stats->n_requests),
                               cushim_mem_stats_read(&stats->wait_ns), cushim_clock_ns()};
    row->live_bytes = cushim_report_sum_device(page->report, device, live_bytes);
    row->held_bytes = cushim_report_sum_device(page->report, device, held_bytes);
    row->spare_bytes = held.spare_bytes;
    row->limit_bytes = cushim_mem_stats_read(&page->report->page.head.limit_bytes[device]);
    top->has_limits |= row->limit_bytes != 0;
    row->spilled_bytes = cushim_mem_stats_read(
        &cushim_report_stats(page->report, device, CUSHIM_KIND_SPILLED)->held_bytes);
    row->unaccounted_bytes = row->is_alive ? devices_unaccounted_bytes(page->report, device) : 0;
    if (row->n_past == N_PAST)
        memmove(row->past_bytes, row->past_bytes + 1, --row->n_past * sizeof *row->past_bytes);
    row->past_bytes[row->n_past++] = row->held_bytes;
    row->most_bytes = cushim_most(row->held_bytes, row->most_bytes);
}

static void take(const struct page *page, void *context) {
    struct top *top = context;
    int device = cushim_report_next_device(page->report, -1);
    if (device < 0)
        take_device(top, page, 0);
    for (; device >= 0; device = cushim_report_next_device(page->report, device)) {
        take_device(top, page, device);
        if (page->is_alive)
            devices_add(&top->devices, page->report, device);
    }
}

static uint64_t per_second(const struct row *row, uint64_t now, uint64_t before) {
    uint64_t ns = row->now.at_ns - row->before.at_ns;
    return row->before.at_ns && ns
               ? (uint64_t)((__uint128_t)cushim_less(now, before) * 1000000000 / ns)
               : 0;
}

static uint64_t requests_per_second(const struct row *row) {
    return per_second(row, row->now.n_requests, row->before.n_requests);
}

static uint64_t measure(const struct row *row, enum sort sort) {
    return sort == BY_HELD       ? row->held_bytes
           : sort == BY_LIVE     ? row->live_bytes
           : sort == BY_REQUESTS ? requests_per_second(row)
                                 : 0;
}

static int in_order(const void *one, const void *other, void *sort) {
    const struct row *a = one, *b = other;
    int order = cushim_order(measure(b, *(enum sort *)sort), measure(a, *(enum sort *)sort));
    order = order ? order : cushim_order((uint64_t)a->process, (uint64_t)b->process);
    return order ? order : a->device - b->device;
}

static void sort(struct top *top) {
    if (top->n)
        qsort_r(top->rows, top->n, sizeof *top->rows, in_order, &top->sort);
}

static void look(struct top *top) {
    size_t n = 0;
    for (size_t i = 0; i < top->n; i++)
        top->rows[i].is_seen = false;
    top->devices.n = 0;
    devices_ask_again();
    top->has_limits = false;
    pages_each(take, top);
    devices_settle(&top->devices);
    for (size_t i = 0; i < top->n; i++) {
        if (top->rows[i].is_seen)
            top->rows[n++] = top->rows[i];
    }
    top->n = n;
    sort(top);
    if (top->chosen >= n)
        top->chosen = n ? n - 1 : 0;
}

/* ---- lines ---- */

/* Draw how much was held, scaled to the most of it. */
static void put_past(const struct row *row, bool is_utf8, unsigned n, char *text, size_t n_bytes) {
    static const char *const blocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    static const char *const plain[] = {" ", ".", ":", "-", "=", "+", "*", "#"};
    uint64_t most = 1;
    unsigned first = cushim_less(row->n_past, n);
    *text = 0;
    for (unsigned i = first; i < row->n_past; i++)
        most = cushim_most(row->past_bytes[i], most);
    for (unsigned i = first; i < row->n_past; i++) {
        unsigned level = (unsigned)((__uint128_t)row->past_bytes[i] * 7 / most);
        size_t length = strlen(text);
        snprintf(text + length, n_bytes - length, "%s", (is_utf8 ? blocks : plain)[level]);
    }
}

/* Is there room for one more column beside the bars, or for two? */
enum { WITH_PEAK = 100, WITH_LIMIT = 110 };

/* The column of users takes the room of another. */
static bool has_spare(const struct top *top, int columns) {
    return !top->has_users || columns >= WITH_PEAK;
}

static void put_row(const struct top *top, const struct row *row, int columns,
                    char line[LINE_BYTES]) {
    struct suspended suspended;
    char past[4 * N_PAST + 1], waits[16];
    char peak[CUSHIM_AMOUNT_BYTES + 2] = "", most[CUSHIM_AMOUNT_BYTES];
    char limit[CUSHIM_AMOUNT_BYTES + 2] = "", spare[CUSHIM_AMOUNT_BYTES + 2] = "";
    char cell[CUSHIM_CELL_BYTES], user[CUSHIM_CELL_BYTES] = "";
    enum { PEAK = 10, SPARE = 10, USER = 9, BEFORE_PAST = 64 };
    int before =
        BEFORE_PAST + (has_spare(top, columns) ? SPARE : 0) + (columns >= WITH_PEAK ? PEAK : 0) +
        (top->has_limits && columns >= WITH_LIMIT ? PEAK : 0) + (top->has_users ? USER : 0);
    uint64_t wait = per_second(row, row->now.wait_ns, row->before.wait_ns) / 1000000; /* per 1000 */
    snprintf(waits, sizeof waits, "%u.%u", (unsigned)(wait / 10), (unsigned)(wait % 10));
    put_past(row, top->is_utf8, columns > before ? (unsigned)(columns - before) : 0, past,
             sizeof past);
    if (!row->is_alive)
        snprintf(past, sizeof past, "ended");
    else if (suspended_find(row->process, &suspended))
        suspended_text(past, &suspended);
    if (has_spare(top, columns))
        snprintf(spare, sizeof spare, " %9s", cushim_text_bytes(most, row->spare_bytes));
    if (columns >= WITH_PEAK)
        snprintf(peak, sizeof peak, " %9s", cushim_text_bytes(most, row->most_bytes));
    if (top->has_limits && columns >= WITH_LIMIT)
        snprintf(limit, sizeof limit, " %9s",
                 row->limit_bytes ? cushim_text_bytes(most, row->limit_bytes) : "-");
    cushim_utf8_cell(cell, row->program, 14);
    if (top->has_users)
        cushim_utf8_cell(user, pages_user(row->user), USER - 1);
    snprintf(line, LINE_BYTES, "%8" PRId64 "  %s%s%s %3d %9s %9s%s %7s %5s%s%s  %s", row->process,
             user, top->has_users ? " " : "", cell, row->device, CUSHIM_BYTES(row->live_bytes),
             CUSHIM_BYTES(row->held_bytes), spare, CUSHIM_COUNT(requests_per_second(row)), waits,
             peak, limit, past);
}

static void put_heads(const struct top *top, int columns, char line[LINE_BYTES]) {
    char peak[16] = "", spare[16] = "";
    if (has_spare(top, columns))
        snprintf(spare, sizeof spare, " %9s", CUSHIM_WORD(spare));
    if (columns >= WITH_PEAK)
        snprintf(peak, sizeof peak, " %9s", CUSHIM_WORD(peak_held));
    snprintf(line, LINE_BYTES, "%8s  %s%-14s %3s %9s %9s%s %7s %5s%s%s  past", "process",
             top->has_users ? "user     " : "", "program", "dev", CUSHIM_WORD(live),
             CUSHIM_WORD(held), spare, "req/s", "wait%", peak,
             top->has_limits && columns >= WITH_LIMIT ? "     limit" : "");
}

static void put_title(const struct top *top, char line[LINE_BYTES]) {
    char host[64] = "", clock[16] = "";
    time_t now = time(NULL);
    struct tm parts;
    gethostname(host, sizeof host - 1);
    if (localtime_r(&now, &parts))
        strftime(clock, sizeof clock, "%H:%M:%S", &parts);
    snprintf(line, LINE_BYTES, "cushim top  %s  %s by %s, every %u.%u s  %s%s", host,
             CUSHIM_SOME(top->n, "row"), sort_names[top->sort], top->every_ms / 1000,
             top->every_ms % 1000 / 100, clock, top->is_paused ? "  paused" : "");
}

/* What the rows from first to last leave out. */
static void put_rest(const struct top *top, size_t first, size_t last, char line[LINE_BYTES]) {
    uint64_t spilled_bytes = 0, unaccounted_bytes = 0;
    int n = 0;
    for (size_t i = 0; i < top->n; i++) {
        spilled_bytes += top->rows[i].spilled_bytes;
        unaccounted_bytes += top->rows[i].unaccounted_bytes;
    }
    *line = 0;
    if (last - first < top->n)
        n = snprintf(line, LINE_BYTES, "  rows %zu to %zu of %zu", first + 1, last, top->n);
    if (spilled_bytes)
        n += snprintf(line + n, LINE_BYTES - (size_t)n, "  %s lie in host memory",
                      CUSHIM_BYTES(spilled_bytes));
    if (unaccounted_bytes)
        snprintf(line + n, LINE_BYTES - (size_t)n, "  %s of the driver, in no row",
                 CUSHIM_BYTES(unaccounted_bytes));
}

/* ---- the screen ---- */

static void draw_table(struct top *top, struct screen_picture *picture) {
    enum { AROUND = 5, FEWEST_ROWS = 6 }; /* title, blank, heads, what is left out, keys */
    char line[LINE_BYTES];
    size_t n_room = picture->rows > AROUND ? (size_t)(picture->rows - AROUND) : 1;
    size_t n_devices = top->has_devices ? top->devices.n : 0;
    if (n_devices && n_devices + FEWEST_ROWS > n_room) /* rows of processes have priority */
        n_devices = cushim_less(n_room, FEWEST_ROWS);
    n_room -= n_devices;
    size_t first = top->chosen >= n_room ? top->chosen - n_room + 1 : 0;
    size_t last = first + n_room < top->n ? first + n_room : top->n;
    put_title(top, line);
    screen_line(picture, line, false);
    for (size_t i = 0; i < n_devices; i++) {
        devices_text(&top->devices.rows[i], line, sizeof line);
        screen_line(picture, line, false);
    }
    screen_line(picture, "", false);
    put_heads(top, picture->columns, line);
    screen_line(picture, line, false);
    for (size_t i = first; i < last; i++) {
        put_row(top, &top->rows[i], picture->columns, line);
        screen_line(picture, line, i == top->chosen);
    }
    if (!top->n)
        screen_line(picture, "  no process has a live page; `cushim run` starts one that has",
                    false);
    put_rest(top, first, last, line);
    screen_line(picture, line, false);
    screen_line(picture, "s sort  enter report  f findings  d devices  p pause  r peaks  q quit",
                false);
}

/* Write the findings, and the requests that found no memory. */
static void put_trouble(struct cushim_writer *out, const struct cushim_report *report) {
    const struct cushim_page_head *head = &report->page.head;
    cushim_write(out, "cushim %s: %s, process %ld\n", head->version, head->program,
                 (long)head->process);
    bool has_found = cushim_report_findings_text(out, report);
    if (!cushim_report_shortages_text(out, report) && !has_found)
        cushim_write(out, "  nothing was found, and each request found memory\n");
}

/* Show the report of one page, line by line. */
static void draw_detail(const struct page *page, void *context) {
    const struct top *top = context;
    struct screen_picture *picture = top->picture;
    struct cushim_writer out = {.fd = memfd_create("report", MFD_CLOEXEC)};
    char text[1 << 14], *rest;
    symbols_learn(page->report);
    (top->detail == REPORT ? cushim_report_text : put_trouble)(&out, page->report);
    cushim_writer_flush(&out);
    ssize_t n = out.fd < 0 ? 0 : pread(out.fd, text, sizeof text - 1, 0);
    close(out.fd);
    text[n > 0 ? n : 0] = 0;
    for (char *line = text; line && *line && picture->n_lines < picture->rows - 1; line = rest) {
        rest = strchr(line, '\n');
        if (rest)
            *rest++ = 0;
        screen_line(picture, line, false);
    }
}

static void draw(struct top *top) {
    struct screen_picture picture;
    screen_draw(&picture);
    top->picture = &picture;
    if (top->detail != TABLE && top->n &&
        pages_one(top->rows[top->chosen].page, draw_detail, top)) {
        while (picture.n_lines < picture.rows - 1)
            screen_line(&picture, "", false);
        screen_line(&picture, "enter back  q quit", false);
    } else {
        top->detail = TABLE;
        draw_table(top, &picture);
    }
    screen_show(&picture);
}

/* Returns false if the user leaves. */
static bool obey(struct top *top, int key) {
    top->sort = (top->sort + (key == 's')) % N_SORTS;
    top->is_paused ^= key == 'p';
    top->has_devices ^= key == 'd';
    top->chosen -= key == SCREEN_UP && top->chosen > 0;
    top->chosen += key == SCREEN_DOWN && top->chosen + 1 < top->n;
    if (key == 's')
        sort(top);
    if (key == '\r' || key == '\n')
        top->detail = top->detail == TABLE ? REPORT : TABLE;
    if (key == 'f')
        top->detail = top->detail == TROUBLE ? TABLE : TROUBLE;
    for (size_t i = 0; i < top->n && key == 'r'; i++)
        top->rows[i].most_bytes = top->rows[i].held_bytes;
    return key != 'q' && key != SCREEN_OVER;
}

static int run_screen(struct top *top) {
    int key = SCREEN_NOTHING;
    uint64_t next_ns = 0;
    if (!screen_begin())
        return complain_as(EXIT_OURS, "the terminal cannot be used: %s", strerror(errno));
    do {
        uint64_t now_ns = cushim_clock_ns();
        if (now_ns >= next_ns) {
            if (!top->is_paused)
                look(top);
            next_ns = now_ns + (uint64_t)top->every_ms * 1000000;
        }
        draw(top);
        key = screen_wait((int)((next_ns - now_ns) / 1000000) + 1);
    } while (obey(top, key));
    screen_end();
    if (screen_signal()) { /* so that our parent sees which signal ended us */
        sigset_t all;
        signal(screen_signal(), SIG_DFL);
        raise(screen_signal());
        sigemptyset(&all);
        sigprocmask(SIG_SETMASK, &all, NULL);
    }
    return EXIT_WELL;
}

/* ---- without a screen ---- */

static bool put_plain(struct top *top, bool has_heads) {
    char line[LINE_BYTES];
    for (size_t i = has_heads ? 0 : 1; i <= top->n; i++) {
        if (i)
            put_row(top, &top->rows[i - 1], 80, line);
        else
            put_heads(top, 80, line);
        printf("%.*s\n", (int)screen_cut(line, 80), line);
    }
    put_rest(top, 0, top->n, line);
    if (*line)
        puts(line);
    return usage_flush_text();
}

static int run_plain(struct top *top) {
    struct timespec pause = {0, 100000000}; /* rates need two looks */
    look(top);
    nanosleep(&pause, NULL);
    look(top);
    bool goes_on = put_plain(top, true);
    while (top->is_batch && goes_on) {
        struct timespec wait = {top->every_ms / 1000, top->every_ms % 1000 * 1000000L};
        nanosleep(&wait, NULL);
        look(top);
        goes_on = put_plain(top, false);
    }
    return top->n || pages_complain_of_nobody(false) ? EXIT_WELL : EXIT_WRONG;
}

static bool is_utf8(void) {
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = getenv(names[i]);
        if (value && *value)
            return strcasestr(value, "utf-8") || strcasestr(value, "utf8");
    }
    return false;
}

static void take_arguments(struct top *top, int argc, char **argv) {
    enum { LEAST_MS = 100, MOST_MS = 3600000, MS = 1000000 };
    const char *every = "1";
    uint64_t ns;
    const struct argument rows[] = {{"--once", .flag = &top->is_once},
                                    {"--batch", .flag = &top->is_batch},
                                    {"--every", .text = &every},
                                    {"--all-users", .flag = &top->has_users},
                                    {0}};
    arguments_words("top", rows, NULL, 0, 0, NULL, argc, argv);
    if (!arguments_time(every, &ns) || ns / MS < LEAST_MS || ns / MS > MOST_MS)
        usage_error("top", "--every=%s: not seconds, 0.1 to 3600", every);
    top->every_ms = (unsigned)(ns / MS);
    if (top->has_users)
        pages_of_all_users();
    if (top->is_once && top->is_batch)
        usage_error("top", "--once or --batch, not both");
}

int top_main(int argc, char **argv) {
    static struct top top = {.has_devices = true};
    top.is_utf8 = is_utf8();
    take_arguments(&top, argc, argv);
    return top.is_once || top.is_batch || !screen_is_there() ? run_plain(&top) : run_screen(&top);
}
