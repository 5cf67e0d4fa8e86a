/* Variables of a program on the device. */
#pragma once

#include "tools/sim/runtime/core/driver.h"

/* The part of a variable that a copy asks for; enters the runtime. */
cudaError_t simrt_symbol_part(const void *symbol, size_t offset, size_t count, void **part);
