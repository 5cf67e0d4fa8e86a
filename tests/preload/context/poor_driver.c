/*
 * Drivers that we cannot use.  STUB: the one that programs are linked with, all of whose functions
 * say so.  WHOLE: it has every function that we need, and none does anything.  Otherwise an old
 * one, which lacks most of them.
 */
#define DRIVER __attribute__((visibility("default")))

#ifdef STUB
enum { ANSWER = 34 };
#else
enum { ANSWER = 0 };
#endif

#define FUNCTION(name)                                                                             \
    DRIVER int name(void);                                                                         \
    int name(void) {                                                                               \
        return ANSWER;                                                                             \
    }

FUNCTION(cuInit)
FUNCTION(cuMemAlloc_v2)
FUNCTION(cuMemFree_v2)
FUNCTION(cuDriverGetVersion)

#if defined STUB || defined WHOLE
FUNCTION(cuGetProcAddress)
FUNCTION(cuMemGetInfo_v2)
FUNCTION(cuCtxSynchronize)
FUNCTION(cuCtxGetCurrent)
FUNCTION(cuCtxGetDevice)
FUNCTION(cuCtxPushCurrent_v2)
FUNCTION(cuCtxPopCurrent_v2)
FUNCTION(cuEventCreate)
FUNCTION(cuEventDestroy_v2)
FUNCTION(cuEventQuery)
FUNCTION(cuEventRecord)
FUNCTION(cuEventSynchronize)
#endif
