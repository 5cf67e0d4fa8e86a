/*
 * An arena for buffers that live for one pass, with a floor for data that outlives all passes.
 *
 *   cc -o arena_pass arena_pass.c $(pkg-config --cflags --libs cushim)
 *
 * The weights are allocated first, and the floor is set above them. Each pass allocates its buffers
 * by moving a mark, and a reset moves the mark back to the floor, without a free or a wait, so each
 * pass gets the same addresses. It prints:
 *
 *   weights: 4096 bytes below the floor
 *   pass 1: 12544 of 65536 bytes used
 *   pass 2: 12544 of 65536 bytes used
 *   pass 3: 12544 of 65536 bytes used
 *   after 3 resets: 4096 bytes used, the weights are as they were
 */
#include <cushim/cushim.h>

#include "try.h"

enum { WEIGHTS = 4096, HIDDEN = 8192, RESULT = 100 };

int main(void) {
    struct cushim_stream *s;
    struct cushim_arena *arena;
    struct cushim_arena_options options;
    TRY(cushim_stream_create(NULL, CUSHIM_STREAM_FLAG_NON_BLOCKING, 0, &s));
    cushim_arena_options_default(&options);
    options.capacity_bytes = 65536;
    options.device = 0;
    TRY(cushim_arena_create(&options, &arena));

    cushim_devptr weights, hidden, result, hidden_before = 0;
    size_t used, capacity;
    TRY(cushim_arena_take(arena, WEIGHTS, s, &weights));
    TRY(cushim_memory_set8_async(weights, 42, WEIGHTS, s));
    TRY(cushim_arena_used(arena, &used));
    TRY(cushim_arena_set_floor(arena, used));
    printf("weights: %d bytes below the floor\n", (int)used);

    for (int pass = 1; pass <= 3; pass++) {
        TRY(cushim_arena_take(arena, HIDDEN, s, &hidden));
        TRY(cushim_arena_take(arena, RESULT, s, &result));
        TRY(cushim_memory_set8_async(hidden, (uint8_t)pass, HIDDEN, s));
        TRY(cushim_memory_d2d_async(result, hidden, RESULT, s));
        CHECK(pass == 1 || hidden == hidden_before);
        hidden_before = hidden;

        TRY(cushim_arena_used(arena, &used));
        TRY(cushim_arena_capacity(arena, &capacity));
        printf("pass %d: %d of %d bytes used\n", pass, (int)used, (int)capacity);
        unsigned char byte = 0;
        TRY(cushim_stream_synchronize(s));
        TRY(cushim_memory_d2h(&byte, result + RESULT - 1, 1));
        CHECK(byte == pass);
        TRY(cushim_arena_reset(arena, s)); /* after the work of this pass */
    }

    unsigned char weight = 0;
    struct cushim_arena_stats stats = {.struct_size = sizeof stats};
    TRY(cushim_memory_d2h(&weight, weights, 1));
    TRY(cushim_arena_stats(arena, &stats));
    CHECK(weight == 42 && stats.hits == 7 && stats.misses == 0);
    printf("after %d resets: %d bytes used, the weights are as they were\n", (int)stats.resets,
           (int)stats.used_bytes);

    TRY(cushim_arena_destroy(arena));
    TRY(cushim_stream_destroy(s));
    return 0;
}
