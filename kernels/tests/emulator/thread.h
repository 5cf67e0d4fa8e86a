/*
 * A thread of a kernel, as the kernel sees it, and what the emulator's own device functions need.
 *
 * One thread runs at a time; the variables below are those of the running one.  A function that
 * waits (meet) lets others run.  A kernel that breaks a rule ends the process with a line that
 * names kernel, block and thread.
 */
#ifndef CUSHIM_EMULATOR_THREAD_H
#define CUSHIM_EMULATOR_THREAD_H

#include "kernels/tests/emulator/vectors.h"

#include <stddef.h>
#include <stdint.h>

extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
static const int warpSize = 32;

/* The block's dynamic shared memory, NaN at first. */
void *emulated_dynamic_shared();
unsigned emulated_dynamic_bytes();

namespace emulated {

/* The running thread's lane of its warp. */
unsigned lane();

/* Lanes of the warp that have not returned. */
unsigned lanes_alive();

/* End the process with this message. */
[[noreturn]] void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Wait for all threads of the block, or of the cluster; one that has returned never comes. */
void meet_block(const char *what);

/* Wait for the n threads of a barrier for some of the block, or only arrive at it. */
void meet_some(unsigned number, unsigned n, bool is_waiting);

void arrive_at_cluster();
void wait_for_cluster();

/*
 * Wait for the lanes of a mask, which must come with the same `what` and mask.  The last one runs
 * `work` once for all: lanes[i] is what lane i gave, NULL outside of the mask.
 */
void meet_lanes(const char *what, unsigned mask, void *data,
                void (*work)(void *const lanes[32], unsigned mask));

/* ---- clusters ---- */

unsigned block_of_cluster();
unsigned blocks_of_cluster();

/* The same place of shared memory in another block of the cluster. */
void *shared_of_block(const void *place, unsigned block);

/* Gates: round by round, a number of arrivals, and bytes that come from other blocks. */
void make_gate(uint64_t *gate, unsigned n_arrivals);
void arrive_at_gate(uint64_t *gate, unsigned n_bytes);
void wait_for_gate(uint64_t *gate, unsigned round);
void copy_to_block(unsigned rank, void *place, unsigned n_bytes, uint64_t *gate);
void copy_for_gate(void *place, const void *from, unsigned n_bytes, uint64_t *gate);
void send_bytes(unsigned rank, uint64_t *gate, unsigned n_bytes);

/* ---- copies in flight: they happen when they are waited for ---- */

/* n_bytes between multiples of n_bytes: the first n_read come from memory, the others are 0. */
void copy_later(void *to, const void *from, unsigned n_bytes, unsigned n_read);
void end_copy_group();
void wait_for_copies(unsigned n_groups_left);

/* ---- bulk copies: a delivery has the bytes that are due, and how many rounds were begun ---- */

void expect_bytes(uint64_t *delivery, unsigned n_bytes);
void copy_bulk_later(void *to, const void *from, unsigned n_bytes, uint64_t *delivery);
void wait_for_bytes(const uint64_t *delivery, unsigned round);

/* ---- matrices: parts as kernels/device/arch/mma.cuh lays them out ---- */

void multiply_f16(float *d, const uint32_t *a, const uint32_t *b, int depth);
void multiply_bf16(float *d, const uint32_t *a, const uint32_t *b);
void multiply_tf32(float *d, const uint32_t *a, const uint32_t *b);
void multiply_bytes(int *d, const uint32_t *a, const uint32_t *b, bool is_a_signed);
void load_matrices(uint32_t *parts, const void *row, bool is_transposed);

} // namespace emulated

#endif
