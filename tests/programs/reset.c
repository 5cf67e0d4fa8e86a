/*
 * cudaDeviceReset with live memory of every kind: the allocations are gone, their pointers are
 * refused, and the device works again, also in a thread that used it before.
 */
#include "answer.h"

#include <pthread.h>

enum { N_BLOCKS = 40 };

static void fill_and_read(int value) {
    unsigned char host[3000];
    void *block;
    TRY(cudaMalloc(&block, sizeof host));
    TRY(cudaMemset(block, value, sizeof host));
    TRY(cudaMemcpy(host, block, sizeof host, cudaMemcpyDeviceToHost));
    TRY(cudaFree(block));
    for (size_t i = 0; i < sizeof host; i++)
        MUST(host[i] == (unsigned char)value);
}

/* A second thread uses the device before and after each reset. */
static pthread_barrier_t barrier;

static void *other_thread(void *cookie) {
    size_t n_rounds = *(size_t *)cookie;
    for (size_t round = 0; round < n_rounds; round++) {
        fill_and_read((int)round + 1);
        pthread_barrier_wait(&barrier);
        pthread_barrier_wait(&barrier); /* the reset happens between the two */
        fill_and_read((int)round + 101);
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

/* Sets and copies in both directions, synchronous and queued. */
static void use_gone(unsigned char *gone) {
    unsigned char host[100] = {0};
    unsigned char *fresh;
    answer("set of a block from before", cudaMemset(gone, 0, 100));
    answer("set of it, queued", cudaMemsetAsync(gone + 1, 0, 99, 0));
    answer("copy to it", cudaMemcpy(gone, host, 100, cudaMemcpyHostToDevice));
    answer("copy to it, queued", cudaMemcpyAsync(gone, host, 100, cudaMemcpyHostToDevice, 0));
    answer("copy from it", cudaMemcpy(host, gone, 100, cudaMemcpyDeviceToHost));
    answer("copy from it, queued", cudaMemcpyAsync(host, gone, 100, cudaMemcpyDeviceToHost, 0));
    TRY(cudaMalloc((void **)&fresh, 100));
    answer("copy from it to another", cudaMemcpy(fresh, gone, 100, cudaMemcpyDeviceToDevice));
    answer("copy from another to it", cudaMemcpy(gone, fresh, 100, cudaMemcpyDeviceToDevice));
    TRY(cudaFree(fresh));
}

static void reset_once(void) {
    void *blocks[N_BLOCKS], *pinned, *managed;
    for (int i = 0; i < N_BLOCKS; i++)
        TRY(cudaMalloc(&blocks[i], 1000 + (size_t)i * 10000));
    TRY(cudaFree(blocks[N_BLOCKS - 1])); /* freed before the reset, so a pool may hold it */
    TRY(cudaMallocHost(&pinned, 5000));
    TRY(cudaMallocManaged(&managed, 5000, cudaMemAttachGlobal));
    pthread_barrier_wait(&barrier);
    answer_is("reset", cudaDeviceReset(), cudaSuccess);
    MUST(answer("free of a block from before", cudaFree(blocks[0])) != cudaSuccess);
    answer("free of pinned memory from before", cudaFreeHost(pinned));
    answer("free of managed memory from before", cudaFree(managed));
    printf("a pointer from before: %s\n", answer_type(blocks[1]));
    use_gone((unsigned char *)blocks[1]);
    pthread_barrier_wait(&barrier);
    fill_and_read(77);
    pthread_barrier_wait(&barrier);
}

int main(void) {
    size_t n_rounds = 3;
    pthread_t thread;
    MUST(pthread_barrier_init(&barrier, NULL, 2) == 0);
    MUST(pthread_create(&thread, NULL, other_thread, &n_rounds) == 0);
    for (size_t round = 0; round < n_rounds; round++)
        reset_once();
    MUST(pthread_join(thread, NULL) == 0);
    answer_is("in the end", cudaDeviceSynchronize(), cudaSuccess);
    return 0;
}
