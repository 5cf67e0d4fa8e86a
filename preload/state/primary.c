#include "preload/state/primary.h"

#include <pthread.h>

#include "cuda/current_context.h"
#include "cuda/table.h"

CUcontext cushim_primary_of(struct cushim_cuda *cuda, CUdevice device) {
    unsigned flags;
    int is_active = 0;
    CUcontext context = NULL;
    if (!cuda->cuDevicePrimaryCtxGetState || !cuda->cuDevicePrimaryCtxRetain ||
        cuda->cuDevicePrimaryCtxGetState(device, &flags, &is_active) != CUDA_SUCCESS || !is_active)
        return NULL;
    /* the handle is told by a retain alone; the release right behind it cannot be the last */
    if (cuda->cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS)
        return NULL;
    if (cuda->cuDevicePrimaryCtxRelease_v2)
        cuda->cuDevicePrimaryCtxRelease_v2(device);
    else
        cuda->cuDevicePrimaryCtxRelease(device);
    return context;
}

CUcontext cushim_primary_of_green(struct cushim_cuda *cuda, CUcontext green) {
    CUresult answer;
    CUdevice device;
    bool has_entered = cushim_current_context_enter(cuda, green, &answer);
    if (answer == CUDA_SUCCESS)
        answer = cuda->cuCtxGetDevice(&device);
    if (has_entered)
        cushim_current_context_leave(cuda);
    return answer == CUDA_SUCCESS ? cushim_primary_of(cuda, device) : NULL;
}

/* ---- retains ---- */

enum { N_DEVICES = 64 };

/* Held over the driver's release of a use that is not the last, which ends nothing and waits for
 * nothing: who comes next finds one use less there, too. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    unsigned n_uses;
    CUcontext context;
} retained[N_DEVICES];

void cushim_primary_retained(CUdevice device, CUcontext context) {
    if ((unsigned)device >= N_DEVICES)
        return;
    pthread_mutex_lock(&lock);
    retained[device].n_uses++;
    retained[device].context = context;
    pthread_mutex_unlock(&lock);
}

bool cushim_primary_release_shared(CUdevice device, __typeof__(&cuDevicePrimaryCtxRelease_v2) real,
                                   CUcontext *context, CUresult *answer) {
    if ((unsigned)device >= N_DEVICES)
        return false;
    pthread_mutex_lock(&lock);
    bool is_shared = retained[device].n_uses > 1;
    *context = retained[device].context;
    if (is_shared)
        *answer = real(device);
    if (!is_shared || *answer == CUDA_SUCCESS)
        retained[device].n_uses -= retained[device].n_uses != 0;
    pthread_mutex_unlock(&lock);
    return is_shared;
}

void cushim_primary_forget(CUdevice device) {
    if ((unsigned)device >= N_DEVICES)
        return;
    pthread_mutex_lock(&lock);
    retained[device].n_uses = 0;
    pthread_mutex_unlock(&lock);
}
