/*
 * Entry and exit of the driver: what every exported function does first and last.
 *
 * A function of the interface is `SIM_ENTER(name); return sim_leave(what_it_does(...));`.  Entering
 * counts the call, takes the time it is to take, fails it if a test asked for that, and refuses
 * what the state of process, context, thread or captures forbids.
 *
 * Lock: entering takes the driver's one lock, leaving releases it.  Everything else in
 * tools/sim/driver runs under that lock unless it says otherwise, and waits on the one condition
 * `sim_changed`, which is broadcast when a step is done that a thread waits for.
 */
#pragma once

#include "abi.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

extern pthread_mutex_t sim_lock;
extern pthread_cond_t sim_changed;

/* Success: the lock is held, and sim_leave must follow.  Otherwise it is not held. */
CUresult sim_enter(unsigned symbol);

/* Release the lock and pass the result on. */
CUresult sim_leave(CUresult result);

/* The linker supplies the number, so that callers are not compiled again when cuda/symbols.def
 * changes. */
#define SIM_ENTER(abi)                                                                             \
    do {                                                                                           \
        extern const uint16_t sim_number_of_##abi;                                                 \
        SIM_TRY(sim_enter(sim_number_of_##abi));                                                   \
    } while (0)

/*
 * A function that does one thing, and its variant for per-thread default streams, whose name ends
 * with `suffix`.  `call` knows the default stream that is meant as `default_stream`.
 */
#define SIM_BOTH(abi, suffix, parameters, call)                                                    \
    SIM_ONE_OF_BOTH(abi, parameters, CU_STREAM_LEGACY, call)                                       \
    SIM_ONE_OF_BOTH(abi##suffix, parameters, CU_STREAM_PER_THREAD, call)
#define SIM_ONE_OF_BOTH(abi, parameters, meant, call)                                              \
    CUresult abi parameters {                                                                      \
        __attribute__((unused)) const CUstream default_stream = meant;                             \
        SIM_ENTER(abi);                                                                            \
        return sim_leave(call);                                                                    \
    }
#define TAKES(...) (__VA_ARGS__)

/* Make the driver usable (cuInit), and unusable when the process ends; in a fork's child it is
 * lost. */
CUresult sim_start(void);

/* True once the process has begun to end: no more steps are made. */
bool sim_is_over(void);
