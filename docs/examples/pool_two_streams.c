/*
 * A pool and two streams: when a freed block is handed out again.
 *
 *   cc -o pool_two_streams pool_two_streams.c $(pkg-config --cflags --libs cushim)
 *
 * A free names the stream of the last use.  The same stream gets the block at once, because its
 * work runs in order.  Another stream gets it when that use is over, and a different block until
 * then.  No call waits.  It prints:
 *
 *   the same stream: the same block, at once
 *   another stream: the same block, once its last use is over
 *   a second free is refused: CUSHIM_DOUBLEFREE
 *   3 requests, 1 of them to the driver
 */
#include <cushim/cushim.h>

#include "try.h"

enum { BYTES = 1 << 20 };

int main(void) {
    struct cushim_pool *pool;
    struct cushim_stream *s, *t;
    TRY(cushim_pool_create(NULL, &pool));
    TRY(cushim_stream_create(NULL, CUSHIM_STREAM_FLAG_NON_BLOCKING, 0, &s));
    TRY(cushim_stream_create(NULL, CUSHIM_STREAM_FLAG_NON_BLOCKING, 0, &t));

    cushim_devptr first, second, third;
    TRY(cushim_pool_alloc_on(pool, BYTES, s, &first));
    TRY(cushim_memory_set8_async(first, 1, BYTES, s));
    TRY(cushim_pool_free_on(pool, first, s)); /* the fill may still run */

    TRY(cushim_pool_alloc_on(pool, BYTES, s, &second));
    CHECK(second == first);
    puts("the same stream: the same block, at once");
    TRY(cushim_memory_set8_async(second, 2, BYTES, s));
    TRY(cushim_pool_free_on(pool, second, s));

    TRY(cushim_stream_synchronize(s));
    TRY(cushim_pool_alloc_on(pool, BYTES, t, &third));
    CHECK(third == first);
    puts("another stream: the same block, once its last use is over");

    unsigned char byte = 0;
    TRY(cushim_memory_set8_async(third, 3, BYTES, t));
    TRY(cushim_stream_synchronize(t));
    TRY(cushim_memory_d2h(&byte, third + BYTES - 1, 1));
    CHECK(byte == 3);
    TRY(cushim_pool_free_on(pool, third, t));

    enum cushim_status st = cushim_pool_free_on(pool, third, t);
    CHECK(st == CUSHIM_DOUBLEFREE);
    printf("a second free is refused: %s\n", cushim_status_name(st));

    struct cushim_pool_stats stats = {.struct_size = sizeof stats};
    TRY(cushim_pool_stats(pool, -1, CUSHIM_MEMORY_ALL, &stats));
    CHECK(stats.hits == 2 && stats.misses == 1 && stats.live_blocks == 0);
    printf("%d requests, %d of them to the driver\n", (int)(stats.hits + stats.misses),
           (int)stats.misses);

    TRY(cushim_stream_destroy(s));
    TRY(cushim_stream_destroy(t));
    TRY(cushim_pool_destroy(pool));
    return 0;
}
