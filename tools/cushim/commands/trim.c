#include "tools/cushim/commands.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file_mode.h"
#include "tools/cushim/arguments.h"
#include "tools/cushim/numbers.h"
#include "tools/cushim/pages.h"
#include "tools/cushim/suspended.h"
#include "tools/cushim/usage.h"

enum { PATIENCE_SECONDS = 10 };

struct request {
    const char *wanted;
    int n_found, n_failed;
};

/* The head of a page to write to.  Its file bars writers, except while it is opened here.  NULL and
 * errno: it cannot be mapped. */
static struct cushim_page_head *map_head(const struct page *page) {
    int lock = openat(page->folder, page->name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (lock < 0)
        return NULL;
    cushim_file_let_write(lock);
    int file = openat(page->folder, page->name, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    cushim_file_bar_writers(lock);
    close(lock);
    void *head = file < 0 ? MAP_FAILED
                          : mmap(NULL, sizeof(struct cushim_page_head), PROT_READ | PROT_WRITE,
                                 MAP_SHARED, file, 0);
    if (file >= 0)
        close(file);
    return head == MAP_FAILED ? NULL : head;
}

/* Ask, and wait for the answer of a thread that waits for us.  Returns false if there was none. */
static bool ask(const struct page *page, struct cushim_page_control *control) {
    const struct timespec second = {.tv_sec = 1};
    uint64_t end_ns = cushim_clock_ns() + PATIENCE_SECONDS * 1000000000ull;
    atomic_store(&control->call, CUSHIM_PAGE_CALL_TRIM);
    unsigned n_asked = atomic_fetch_add(&control->n_asked, 1) + 1;
    syscall(SYS_futex, &control->n_asked, FUTEX_WAKE, 1, NULL, NULL, 0);
    while (atomic_load(&control->has_thread) && cushim_clock_ns() < end_ns &&
           cushim_page_is_alive(page->folder, page->name)) {
        unsigned n_answered = atomic_load(&control->n_answered);
        if ((int)(n_answered - n_asked) >= 0)
            return true;
        syscall(SYS_futex, &control->n_answered, FUTEX_WAIT, n_answered, &second, NULL, 0);
    }
    return false;
}

static void trim(const struct page *page, void *context) {
    struct request *request = context;
    const struct cushim_page_head *about = &page->report->page.head;
    struct suspended suspended;
    char process[24];
    snprintf(process, sizeof process, "%ld", (long)about->process);
    if (!page->is_alive ||
        (strcmp(request->wanted, process) != 0 && strcmp(request->wanted, about->program) != 0))
        return;
    request->n_found++;
    if (suspended_find(about->process, &suspended)) {
        complain("process %s (%s) is suspended, and holds no GPU memory", process, about->program);
        return;
    }
    struct cushim_page_head *head = map_head(page);
    if (!head) {
        complain("process %s (%s) cannot be asked: %s", process, about->program, strerror(errno));
        request->n_failed++;
        return;
    }
    if (ask(page, &head->control)) {
        complain("process %s (%s) gave back %s", process, about->program,
                 text_of_bytes(cushim_mem_stats_read(&head->control.n_bytes)));
    } else if (!cushim_page_is_alive(page->folder, page->name)) {
        complain("process %s (%s) has ended", process, about->program);
        request->n_failed++;
    } else if (!atomic_load(&head->control.has_thread)) {
        complain("process %s (%s) gives back its idle memory at its next synchronisation, "
                 "synchronous copy or query of free memory; with `cushim run --control` at once",
                 process, about->program);
    } else {
        complain("process %s (%s) did not answer within %d s; it does when the driver lets it",
                 process, about->program, PATIENCE_SECONDS);
        request->n_failed++;
    }
    munmap(head, sizeof *head);
}

int trim_main(int argc, char **argv) {
    struct request request = {0};
    const struct argument rows[] = {{0}};
    const struct arguments arguments = {.topic = "trim",
                                        .rows = rows,
                                        .least_words = 1,
                                        .most_words = INT_MAX,
                                        .of_words = "a process or a program"};
    int n = arguments_read(&arguments, argc, argv);
    if (n < 0)
        return -n;
    for (int i = 0; i < n; i++) {
        int n_before = request.n_found;
        request.wanted = argv[i];
        pages_each(trim, &request);
        if (request.n_found == n_before) {
            complain("no live page of %s", argv[i]);
            request.n_failed++;
        }
    }
    return request.n_failed ? EXIT_WRONG : EXIT_WELL;
}
