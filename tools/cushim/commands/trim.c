#include "tools/cushim/commands.h"

#include <limits.h>

#include "base/writer.h"
#include "tools/cushim/arguments.h"
#include "tools/cushim/control.h"
#include "tools/cushim/pages.h"
#include "tools/cushim/suspended.h"
#include "tools/cushim/usage.h"

static bool trim(const struct page *page, struct cushim_page_head *head, void *unused) {
    struct cushim_page_control *control = &head->control;
    struct suspended suspended;
    (void)unused;
    if (suspended_find(page->report->page.head.process, &suspended))
        return !complain("%s is suspended, and holds no GPU memory", control_name(page));
    if (!control_wait_long(page, control, control_ask(control, CUSHIM_PAGE_CALL_TRIM)))
        return control_complain(page, control, "gives back its idle memory");
    return !complain("%s gave back %s", control_name(page),
                     CUSHIM_BYTES(cushim_mem_stats_read(&control->n_bytes)));
}

int trim_main(int argc, char **argv) {
    int n = arguments_words("trim", NULL, NULL, 1, INT_MAX, "a process or a program", argc, argv);
    bool is_well = true;
    for (int i = 0; i < n; i++) {
        struct control_asked asked = control_each(argv[i], trim, NULL);
        is_well &= !asked.n_failed && (asked.n_found || pages_complain_of_none(argv[i]));
    }
    return is_well ? EXIT_WELL : EXIT_WRONG;
}
