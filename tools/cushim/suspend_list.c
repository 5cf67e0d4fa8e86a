#include "tools/cushim/suspend_list.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cuda/symbol.h"
#include "tools/cushim/devices.h"
#include "tools/cushim/pages.h"
#include "tools/cushim/suspended.h"
#include "tools/cushim/usage.h"

/* ---- names ---- */

struct search {
    struct suspend_list *list;
    const char *word;
};

static void add(struct suspend_list *list, int64_t process) {
    for (int i = 0; i < list->n; i++) {
        if (list->processes[i] == process)
            return;
    }
    if (list->n < MOST_SUSPENDED)
        list->processes[list->n++] = process;
}

static void add_of_page(const struct page *page, void *context) {
    const struct cushim_page_head *head = &page->report->page.head;
    struct search *search = context;
    if (page->is_alive && head->namespace == cushim_page_namespace() &&
        strcmp(head->program, search->word) == 0)
        add(search->list, head->process);
}

static void add_of_note(const struct suspended *suspended, void *context) {
    struct search *search = context;
    if (strcmp(suspended->program, search->word) == 0)
        add(search->list, suspended->process);
}

/* Processes without a live page, which NVML knows. */
static void add_of_devices(struct search *search) {
    struct device_process processes[DEVICES_MOST_PROCESSES];
    struct suspended found;
    char state;
    for (unsigned i = 0; i < CUSHIM_MAX_DEVICES; i++) {
        unsigned n = devices_processes(i, processes);
        for (unsigned k = 0; k < n; k++) {
            if (suspended_look_up(processes[k].process, &found, &state) &&
                strcmp(found.program, search->word) == 0)
                add(search->list, found.process);
        }
    }
}

bool suspend_list_add(struct suspend_list *list, const char *word) {
    struct search search = {list, word};
    int n = list->n;
    char *end;
    long long process = strtoll(word, &end, 10);
    if (*word && !*end && process > 0 && process <= INT32_MAX) {
        add(list, process);
        return true;
    }
    pages_each(add_of_page, &search);
    suspended_each(add_of_note, &search);
    add_of_devices(&search);
    return list->n > n ||
           complain("no process %s: none with a live page, and none that NVML sees", word);
}

/* ---- idle processes ---- */

struct looks {
    struct {
        int64_t process;
        uint64_t n_calls;
    } rows[MOST_SUSPENDED];
    int n;
    struct suspend_list *list; /* in the second look */
};

static void look_at(const struct page *page, void *context) {
    const uint64_t minute_ns = 60000000000;
    const struct cushim_report *report = page->report;
    const struct cushim_page_head *head = &report->page.head;
    struct looks *looks = context;
    struct suspended suspended;
    uint64_t n_calls = 0;
    if (!page->is_alive || suspended_find(head->process, &suspended) ||
        head->namespace != cushim_page_namespace() ||
        !cushim_report_sum_device(report, -1, held_bytes) ||
        report->run_ns < cushim_page_known_ns(&report->page) + minute_ns)
        return;
    for (unsigned row = 0; row < CUSHIM_N_SYMBOLS; row++)
        n_calls += cushim_page_calls_of(report->calls, row);
    if (!looks->list && looks->n < MOST_SUSPENDED) {
        looks->rows[looks->n].process = head->process;
        looks->rows[looks->n++].n_calls = n_calls;
    }
    for (int i = 0; looks->list && i < looks->n; i++) {
        if (looks->rows[i].process == head->process && looks->rows[i].n_calls == n_calls)
            add(looks->list, head->process);
    }
}

void suspend_list_add_idle(struct suspend_list *list) {
    static struct looks looks;
    looks = (struct looks){.n = 0};
    pages_each(look_at, &looks);
    if (looks.n)
        sleep(1);
    looks.list = list;
    pages_each(look_at, &looks);
}
