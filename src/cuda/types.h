/*
 * The driver's types, and the names of the tables of real functions.  A header that only passes a
 * table includes this.  A source that calls through one includes cuda/table.h, and is compiled
 * again when symbols.def changes.
 */
#pragma once

#include "cuda/driver.h"

#include <cuda_runtime_api.h>

struct cushim_cuda;   /* the driver's functions that the preload and src/memory call */
struct cushim_cudart; /* the functions of the runtime that the preload calls */
