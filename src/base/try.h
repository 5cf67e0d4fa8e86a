/* Early return: a status that is not CUSHIM_OK goes to the caller at once. */
#pragma once

#include "cushim/status.h"

#define CUSHIM_TRY(expr)                                                                           \
    do {                                                                                           \
        enum cushim_status try_status_ = (expr);                                                   \
        if (try_status_ != CUSHIM_OK)                                                              \
            return try_status_;                                                                    \
    } while (0)
