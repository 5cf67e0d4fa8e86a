#include "tools/cushim/commands.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>

#include "base/writer.h"
#include "tools/cushim/arguments.h"
#include "tools/cushim/control.h"
#include "tools/cushim/suspended.h"
#include "tools/cushim/usage.h"

struct request {
    const char *wanted;
    int n_found, n_failed;
};

static void trim(const struct page *page, void *context) {
    struct request *request = context;
    struct suspended suspended;
    if (!control_is_wanted(page, request->wanted))
        return;
    request->n_found++;
    if (suspended_find(page->report->page.head.process, &suspended)) {
        complain("%s is suspended, and holds no GPU memory", control_name(page));
        return;
    }
    struct cushim_page_head *head = pages_map_head(page);
    if (!head) {
        complain("%s cannot be asked: %s", control_name(page), strerror(errno));
        request->n_failed++;
        return;
    }
    struct cushim_page_control *control = &head->control;
    if (control_wait_long(page, control, control_ask(control, CUSHIM_PAGE_CALL_TRIM)))
        complain("%s gave back %s", control_name(page),
                 CUSHIM_BYTES(cushim_mem_stats_read(&control->n_bytes)));
    else
        request->n_failed += control_complain(page, control, "gives back its idle memory");
    munmap(head, sizeof *head);
}

int trim_main(int argc, char **argv) {
    struct request request = {0};
    int n = arguments_words("trim", NULL, NULL, 1, INT_MAX, "a process or a program", argc, argv);
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
