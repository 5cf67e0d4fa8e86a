/*
 * The options of the environment as the companion reads them: defaults only, and silent unless
 * CUSHIM_LOG says otherwise.
 */
#ifndef CUSHIM_COMPANION_ENVIRONMENT_H
#define CUSHIM_COMPANION_ENVIRONMENT_H

#include "base/options.h"

/* Read once, at the first use of the library; the log's level is set by it.  Threads  any. */
const struct cushim_options *cushim_settings(void);

#endif
