/*
 * Random sizes on random streams: fill a block on one stream, free it at once, allocate again, fill
 * on another stream, and count the wrong words on the device. This is legal, because cudaFree waits
 * for earlier work, and fails under a pool that reuses a block too early.
 *
 *   churn [--size LARGEST_BYTES] [--rounds N]
 */
#include "kernel.h"
#include "program.h"

enum { N_STREAMS = 4, N_SLOTS = 24, N_THREADS = 128 };

KERNEL(fill, unsigned *, data, unsigned, value, size_t, n) {
    if (i < n)
        data[i] = value ^ (unsigned)i;
}

KERNEL(verify, const unsigned *, data, unsigned, value, size_t, n, unsigned *, n_wrong) {
    if (i < n && data[i] != (value ^ (unsigned)i))
        COUNT(n_wrong);
}

struct slot {
    unsigned *data;
    size_t n;
    unsigned value;
    cudaStream_t stream;
};

static void obtain(struct slot *slot, size_t n, unsigned value, cudaStream_t stream) {
    slot->n = n;
    slot->value = value;
    slot->stream = stream;
    TRY(cudaMalloc((void **)&slot->data, n * sizeof *slot->data));
    TRY(LAUNCH(fill, BLOCKS(n, N_THREADS), N_THREADS, stream, slot->data, value, n));
}

/* The check is queued after the fill on the same stream, and the free follows at once. */
static void release(struct slot *slot, unsigned *n_wrong) {
    if (!slot->data)
        return;
    TRY(LAUNCH(verify, BLOCKS(slot->n, N_THREADS), N_THREADS, slot->stream, slot->data, slot->value,
               slot->n, n_wrong));
    TRY(cudaFree(slot->data));
    slot->data = NULL;
}

int main(int argc, char **argv) {
    size_t largest = program_option(argc, argv, "--size", 100000);
    size_t n_rounds = program_option(argc, argv, "--rounds", 1500);
    unsigned long long state = 7, n_bytes = 0;
    unsigned *n_wrong, answer = 1;
    cudaStream_t streams[N_STREAMS];
    struct slot slots[N_SLOTS];
    memset(slots, 0, sizeof slots);
    for (int s = 0; s < N_STREAMS; s++)
        TRY(cudaStreamCreateWithFlags(&streams[s], cudaStreamNonBlocking));
    TRY(cudaMalloc((void **)&n_wrong, sizeof *n_wrong));
    TRY(cudaMemset(n_wrong, 0, sizeof *n_wrong));
    TRY(cudaDeviceSynchronize());

    for (size_t round = 0; round < n_rounds; round++) {
        struct slot *slot = &slots[program_random(&state) % N_SLOTS];
        size_t bytes = 4 + (size_t)(program_random(&state) % largest);
        bytes >>= program_random(&state) % 8; /* small sizes are more frequent than large ones */
        size_t n = bytes / sizeof(unsigned) + 1;
        release(slot, n_wrong);
        obtain(slot, n, (unsigned)program_random(&state), streams[round % N_STREAMS]);
        n_bytes += n * sizeof(unsigned);
    }
    for (int i = 0; i < N_SLOTS; i++)
        release(&slots[i], n_wrong);
    TRY(cudaDeviceSynchronize());
    TRY(cudaMemcpy(&answer, n_wrong, sizeof answer, cudaMemcpyDeviceToHost));
    TRY(cudaFree(n_wrong));
    for (int s = 0; s < N_STREAMS; s++)
        TRY(cudaStreamDestroy(streams[s]));
    printf("churn: %zu blocks, %llu bytes, %u words wrong\n", n_rounds, n_bytes, answer);
    return answer != 0;
}
