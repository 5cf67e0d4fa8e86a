/*
 * The layout as nvcc 13.0 writes it.  A header: magic, version, its own bytes, bytes after it.
 * Entries, one after the other: kind, the header's bytes, bytes after the header (padded), packed
 * bytes, capability, flags for the packing, unpacked bytes.
 */
#include "fatbin.h"

#include "unpack.h"

#include <stdint.h>
#include <stdlib.h>

enum { PTX = 1, CUBIN = 2, LZ4 = 0x2000, ZSTD = 0x8000 };

struct header {
    uint32_t magic;
    uint16_t version, header_bytes;
    uint64_t n_bytes;
};

struct entry {
    uint16_t kind, version;
    uint32_t header_bytes;
    uint64_t n_bytes;
    uint32_t packed_bytes;
    uint32_t unread[2];
    uint32_t capability;
    uint32_t unread_too[2];
    uint64_t flags;
    uint64_t unread_last;
    uint64_t unpacked_bytes;
};

struct sim_part sim_fatbin_whole(const void *fatbin) {
    struct header header;
    memcpy(&header, fatbin, sizeof header);
    return (struct sim_part){fatbin, header.header_bytes + header.n_bytes};
}

/* How well an entry suits: 0 not at all; a cubin is better than any PTX, a newer one better. */
static uint32_t rank(const struct entry *entry, int capability) {
    uint32_t own = (uint32_t)capability;
    if (entry->capability > own)
        return 0;
    if (entry->kind == CUBIN)
        return entry->capability / 10 == own / 10 ? 1000 + entry->capability : 0;
    return entry->kind == PTX ? entry->capability : 0;
}

static struct sim_part unpack(const struct entry *entry, struct sim_part content) {
    const uint64_t most_bytes = 1 << 30; /* more is no image of a program, but damage */
    struct sim_part packed = sim_part_of(content, 0, entry->packed_bytes);
    if (entry->unpacked_bytes > most_bytes)
        return (struct sim_part){NULL, 0};
    if (entry->flags & ZSTD)
        return sim_unpack_zstd(packed, entry->unpacked_bytes);
    if (entry->flags & LZ4)
        return sim_unpack_lz4(packed, entry->unpacked_bytes);
    return sim_unpack_none(content);
}

struct sim_part sim_fatbin_take(struct sim_part fatbin, int capability) {
    struct header header;
    struct entry entry, best = {0};
    struct sim_part content = {NULL, 0};
    uint32_t best_rank = 0;
    if (!sim_part_copy(&header, fatbin, 0, sizeof header))
        return content;
    size_t at = header.header_bytes;
    while (sim_part_copy(&entry, fatbin, at, sizeof entry)) {
        struct sim_part here = sim_part_of(fatbin, at + entry.header_bytes, (size_t)entry.n_bytes);
        if (!here.bytes || entry.header_bytes < sizeof entry)
            break;
        if (rank(&entry, capability) > best_rank) {
            best_rank = rank(&entry, capability);
            best = entry;
            content = here;
        }
        at += entry.header_bytes + (size_t)entry.n_bytes;
    }
    return content.bytes ? unpack(&best, content) : content;
}
