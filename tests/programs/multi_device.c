/*
 * All devices: memory of each is filled, copied around from device to device, and freed while
 * another device is current. One device is enough, but tests less.
 *
 *   multi_device [--size BYTES] [--rounds N]
 */
#include "program.h"

enum { MOST_DEVICES = 16 };

static void round_trip(int n_devices, size_t n_bytes, int value) {
    void *blocks[MOST_DEVICES];
    unsigned char *host = (unsigned char *)program_allocate(n_bytes);
    for (int d = 0; d < n_devices; d++) {
        TRY(cudaSetDevice(d));
        TRY(cudaMalloc(&blocks[d], n_bytes));
        TRY(cudaMemset(blocks[d], 0, n_bytes));
        TRY(cudaDeviceSynchronize()); /* because streams of other devices do not wait for the set */
    }
    TRY(cudaSetDevice(0));
    TRY(cudaMemset(blocks[0], value, n_bytes));
    TRY(cudaDeviceSynchronize());
    for (int d = 1; d < n_devices; d++) {
        if (d % 2)
            TRY(cudaMemcpyPeer(blocks[d], d, blocks[d - 1], d - 1, n_bytes));
        else
            TRY(cudaMemcpyPeerAsync(blocks[d], d, blocks[d - 1], d - 1, n_bytes, 0));
    }
    /* The source of the last copy is freed while another device is current. */
    for (int d = 0; d < n_devices - 1; d++) {
        TRY(cudaSetDevice((d + 1) % n_devices));
        TRY(cudaFree(blocks[d]));
    }
    struct cudaPointerAttributes attributes;
    TRY(cudaSetDevice(0));
    TRY(cudaPointerGetAttributes(&attributes, blocks[n_devices - 1]));
    MUST(attributes.type == cudaMemoryTypeDevice && attributes.device == n_devices - 1);
    TRY(cudaMemcpy(host, blocks[n_devices - 1], n_bytes, cudaMemcpyDefault));
    for (size_t i = 0; i < n_bytes; i++)
        MUST(host[i] == (unsigned char)value);
    TRY(cudaFree(blocks[n_devices - 1]));
    free(host);
}

int main(int argc, char **argv) {
    size_t n_bytes = program_option(argc, argv, "--size", 30000);
    size_t n_rounds = program_option(argc, argv, "--rounds", 50);
    int n_devices = 0, device = -1;
    TRY(cudaGetDeviceCount(&n_devices));
    if (n_devices > MOST_DEVICES)
        n_devices = MOST_DEVICES;
    for (int d = 0; d < n_devices; d++) {
        struct cudaDeviceProp prop;
        TRY(cudaGetDeviceProperties(&prop, d));
        MUST(prop.totalGlobalMem > 0 && prop.name[0]);
        TRY(cudaSetDevice(d));
        TRY(cudaGetDevice(&device));
        MUST(device == d);
    }
    MUST(cudaSetDevice(n_devices + 1000) == cudaErrorInvalidDevice);
    MUST(cudaGetLastError() == cudaErrorInvalidDevice);
    for (size_t round = 0; round < n_rounds; round++)
        round_trip(n_devices, n_bytes + round * 100, (int)(round % 255) + 1);
    printf("multi_device: %d devices, %zu rounds right\n", n_devices, n_rounds);
    return 0;
}
