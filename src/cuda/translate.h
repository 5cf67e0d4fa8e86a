/* One place where the driver's codes become statuses (docs/api/statuses.md has the table). */
#ifndef CUSHIM_CUDA_TRANSLATE_H
#define CUSHIM_CUDA_TRANSLATE_H

#include "cuda/types.h"
#include "cushim/status.h"

/* The status of a driver's answer; an unlisted number is CUSHIM_SYSTEM. */
enum cushim_status cushim_status_from_cu(CUresult result);

#endif
