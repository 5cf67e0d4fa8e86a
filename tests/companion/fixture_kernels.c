/*
 * The kernels of kernels.ptx.h for the software device, which finds them in the program by name.
 *
 * A kernel that takes time reads the clock once per turn. It keeps its start in its last parameter,
 * which is 0 at the launch and again at the end, because a graph may launch it again.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include "tools/sim/sim.h"

struct three {
    float x, y, z;
};

struct mixed {
    uint32_t c;
    uint64_t d;
};

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void take_time(const struct sim_launch *launch, uint64_t ns, uint64_t *began) {
    if (*began == 0)
        *began = now_ns();
    launch->turn->again = now_ns() - *began < ns;
    if (!launch->turn->again)
        *began = 0;
}

/* The threads of the launch, at most n. */
static size_t n_threads(const struct sim_launch *launch, uint64_t n) {
    uint64_t all = (uint64_t)launch->grid[0] * launch->block[0];
    return (size_t)(all < n ? all : n);
}

SIM_KERNEL(empty, struct three) {
    (void)launch, (void)args;
}

SIM_KERNEL(nothing) {
    (void)launch, (void)args;
}

SIM_KERNEL(spin, uint64_t, uint64_t) {
    take_time(launch, SIM_ARG(uint64_t, 0), (uint64_t *)args[1]);
}

SIM_KERNEL(spin_fill, uint32_t *, uint32_t, uint64_t, uint64_t, uint64_t) {
    volatile uint32_t *words = SIM_ARG(uint32_t *, 0);
    for (uint64_t i = 0; i < SIM_ARG(uint64_t, 2); i++)
        words[i] = SIM_ARG(uint32_t, 1);
    take_time(launch, SIM_ARG(uint64_t, 3), (uint64_t *)args[4]);
}

SIM_KERNEL(fill, uint32_t *, uint32_t, uint64_t) {
    for (size_t i = 0; i < n_threads(launch, SIM_ARG(uint64_t, 2)); i++)
        SIM_ARG(uint32_t *, 0)[i] = SIM_ARG(uint32_t, 1);
}

SIM_KERNEL(copy, uint32_t *, const uint32_t *, uint64_t) {
    for (size_t i = 0; i < n_threads(launch, SIM_ARG(uint64_t, 2)); i++)
        SIM_ARG(uint32_t *, 0)[i] = SIM_ARG(const uint32_t *, 1)[i];
}

SIM_KERNEL(check, const uint32_t *, uint32_t, uint64_t, uint32_t *) {
    for (size_t i = 0; i < n_threads(launch, SIM_ARG(uint64_t, 2)); i++)
        *SIM_ARG(uint32_t *, 3) += SIM_ARG(const uint32_t *, 0)[i] != SIM_ARG(uint32_t, 1);
}

SIM_KERNEL(add, float *, const float *, const float *, uint64_t) {
    for (size_t i = 0; i < n_threads(launch, SIM_ARG(uint64_t, 3)); i++)
        SIM_ARG(float *, 0)[i] = SIM_ARG(const float *, 1)[i] + SIM_ARG(const float *, 2)[i];
}

SIM_KERNEL(multiply, float *, const float *, const float *) {
    for (size_t i = 0; i < n_threads(launch, UINT64_MAX); i++)
        SIM_ARG(float *, 0)[i] = SIM_ARG(const float *, 1)[i] * SIM_ARG(const float *, 2)[i];
}

SIM_KERNEL(twice, float *) {
    for (size_t i = 0; i < (size_t)launch->block[0] * launch->block[1]; i++)
        SIM_ARG(float *, 0)[i] *= 2;
}

SIM_KERNEL(twice_bytes, uint8_t *, uint64_t) {
    for (size_t i = 0; i < n_threads(launch, SIM_ARG(uint64_t, 1)); i++)
        SIM_ARG(uint8_t *, 0)[i] = (uint8_t)(SIM_ARG(uint8_t *, 0)[i] * 2);
}

SIM_KERNEL(store3, struct three *, struct three) {
    for (size_t i = 0; i < n_threads(launch, UINT64_MAX); i++)
        SIM_ARG(struct three *, 0)[i] = SIM_ARG(struct three, 1);
}

SIM_KERNEL(mixed, uint64_t *, uint8_t, uint16_t, struct mixed, uint32_t) {
    uint64_t *dst = SIM_ARG(uint64_t *, 0);
    struct mixed s = SIM_ARG(struct mixed, 3);
    (void)launch;
    dst[0] = SIM_ARG(uint8_t, 1);
    dst[1] = SIM_ARG(uint16_t, 2);
    dst[2] = s.c;
    dst[3] = s.d;
    dst[4] = SIM_ARG(uint32_t, 4);
}

SIM_KERNEL(count, uint32_t *) {
    *SIM_ARG(uint32_t *, 0) += launch->grid[0] * launch->grid[1] * launch->grid[2] *
                               launch->block[0] * launch->block[1] * launch->block[2];
}

/* The device variable of this name in the newest module that has one. */
SIM_KERNEL(constants, float *) {
    void *(*variable)(const char *) = NULL;
    void *address = dlsym(dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD), "sim_variable");
    memcpy(&variable, &address, sizeof address);
    memcpy(SIM_ARG(float *, 0), variable("table"), 4 * (size_t)launch->block[0]);
}

SIM_KERNEL(mirror, uint32_t *) {
    for (uint32_t i = 0; i < launch->block[0]; i++) {
        for (uint32_t j = 0; j < 4; j++)
            SIM_ARG(uint32_t *, 0)[4 * i + j] = 4 * (launch->block[0] - 1 - i) + j;
    }
}

SIM_KERNEL(caller, uint32_t *) {
    (void)launch;
    *SIM_ARG(uint32_t *, 0) = 4711;
}
