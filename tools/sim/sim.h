/*
 * The software device as its tests see it: kernels, and the controls that a real driver lacks.
 *
 * Programs that only use CUDA need nothing from here.  A test links the software libcuda.so.1 (or
 * looks these names up in it with dlsym) and may hold streams, step them, make calls fail, and read
 * what was called.  Every function below may be called from any thread and before cuInit; none
 * counts as a call.
 */
#pragma once

#include <cuda.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SIM_EXPORT __attribute__((visibility("default")))

/* Marks this as the software device; returns 1000 * major + minor of this header's version. */
SIM_EXPORT int cushim_sim_version(void);

/* ---- kernels ---- */

/*
 * What a kernel may say about itself; all 0 when its turn begins.  If it sets `again`, it gets one
 * more turn later, with other streams' steps between: a kernel that spins is written as a look and
 * `again`.  If it sets `fault`, that code (a CUresult) damages the context from then on.  If it
 * sets `print`, that text appears on stdout when the host next synchronises.
 */
struct sim_turn {
    int again;
    int fault;
    const char *print;
};

struct sim_launch {
    unsigned grid[3];
    unsigned block[3];
    unsigned cluster[3]; /* blocks of a cluster; 1 without the attribute.  Divides the grid */
    unsigned shared_bytes;
    struct sim_turn *turn;
};

/*
 * A launch of the kernel <name> calls sim_kernel_<name>, which the program (linked with -rdynamic)
 * or a loaded library exports, once: it loops over the grid by itself. args[i] points to a copy of
 * the i-th parameter, made at the launch.  The sizes of the parameters come from sim_params_<name>,
 * a list that ends with 0; without it a kernel has no parameters.
 */
typedef void sim_kernel_fn(const struct sim_launch *launch, void **args);

/* Define a kernel: SIM_KERNEL(fill, float *, float, size_t) { ... uses launch and args ... } */
#define SIM_KERNEL(...)          SIM_KERNEL_OF(SIM_FIRST(__VA_ARGS__, 0), SIM_SIZES(__VA_ARGS__))
#define SIM_KERNEL_OF(name, ...) SIM_KERNEL_NAMED(name, __VA_ARGS__)
#define SIM_KERNEL_NAMED(name, ...)                                                                \
    SIM_EXPORT extern const size_t sim_params_##name[];                                            \
    SIM_EXPORT const size_t sim_params_##name[] = {__VA_ARGS__};                                   \
    SIM_EXPORT void sim_kernel_##name(const struct sim_launch *launch, void **args);               \
    SIM_EXPORT void sim_kernel_##name(const struct sim_launch *launch, void **args)

/* The i-th argument, as its type. */
#define SIM_ARG(type, i) (*(type *)args[i])

/* The sizes of up to 12 types after the kernel's name, then 0. */
#define SIM_FIRST(name, ...) name
#define SIM_SIZES(...)                                                                             \
    SIM_PICK(__VA_ARGS__, SIM_S12, SIM_S11, SIM_S10, SIM_S9, SIM_S8, SIM_S7, SIM_S6, SIM_S5,       \
             SIM_S4, SIM_S3, SIM_S2, SIM_S1, SIM_S0, 0)                                            \
    (__VA_ARGS__)
#define SIM_PICK(name, a, b, c, d, e, f, g, h, i, j, k, l, chosen, ...) chosen
#define SIM_S0(name)                                                    0
#define SIM_S1(name, a)                                                 sizeof(a), 0
#define SIM_S2(name, a, ...)                                            sizeof(a), SIM_S1(name, __VA_ARGS__)
#define SIM_S3(name, a, ...)                                            sizeof(a), SIM_S2(name, __VA_ARGS__)
#define SIM_S4(name, a, ...)                                            sizeof(a), SIM_S3(name, __VA_ARGS__)
#define SIM_S5(name, a, ...)                                            sizeof(a), SIM_S4(name, __VA_ARGS__)
#define SIM_S6(name, a, ...)                                            sizeof(a), SIM_S5(name, __VA_ARGS__)
#define SIM_S7(name, a, ...)                                            sizeof(a), SIM_S6(name, __VA_ARGS__)
#define SIM_S8(name, a, ...)                                            sizeof(a), SIM_S7(name, __VA_ARGS__)
#define SIM_S9(name, a, ...)                                            sizeof(a), SIM_S8(name, __VA_ARGS__)
#define SIM_S10(name, a, ...)                                           sizeof(a), SIM_S9(name, __VA_ARGS__)
#define SIM_S11(name, a, ...)                                           sizeof(a), SIM_S10(name, __VA_ARGS__)
#define SIM_S12(name, a, ...)                                           sizeof(a), SIM_S11(name, __VA_ARGS__)

/*
 * An image whose module or library has every kernel that the program exports.  Lines after it say
 * what else is in it, or limit its kernels: tools/sim/driver/module/module_image.h.
 */
#define SIM_MODULE_IMAGE "cushim software device module"

/* For a kernel: the address of a module's variable, the newest of its name; NULL: none. */
SIM_EXPORT void *sim_variable(const char *name);

/*
 * If a program exports a constant of this name, a real fatbin loads and has every kernel that the
 * program exports.  Without it a fatbin loads if the program has a function for a kernel that is
 * listed in it.
 */
SIM_EXPORT extern const int sim_fatbin_kernels;

/*
 * A function handle for a kernel by its name, made if necessary and valid until the process ends.
 * It succeeds for any name; launching one that the program lacks gives
 * CUDA_ERROR_NO_BINARY_FOR_GPU.
 */
SIM_EXPORT CUresult sim_function_by_name(CUfunction *function, const char *name);

/* How often the kernel of this name was skipped (CUSHIM_SIM_KERNELS=skip); NULL: all kernels. */
SIM_EXPORT unsigned long sim_skipped(const char *name);

/* ---- failures ---- */

/* The n-th call from now (1 is the next) returns `result` and does nothing else; n = 0 cancels it.
 * A query that was answered "not ready" does not count. */
SIM_EXPORT void sim_fail_at(unsigned long n, CUresult result);

/* 1 if the last requested failure has happened. */
SIM_EXPORT int sim_has_failed(void);

/* Damage the thread's current context, as a faulting kernel does; CUDA_SUCCESS repairs it. */
SIM_EXPORT void sim_fault(CUresult result);

/* ---- progress ---- */

/*
 * Streams make no step until the release; holds count.  A running turn ends first.  A call that
 * waits still waits.
 */
SIM_EXPORT void sim_hold(void);
SIM_EXPORT void sim_release_hold(void);

/* While held: let n steps be made, one after the other.  Returns how many there were to make. */
SIM_EXPORT unsigned sim_step(unsigned n);

/* Steps that streams still have to make. */
SIM_EXPORT unsigned sim_pending(void);

/* Restart the sequence of random choices. */
SIM_EXPORT void sim_seed(unsigned long seed);

/* ---- what was called ---- */

/* Calls of one exported name since the last reset; ULONG_MAX for an unknown name. */
SIM_EXPORT unsigned long sim_calls(const char *name);
SIM_EXPORT unsigned long sim_calls_total(void);

/* The address of that count, to be read while no other thread makes a call; NULL for an unknown
 * name. */
SIM_EXPORT const unsigned long *sim_calls_counter(const char *name);
SIM_EXPORT void sim_calls_reset(void);

/*
 * The exported name of the i-th call since the last reset, 0 the first.  NULL: not made yet, or so
 * long ago that the ring (65,536 calls) has lost it.
 */
SIM_EXPORT const char *sim_call_name(unsigned long i);

/* Bytes of live device allocations on all devices (including pools and mapped memory, without
 * pinned and managed memory). */
SIM_EXPORT size_t sim_live_bytes(void);
SIM_EXPORT size_t sim_live_allocations(void);

/* Contexts that the calls of others look at: those that live, or have work left. */
SIM_EXPORT size_t sim_listed_contexts(void);

/* How much of a device is taken, in whole pages: its total minus what cuMemGetInfo reports.  The
 * second is in place of a device: the host memory that cuMemCreate made, of all processes. */
SIM_EXPORT size_t sim_used_bytes(int device);
enum { SIM_OF_HOST = 16 };

/*
 * What the driver gives back as one: the whole pages of the allocation or mapping that contains an
 * address; for a small allocation the page that it shares.  0: no such device memory.
 */
SIM_EXPORT int sim_allocation_at(const void *address, void **base, size_t *n_bytes);

/* ---- what NVML asks ---- */

struct sim_device_look {
    char name[32];
    CUuuid uuid;
    int bus;                        /* of PCI; domain, slot and function are 0 */
    int capability;                 /* 10 * major + minor */
    int is_reachable;               /* its memory, from other devices */
    int driver_version;             /* as in cuDriverGetVersion */
    size_t total_bytes, used_bytes; /* in whole pages, by all processes */
};

/* 0: no such device. */
SIM_EXPORT int sim_device_look(int device, struct sim_device_look *look);

enum { SIM_MAX_PROCESSES = 256 };

struct sim_process {
    int pid;
    size_t used_bytes;
};

/* The processes with a context on a device; returns their number, and writes the first n. */
SIM_EXPORT unsigned sim_device_processes(int device, struct sim_process *processes, unsigned n);

#ifdef __cplusplus
}
#endif
