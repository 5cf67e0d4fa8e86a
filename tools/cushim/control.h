/* Asks a process with a live page for something (preload/state/control.h). */
#pragma once

#include "tools/cushim/pages.h"

/* Asks a process for something; `head` is that of its page, mapped to be written to, and whatever
 * the process writes there.  Returns false if that failed, after a line. */
typedef bool control_ask_fn(const struct page *page, struct cushim_page_head *head, void *context);

/* Ask each process that lives and has this number, or this name of its program.  A line says if one
 * cannot be asked. */
struct control_asked {
    int n_found, n_failed;
};
struct control_asked control_each(const char *wanted, control_ask_fn *ask, void *context);

/* For messages: "process 4711 (app)"; static. */
const char *control_name(const struct page *page);

/* When the process was asked; control_wait tells if it has answered, and waits for that for a
 * second at most. */
unsigned control_ask(struct cushim_page_control *control, enum cushim_page_call call);
bool control_wait(struct cushim_page_control *control, unsigned n_asked);

/* Wait until it has answered, if a thread of it waits for requests; 10 s at most. */
enum { CONTROL_PATIENCE_SECONDS = 10 };
bool control_wait_long(const struct page *page, struct cushim_page_control *control,
                       unsigned n_asked);

/* Say why there was no answer.  Returns true if the process does later what it was asked for. */
bool control_complain(const struct page *page, const struct cushim_page_control *control,
                      const char *later);
