/* The processes that are to be suspended or resumed, by number, by name, or because they are idle.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { MOST_SUSPENDED = 256 };
struct suspend_list {
    int64_t processes[MOST_SUSPENDED];
    int n;
};

/* Add the processes that a word names; a line says if there is none. */
bool suspend_list_add(struct suspend_list *list, const char *word);

/* Add those with a live page whose last request of memory is a minute old, and that make no call in
 * the second that this takes. */
void suspend_list_add_idle(struct suspend_list *list);
