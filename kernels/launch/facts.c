#include "kernels/launch/facts.h"

#include <pthread.h>
#include <stdatomic.h>

#include "companion/shared.h"

static struct {
    struct cushim_kernel_facts facts; /* written under the lock, before is_known is set */
    atomic_bool is_known;
} devices[CUSHIM_MOST_KERNEL_DEVICES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static enum cushim_status ask(const char *what, int device, CUdevice_attribute attribute,
                              unsigned *value) {
    int answer = 0;
    CUresult result = CUSHIM_DRIVER(cuDeviceGetAttribute)(&answer, attribute, device);
    *value = (unsigned)answer;
    return result == CUDA_SUCCESS ? CUSHIM_OK
                                  : cushim_fail_cu("cuDeviceGetAttribute", result,
                                                   "function=%s device=%d", what, device);
}

/* The caller holds the lock. */
static enum cushim_status learn(const char *what, int device, struct cushim_kernel_facts *facts) {
    unsigned major, minor, has_clusters;
    CUSHIM_TRY(ask(what, device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &major));
    CUSHIM_TRY(ask(what, device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &minor));
    CUSHIM_TRY(ask(what, device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &facts->n_sms));
    CUSHIM_TRY(ask(what, device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
                   &facts->shared_bytes));
    CUSHIM_TRY(ask(what, device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR,
                   &facts->shared_bytes_of_sm));
    CUSHIM_TRY(ask(what, device, CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK,
                   &facts->reserved_shared_bytes));
    CUSHIM_TRY(ask(what, device, CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, &has_clusters));
    facts->has_clusters = has_clusters != 0;
    facts->capability = (int)(10 * major + minor);
    return CUSHIM_OK;
}

enum cushim_status cushim_kernel_facts_of(const char *what, int device,
                                          const struct cushim_kernel_facts **facts) {
    enum cushim_status status = CUSHIM_OK;
    if (device >= CUSHIM_MOST_KERNEL_DEVICES)
        return cushim_fail(what, CUSHIM_NOTSUPPORTED, "device=%d is not below %d", device,
                           CUSHIM_MOST_KERNEL_DEVICES);
    *facts = &devices[device].facts;
    if (__builtin_expect(atomic_load_explicit(&devices[device].is_known, memory_order_acquire), 1))
        return CUSHIM_OK;
    pthread_mutex_lock(&lock);
    if (!atomic_load_explicit(&devices[device].is_known, memory_order_relaxed)) {
        status = learn(what, device, &devices[device].facts);
        if (status == CUSHIM_OK)
            atomic_store_explicit(&devices[device].is_known, true, memory_order_release);
    }
    pthread_mutex_unlock(&lock);
    return status;
}
