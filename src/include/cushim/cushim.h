/* All of the companion library. */
#ifndef CUSHIM_CUSHIM_H
#define CUSHIM_CUSHIM_H

#include "cushim/arena.h"
#include "cushim/client.h"
#include "cushim/context.h"
#include "cushim/device.h"
#include "cushim/event.h"
#include "cushim/function.h"
#include "cushim/graph.h"
#include "cushim/host.h"
#include "cushim/library.h"
#include "cushim/mapped.h"
#include "cushim/memory.h"
#include "cushim/memory_copy.h"
#include "cushim/module.h"
#include "cushim/pool.h"
#include "cushim/status.h"
#include "cushim/stream.h"
#include "cushim/types.h"
#include "cushim/version.h"

#endif
