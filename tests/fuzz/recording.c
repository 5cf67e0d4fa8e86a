/*
 * Any bytes as a recording: it is read to the end, and the totals by site and by place agree.
 *
 * The first byte chooses a form: the bytes as a file, or as the events of one chunk of a valid
 * file, so that random bytes reach the code after the reader.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "trace/account.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

enum { CHUNK_BYTES = CUSHIM_TRACE_LEAST_CHUNK_BYTES };

static void write_whole(int file, const uint8_t *data, size_t n_bytes) {
    struct cushim_trace_head head = {.version = CUSHIM_TRACE_VERSION,
                                     .head_bytes = CUSHIM_TRACE_HEAD_BYTES};
    struct cushim_trace_chunk chunk = {.n_bytes = CHUNK_BYTES};
    if (n_bytes > CHUNK_BYTES - CUSHIM_TRACE_CHUNK_HEAD_BYTES)
        n_bytes = CHUNK_BYTES - CUSHIM_TRACE_CHUNK_HEAD_BYTES;
    memcpy(head.magic, CUSHIM_TRACE_MAGIC, sizeof head.magic);
    memcpy(chunk.magic, CUSHIM_TRACE_CHUNK_MAGIC, sizeof chunk.magic);
    atomic_store(&chunk.used_bytes, n_bytes);
    const size_t at = CUSHIM_TRACE_HEAD_BYTES;
    if (pwrite(file, &head, sizeof head, 0) != (ssize_t)sizeof head ||
        pwrite(file, &chunk, sizeof chunk, (off_t)at) != (ssize_t)sizeof chunk ||
        pwrite(file, data, n_bytes, (off_t)at + CUSHIM_TRACE_CHUNK_HEAD_BYTES) !=
            (ssize_t)n_bytes ||
        ftruncate(file, (off_t)at + CHUNK_BYTES) != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
    static struct cushim_trace_account account;
    char path[32];
    if (!n_bytes)
        return 0;
    int file = memfd_create("recording", MFD_CLOEXEC);
    if (file < 0)
        abort();
    if (data[0] & 1)
        write_whole(file, data + 1, n_bytes - 1);
    else if (write(file, data + 1, n_bytes - 1) != (ssize_t)n_bytes - 1)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    if (cushim_trace_account_open(&account, path) == 0) {
        uint64_t of_sites = 0, of_places = 0;
        while (cushim_trace_account_next(&account)) {
        }
        for (size_t i = 0; i < account.n_sites; i++)
            of_sites += account.sites[i]->live_bytes;
        for (int i = 0; i < CUSHIM_TRACE_DEVICES * CUSHIM_TRACE_KINDS; i++)
            of_places += account.sums[i / CUSHIM_TRACE_KINDS][i % CUSHIM_TRACE_KINDS].live_bytes;
        if (of_sites != of_places)
            abort();
        cushim_trace_account_close(&account);
    }
    close(file);
    return 0;
}
