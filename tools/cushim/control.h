/* Asks a process with a live page for something (preload/state/control.h). */
#pragma once

#include "tools/cushim/pages.h"

/* Does the process live, and is this its number or its program's name? */
bool control_is_wanted(const struct page *page, const char *wanted);

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

/* Say why there was no answer.  Returns the exit code. */
int control_complain(const struct page *page, const struct cushim_page_control *control,
                     const char *later);
