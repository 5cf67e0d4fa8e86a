#include "registry.h"

#include "sim.h"

#include <pthread.h>
#include <stdlib.h>

static struct simrt_kernel *kernels;
static struct simrt_variable *variables;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The handle of a binary is an address of our own, which is never dereferenced. */
void **__cudaRegisterFatBinary(void *fat_binary) {
    void **binary = malloc(sizeof *binary);
    if (binary)
        *binary = fat_binary;
    return binary;
}

void __cudaRegisterFatBinaryEnd(void **binary) {
    (void)binary;
}

char __cudaInitModule(void **binary) {
    (void)binary;
    return 1;
}

/* Called when the program or a library of it ends.  Device memory of variables dies with the
 * context. */
void __cudaUnregisterFatBinary(void **binary) {
    pthread_mutex_lock(&lock);
    for (struct simrt_kernel **link = &kernels; *link;) {
        struct simrt_kernel *kernel = *link;
        if (kernel->binary == binary) {
            *link = kernel->next;
            free(kernel);
        } else {
            link = &kernel->next;
        }
    }
    for (struct simrt_variable **link = &variables; *link;) {
        struct simrt_variable *variable = *link;
        if (variable->binary == binary) {
            *link = variable->next;
            free(variable);
        } else {
            link = &variable->next;
        }
    }
    pthread_mutex_unlock(&lock);
    free(binary);
}

void __cudaRegisterFunction(void **binary, const char *stub, char *device_stub, const char *name,
                            int thread_limit, uint3 *tid, uint3 *bid, dim3 *block, dim3 *grid,
                            int *warp_size) {
    (void)device_stub, (void)thread_limit, (void)tid, (void)bid, (void)block, (void)grid;
    (void)warp_size;
    struct simrt_kernel *kernel = calloc(1, sizeof *kernel);
    if (!kernel)
        return; /* its launch will be refused: invalid device function */
    kernel->stub = stub;
    kernel->name = name;
    kernel->binary = binary;
    pthread_mutex_lock(&lock);
    kernel->next = kernels;
    kernels = kernel;
    pthread_mutex_unlock(&lock);
}

void __cudaRegisterVar(void **binary, char *shadow, char *device_address, const char *name,
                       int external, size_t n_bytes, int constant, int global) {
    (void)device_address, (void)name, (void)external, (void)constant, (void)global;
    struct simrt_variable *variable = calloc(1, sizeof *variable);
    if (!variable)
        return;
    variable->shadow = shadow;
    variable->n_bytes = n_bytes;
    variable->binary = binary;
    pthread_mutex_lock(&lock);
    variable->next = variables;
    variables = variable;
    pthread_mutex_unlock(&lock);
}

/* Managed variables are not served: their shadow stays NULL. */
void __cudaRegisterManagedVar(void **binary, void **shadow, char *device_address, const char *name,
                              int external, size_t n_bytes, int constant, int global) {
    (void)binary, (void)shadow, (void)device_address, (void)name, (void)external, (void)n_bytes;
    (void)constant, (void)global;
}

struct simrt_kernel *simrt_registry_kernel(const void *stub) {
    pthread_mutex_lock(&lock);
    struct simrt_kernel *kernel = kernels;
    while (kernel && kernel->stub != stub)
        kernel = kernel->next;
    pthread_mutex_unlock(&lock);
    return kernel;
}

/* The software device's own image stands for every fat binary; loaded at the first launch. */
static cudaError_t load_library(CUlibrary *answer) {
    static CUlibrary library; /* written under lock */
    cudaError_t error = cudaSuccess;
    pthread_mutex_lock(&lock);
    if (!library)
        error = simrt_from_cu(simrt_legacy.cuLibraryLoadData(&library, SIM_MODULE_IMAGE, NULL, NULL,
                                                             0, NULL, NULL, 0));
    *answer = library;
    pthread_mutex_unlock(&lock);
    return error;
}

cudaError_t simrt_registry_function(struct simrt_kernel *kernel, CUfunction *function) {
    CUlibrary library = NULL;
    CUkernel handle = NULL;
    *function = atomic_load_explicit(&kernel->function, memory_order_acquire);
    if (*function)
        return cudaSuccess;
    cudaError_t error = load_library(&library);
    if (error != cudaSuccess)
        return error;
    CUresult result = simrt_legacy.cuLibraryGetKernel(&handle, library, kernel->name);
    if (result == CUDA_ERROR_NOT_FOUND) /* there may be device code for a GPU, but none for us */
        return cudaErrorNoKernelImageForDevice;
    if (result == CUDA_SUCCESS)
        result = simrt_legacy.cuKernelGetFunction(function, handle);
    if (result == CUDA_SUCCESS)
        atomic_store_explicit(&kernel->function, *function, memory_order_release);
    return simrt_from_cu(result);
}

cudaError_t simrt_registry_resolve(const void *named, CUfunction *function) {
    struct simrt_kernel *kernel = simrt_registry_kernel(named);
    if (kernel)
        return simrt_registry_function(kernel, function);
    CUresult result =
        named ? simrt_legacy.cuKernelGetFunction(function, (CUkernel)named) : CUDA_ERROR_NOT_FOUND;
    return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidDeviceFunction;
}

cudaError_t simrt_registry_variable(const void *shadow, CUdeviceptr *address, size_t *n_bytes) {
    cudaError_t error = cudaErrorInvalidSymbol;
    pthread_mutex_lock(&lock);
    struct simrt_variable *variable = variables;
    while (variable && variable->shadow != shadow)
        variable = variable->next;
    if (variable) {
        error = cudaSuccess;
        if (!variable->address)
            error =
                simrt_from_cu(simrt_legacy.cuMemAlloc_v2(&variable->address, variable->n_bytes));
        *address = variable->address;
        *n_bytes = variable->n_bytes;
    }
    pthread_mutex_unlock(&lock);
    return error;
}
