/* The one place in which the driver's codes become statuses (tools/api-pages makes a table of
 * them). */
#pragma once

#include "cuda/types.h"
#include "cushim/status.h"

/* The status of a driver's answer; an unlisted number is CUSHIM_SYSTEM. */
enum cushim_status cushim_status_from_cu(CUresult result);
