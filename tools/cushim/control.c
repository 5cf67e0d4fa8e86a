#include "tools/cushim/control.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "tools/cushim/suspended.h"
#include "tools/cushim/usage.h"

const char *control_name(const struct page *page) {
    static char text[CUSHIM_NAME_BYTES + 40];
    const struct cushim_page_head *head = &page->report->page.head;
    snprintf(text, sizeof text, "process %ld (%s)", (long)head->process, head->program);
    return text;
}

unsigned control_ask(struct cushim_page_control *control, enum cushim_page_call call) {
    atomic_fetch_or(&control->calls, call);
    unsigned n_asked = atomic_fetch_add(&control->n_asked, 1) + 1;
    syscall(SYS_futex, &control->n_asked, FUTEX_WAKE, 1, NULL, NULL, 0);
    return n_asked;
}

bool control_wait(struct cushim_page_control *control, unsigned n_asked) {
    const struct timespec second = {.tv_sec = 1};
    unsigned n_answered = atomic_load(&control->n_answered);
    if ((int)(n_answered - n_asked) < 0)
        syscall(SYS_futex, &control->n_answered, FUTEX_WAIT, n_answered, &second, NULL, 0);
    return (int)(atomic_load(&control->n_answered) - n_asked) >= 0;
}

bool control_wait_long(const struct page *page, struct cushim_page_control *control,
                       unsigned n_asked) {
    uint64_t end_ns = cushim_clock_ns() + CONTROL_PATIENCE_SECONDS * 1000000000ull;
    bool is_answered = false;
    while (!is_answered && atomic_load(&control->has_thread) && cushim_clock_ns() < end_ns &&
           cushim_page_is_alive(page->folder, page->name))
        is_answered = control_wait(control, n_asked);
    return is_answered;
}

bool control_complain(const struct page *page, const struct cushim_page_control *control,
                      const char *later) {
    int64_t process = page->report->page.head.process;
    struct suspended suspended;
    if (!cushim_page_is_alive(page->folder, page->name))
        return complain("%s has ended", control_name(page));
    if (suspended_find(process, &suspended))
        return !complain("%s is suspended; it %s when `cushim resume %ld` brings it back",
                         control_name(page), later, (long)process);
    if (!atomic_load(&control->has_thread))
        return !complain("%s %s at its next synchronisation, synchronous copy or query of free "
                         "memory; with `cushim run --control` at once",
                         control_name(page), later);
    return complain("%s did not answer within %d s; it does when the driver lets it",
                    control_name(page), CONTROL_PATIENCE_SECONDS);
}

/* ---- processes by number or name ---- */

struct search {
    const char *wanted;
    control_ask_fn *ask;
    void *context;
    struct control_asked asked;
};

static void ask_one(const struct page *page, void *context) {
    struct search *search = context;
    const struct cushim_page_head *about = &page->report->page.head;
    if (!page->is_alive || !pages_is_wanted(search->wanted, about->process, about->program))
        return;
    struct cushim_page_head *head = pages_map_head(page);
    bool is_well = head ? search->ask(page, head, search->context)
                        : complain("%s cannot be asked: %s", control_name(page), strerror(errno));
    search->asked.n_found++;
    search->asked.n_failed += !is_well;
    if (head)
        munmap(head, sizeof *head);
}

struct control_asked control_each(const char *wanted, control_ask_fn *ask, void *context) {
    struct search search = {wanted, ask, context, {0, 0}};
    pages_each(ask_one, &search);
    return search.asked;
}
