/*
 * The live page: the counters of this process as a file that others can read, also after its end.
 *
 * The page is a static object, which counts whether anybody can see it or not.  With CUSHIM_LIVE a
 * file is mapped over it, part by part, at the same address: who counts makes the same
 * loads and stores as before.  The page of a thread's cache that has its counters gets a page of
 * the file beneath it, too.  No descriptor stays open.  What was counted is in the file
 * whatever ends the process.
 */
#ifndef CUSHIM_PRELOAD_LIVE_H
#define CUSHIM_PRELOAD_LIVE_H

#include <stdbool.h>
#include <sys/types.h>

#include "report/page.h"

/* The sites, where they are wished: in the file, too (sites.h). */
extern struct cushim_page_sites cushim_page_sites __attribute__((visibility("hidden")));

/* What the program was started with, in memory that stays: as the constructor of an object gets it.
 */
void cushim_live_note_arguments(int n, char *const arguments[]);

/* The options were read and nothing was counted yet: fill the head, map the file if wished. */
void cushim_live_begin(void);

/* In a forked child: the page is the parent's.  The child counts from 0, for itself, and has a file
 * of its own if it `is_fresh` and the parent has one. */
void cushim_live_in_child(bool is_fresh);

/* Root cut the file, so that the counters are no more; false in a process without one. */
bool cushim_live_is_cut(void);

/* A normal end; who waits, and looks into the folder of this device and inode, is to report from
 * the file, and removes it.  False: it is not there, or not all is in it. */
bool cushim_live_leave(dev_t device, ino_t inode);

/* A normal end, all told: nobody needs the file. */
void cushim_live_end(void);

/* Before the first store to a part of the page, its calls or its sites: others see it from here on.
 * Cheap if it is shown. */
void cushim_live_show(const void *part, size_t n_bytes);

#endif
