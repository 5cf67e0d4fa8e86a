/* Memory allocated and freed in stream order, and what graphs hold of it. */
#pragma once

#include "tools/sim/driver/core/abi.h"

/* One owner less; the last one gives the memory back.  An unknown address went with its context. */
void sim_async_release(CUdeviceptr address);

/* One owner more: a copy of the graph that holds it. */
void sim_async_retain(CUdeviceptr address);
