/* Names that hand over to one call of the driver. */
#include "thread.h"

#define BODY(table, call, arguments)                                                               \
    {                                                                                              \
        cudaError_t error = simrt_enter();                                                         \
        if (error == cudaSuccess)                                                                  \
            error = simrt_from_cu(table.call arguments);                                           \
        return simrt_leave(error);                                                                 \
    }
#define THIN(name, parameters, call, arguments)                                                    \
    cudaError_t name parameters BODY(simrt_legacy, call, arguments)
#define PER_THREAD(name, parameters, call, arguments)                                              \
    cudaError_t name parameters BODY(simrt_legacy, call, arguments)                                \
    cudaError_t name##_ptsz parameters BODY(simrt_per_thread, call, arguments)
#include "names.def"
