/*
 * Stages of shared memory that some warps fill while others use what was filled before (sm_90).
 *
 * Turns are counted from 0; turn i has stage i % STAGES.  A filler waits until the stage is free,
 * fills it and hands it over; a user waits for it, uses it and gives it back.  Nobody waits for the
 * warps of its own side.  Warps of either side come whole, and take every turn in order.
 *
 * Not by __syncthreads(), which is for one place of the code, nor by a named barrier of the whole
 * block, which compute-sanitizer takes for the same.
 */
#ifndef CUSHIM_KERNELS_HANDOVER_CUH
#define CUSHIM_KERNELS_HANDOVER_CUH

#include "kernels/device/device.cuh"

template <int STAGES, int FILLERS, int USERS> struct Handover {
    uint64_t filled[STAGES], used[STAGES]; /* barriers for which a warp arrives once a turn */

    /* One thread, ahead of a barrier of the block. */
    MEMBER void make() {
#if !defined(CUSHIM_EMULATED) && __CUDA_ARCH__ >= 900
        for (int stage = 0; stage < STAGES; stage++) {
            make_one(filled + stage, FILLERS);
            make_one(used + stage, USERS);
        }
#endif
    }

    MEMBER void wait_until_free([[maybe_unused]] int turn) {
#ifndef CUSHIM_EMULATED
        if (turn >= STAGES)
            wait_for_phase(used + turn % STAGES, turn / STAGES - 1);
#endif
    }

    MEMBER void hand_over([[maybe_unused]] int turn) {
#ifdef CUSHIM_EMULATED
        __syncthreads(); /* the emulator's sides meet once a turn: two stages are enough for that */
#else
        arrive(filled + turn % STAGES);
#endif
    }

    MEMBER void wait_until_filled([[maybe_unused]] int turn) {
#ifdef CUSHIM_EMULATED
        __syncthreads();
#else
        wait_for_phase(filled + turn % STAGES, turn / STAGES);
#endif
    }

    MEMBER void give_back([[maybe_unused]] int turn) {
#ifndef CUSHIM_EMULATED
        arrive(used + turn % STAGES);
#endif
    }

    /* After n_turns, for something else than stages: a user waits for all users ... */
    MEMBER void wait_until_unused([[maybe_unused]] int n_turns) {
#ifdef CUSHIM_EMULATED
        __syncthreads();
#else
        if (n_turns > 0)
            wait_for_phase(used + (n_turns - 1) % STAGES, (n_turns - 1) / STAGES);
#endif
    }

    /* ... and a filler, who has nothing there any more, goes on. */
    MEMBER void end_filling() {
#ifdef CUSHIM_EMULATED
        __syncthreads();
#endif
    }

#if !defined(CUSHIM_EMULATED)
  private:
    MEMBER static unsigned address_of(uint64_t *barrier) {
        return (unsigned)__cvta_generic_to_shared(barrier);
    }

    MEMBER static void make_one([[maybe_unused]] uint64_t *barrier,
                                [[maybe_unused]] unsigned n_warps) {
#if __CUDA_ARCH__ >= 900
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address_of(barrier)),
                     "r"(n_warps)
                     : "memory");
#endif
    }

    /* What the warp's lanes wrote before is seen by whoever waits for the phase. */
    MEMBER static void arrive([[maybe_unused]] uint64_t *barrier) {
        __syncwarp();
#if __CUDA_ARCH__ >= 900
        if (threadIdx.x % 32 == 0)
            asm volatile(
                "mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" ::"r"(address_of(barrier))
                : "memory");
#endif
    }

    MEMBER static void wait_for_phase([[maybe_unused]] uint64_t *barrier,
                                      [[maybe_unused]] int phase) {
#if __CUDA_ARCH__ >= 900
        asm volatile("{\n\t"
                     ".reg .pred is_over;\n\t"
                     "again:\n\t"
                     "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 is_over, [%0], %1;\n\t"
                     "@!is_over bra again;\n\t"
                     "}" ::"r"(address_of(barrier)),
                     "r"(phase & 1)
                     : "memory");
#endif
    }
#endif
};

#endif
