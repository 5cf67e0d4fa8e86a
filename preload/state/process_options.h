/*
 * The options that the process was started with.  Apart from process.h, which every hook includes:
 * a new option compiles those that read one.
 */
#ifndef CUSHIM_PRELOAD_PROCESS_OPTIONS_H
#define CUSHIM_PRELOAD_PROCESS_OPTIONS_H

#include "base/options.h"

/* Written once, before cushim_process_is_on can be seen true. */
extern struct cushim_options cushim_process_options __attribute__((visibility("hidden")));

#endif
