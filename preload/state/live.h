/*
 * The live page: the counters of this process as a file that others can read, also after its end.
 *
 * The page is a static object, which counts whether anybody can see it or not.  With CUSHIM_LIVE a
 * file is mapped over it, part by part, at the same address, so counting takes the same loads and
 * stores.  The page of a thread's cache that has its counters gets a page of the file beneath it,
 * too.  No descriptor stays open.  However the process ends, the file has what was counted.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "report/page.h"

/* The sites, if CUSHIM_SITES asks for them; they are in the file, too (sites.h). */
extern struct cushim_page_sites cushim_page_sites __attribute__((visibility("hidden")));

/* Note the program's arguments, as a constructor gets them; the memory stays.
 */
void cushim_live_note_arguments(int n, char *const arguments[]);

/* The options were read and nothing was counted yet.  Fill the head, and map the file if the option
 * says so. */
void cushim_live_begin(void);

/* In a forked child: the page belongs to the parent.  The child counts from 0, for itself, and has
 * a file of its own if it `is_fresh` and the parent has one. */
void cushim_live_in_child(bool is_fresh);

/* Others see this process by its page. */
bool cushim_live_is_on(void);

/* Root cut the file, so that the counters are no more; false in a process without one. */
bool cushim_live_is_cut(void);

/* A normal end: the process that waits, and looks into the folder of this device and inode, reports
 * from the file and removes it.  False: the file is not there, or lacks something. */
bool cushim_live_leave(dev_t device, ino_t inode);

/* A normal end, and the report is written, so nobody needs the file. */
void cushim_live_end(void);

/* The word of that name in the page, which forked children share; NULL: there is no file. */
extern atomic_uint_fast64_t *cushim_live_orphan __attribute__((visibility("hidden")));

/* Call it before the first store to a part of the page, its calls or its sites; others see the part
 * from then on.  It is cheap if the part is shown already. */
void cushim_live_show(const void *part, size_t n_bytes);
