/* The names of errors, and their texts: the driver's if it knows the number, otherwise the name. */
#include "driver.h"

const char *cudaGetErrorName(cudaError_t error) {
    switch ((int)error) { /* newer headers have more */
#define ERROR(name)                                                                                \
    case name:                                                                                     \
        return #name;
#include "error.def"
#undef ERROR
    }
    return "unrecognized error code";
}

const char *cudaGetErrorString(cudaError_t error) {
    const char *text = NULL;
    if (simrt_legacy.cuGetErrorString)
        simrt_legacy.cuGetErrorString((CUresult)error, &text);
    return text ? text : cudaGetErrorName(error);
}
