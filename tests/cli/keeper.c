/*
 * A program that keeps memory and looks at it whenever it reads a line, for the tests of `cushim
 * suspend`: "well" if each byte is what it was, and then each is one more.
 *
 *     keeper MIB [device | managed | ipc | untouched]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda.h>

#define TRY(call)                                                                                  \
    do {                                                                                           \
        CUresult result_ = (call);                                                                 \
        if (result_ != CUDA_SUCCESS) {                                                             \
            fprintf(stderr, "%s: %d\n", #call, (int)result_);                                      \
            return 90;                                                                             \
        }                                                                                          \
    } while (0)

int main(int argc, char **argv) {
    size_t n_bytes = (size_t)atoi(argv[1]) << 20;
    const char *kind = argc > 2 ? argv[2] : "device";
    unsigned char value = 1, *bytes = NULL;
    CUcontext context;
    CUdeviceptr block;
    CUipcMemHandle handle;
    char line[64];
    TRY(cuInit(0));
    TRY(cuDevicePrimaryCtxRetain(&context, 0));
    TRY(cuCtxSetCurrent(context));
    TRY(strcmp(kind, "managed") == 0 ? cuMemAllocManaged(&block, n_bytes, CU_MEM_ATTACH_GLOBAL)
                                     : cuMemAlloc(&block, n_bytes));
    if (strcmp(kind, "ipc") == 0)
        TRY(cuIpcGetMemHandle(&handle, block));
    if (strcmp(kind, "untouched") != 0) {
        bytes = malloc(n_bytes);
        TRY(cuMemsetD8(block, value, n_bytes));
    }
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        TRY(cuMemcpyDtoH(bytes, block, n_bytes));
        for (size_t i = 0; i < n_bytes; i++) {
            if (bytes[i] != value)
                return 91;
        }
        TRY(cuMemsetD8(block, ++value, n_bytes));
        puts("well");
        fflush(stdout);
    }
    free(bytes);
    return 0;
}
