/*
 * A device whose work takes time, and sizes that vary: what was freed waits for the device, and
 * counts as held.  So the heap may not grow by as much as the program runs ahead.
 */
#include "tests/preload/fixture/fixture.h"

enum { N_LIVE = 8, N_TURNS = 200 };

static size_t draw(unsigned *state) {
    *state = *state * 1103515245u + 12345u;
    return (40 + (*state >> 16) % 320) * (size_t)MIB;
}

TEST(what_is_held_is_bounded_while_work_takes_time) {
    CUdeviceptr blocks[N_LIVE] = {0};
    size_t sizes[N_LIVE] = {0}, live_bytes = 0, peak_live_bytes = 0, peak_held_bytes = 0;
    unsigned state = 1;
    setenv("CUSHIM_SIM_WORK_NS", "2000000", 1);
    setenv("CUSHIM_SIM_MEMORY", "64G", 1);
    fixture_use_device(0);
    CUstream stream = fixture_stream();
    for (unsigned turn = 0; turn < N_TURNS; turn++) {
        unsigned i = turn % N_LIVE;
        if (blocks[i])
            OK(cuMemFree(blocks[i]));
        live_bytes -= sizes[i];
        sizes[i] = draw(&state);
        live_bytes += sizes[i];
        blocks[i] = fixture_alloc(sizes[i]);
        OK(cuMemsetD32Async(blocks[i], turn, 1, stream));
        peak_live_bytes = live_bytes > peak_live_bytes ? live_bytes : peak_live_bytes;
        size_t held_bytes = (size_t)sim_live_bytes();
        peak_held_bytes = held_bytes > peak_held_bytes ? held_bytes : peak_held_bytes;
    }
    ck_assert_msg(peak_held_bytes <= peak_live_bytes / 10 * 16, "held %zu MiB, live %zu MiB",
                  peak_held_bytes / MIB, peak_live_bytes / MIB);
    OK(cuCtxSynchronize());
}

int main(void) {
    return fixture_run("slow_device");
}
