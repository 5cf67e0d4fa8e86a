/*
 * The options that the process was started with.  They are not in process.h, because every hook
 * includes that, and a new option would recompile all of them.
 */
#pragma once

#include "base/options.h"

/* Written once, before cushim_process_is_on can be seen true. */
extern struct cushim_options cushim_process_options __attribute__((visibility("hidden")));
