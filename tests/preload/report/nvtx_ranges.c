/*
 * A program with NVTX ranges, as NVTX's own headers make them: passes of a training loop, each in a
 * range "forward" of one of several forms.  A pass allocates, works and frees; `weights` stay.
 *
 *   nvtx_ranges push|wide|domain|registered|start|other
 *
 * It prints how many passes got the addresses of the first, as they do after a reset of the arena
 * while the weights keep its chunk.
 */
#include <cuda_runtime_api.h>
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PASSES = 6, BUFFERS = 5, N_BYTES = 300 * 1024 };

static void must(int holds, const char *what) {
    if (holds)
        return;
    fprintf(stderr, "%s\n", what);
    exit(1);
}

static nvtxEventAttributes_t event_of(nvtxMessageType_t type) {
    nvtxEventAttributes_t event;
    memset(&event, 0, sizeof event);
    event.version = NVTX_VERSION;
    event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    event.messageType = type;
    return event;
}

/* One pass: its first buffer's address. */
static char *pass(int number) {
    char *buffers[BUFFERS], host[512];
    for (int i = 0; i < BUFFERS; i++) {
        must(cudaMalloc((void **)&buffers[i], N_BYTES) == cudaSuccess, "malloc");
        must(cudaMemset(buffers[i], number * BUFFERS + i, N_BYTES) == cudaSuccess, "memset");
    }
    for (int i = 0; i < BUFFERS; i++) {
        must(cudaMemcpy(host, buffers[i] + N_BYTES - sizeof host, sizeof host,
                        cudaMemcpyDeviceToHost) == cudaSuccess,
             "memcpy");
        for (size_t k = 0; k < sizeof host; k++)
            must(host[k] == (char)(number * BUFFERS + i), "a buffer holds what is not its own");
    }
    for (int i = 0; i < BUFFERS; i++)
        must(cudaFree(buffers[i]) == cudaSuccess, "free");
    return buffers[0];
}

static char *pass_in_range(int number, const char *form, nvtxDomainHandle_t domain,
                           nvtxStringHandle_t string) {
    nvtxEventAttributes_t event;
    char *first;
    if (strcmp(form, "wide") == 0) {
        nvtxRangePushW(L"forward");
    } else if (strcmp(form, "domain") == 0) {
        event = event_of(NVTX_MESSAGE_TYPE_ASCII);
        event.message.ascii = "forward";
        nvtxDomainRangePushEx(domain, &event);
        nvtxRangePushA("another domain's"); /* it has its own stack */
    } else if (strcmp(form, "registered") == 0) {
        event = event_of(NVTX_MESSAGE_TYPE_REGISTERED);
        event.message.registered = string;
        nvtxDomainRangePushEx(domain, &event);
    } else if (strcmp(form, "start") == 0) {
        nvtxRangeId_t id = nvtxRangeStartA("forward");
        first = pass(number);
        nvtxRangeEnd(id);
        return first;
    } else {
        nvtxRangePushA(strcmp(form, "other") == 0 ? "backward" : "forward");
        nvtxRangePushA("inner");
    }
    first = pass(number);
    if (strcmp(form, "domain") == 0 || strcmp(form, "registered") == 0) {
        nvtxDomainRangePop(domain); /* the other domain's stays */
    } else if (strcmp(form, "wide") == 0) {
        nvtxRangePop();
    } else {
        nvtxRangePop();
        nvtxRangePop();
    }
    return first;
}

int main(int argc, char **argv) {
    const char *form = argc > 1 ? argv[1] : "push";
    /* before CUDA is used, as imports do */
    nvtxDomainHandle_t domain = nvtxDomainCreateA("test");
    nvtxStringHandle_t string = nvtxDomainRegisterStringA(domain, "forward");
    char *weights, *firsts[PASSES];
    must(cudaMalloc((void **)&weights, 4096) == cudaSuccess, "malloc");
    must(cudaMemset(weights, 77, 4096) == cudaSuccess, "memset");
    for (int i = 0; i < PASSES; i++)
        firsts[i] = pass_in_range(i, form, domain, string);
    unsigned char kept;
    must(cudaMemcpy(&kept, weights, 1, cudaMemcpyDeviceToHost) == cudaSuccess && kept == 77,
         "the weights are not what they were");
    must(cudaFree(weights) == cudaSuccess, "free");
    int n_again = 0;
    for (int i = 1; i < PASSES; i++)
        n_again += firsts[i] == firsts[0];
    printf("nvtx_ranges: %d passes in the places of the first\n", n_again);
    return 0;
}
