/*
 * A program that keeps memory and looks at it whenever it reads a line, for the tests of `cushim
 * suspend` and `cushim trim`: "well" if each byte is what it was, and then each is one more.
 *
 *     keeper MIB [device | managed | ipc | untouched | freed | leaves | sealed | forks]
 *
 * `freed` frees it, in a loop, and then synchronises for a line, `forks` does so in a child, and
 * `leaves` ends its main thread; `sealed` may start no thread.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cuda.h>

#define TRY(call)                                                                                  \
    do {                                                                                           \
        CUresult result_ = (call);                                                                 \
        if (result_ != CUDA_SUCCESS) {                                                             \
            fprintf(stderr, "%s: %d\n", #call, (int)result_);                                      \
            return 90;                                                                             \
        }                                                                                          \
    } while (0)

static int seal(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

int main(int argc, char **argv) {
    size_t n_bytes = (size_t)atoi(argv[1]) << 20;
    const char *kind = argc > 2 ? argv[2] : "device";
    unsigned char value = 1, *bytes = NULL;
    CUcontext context;
    CUdeviceptr block;
    CUipcMemHandle handle;
    char line[64];
    if (strcmp(kind, "forks") == 0) {
        cuMemFree(0); /* so that the parent has read its options */
        pid_t child = fork();
        if (child)
            return waitpid(child, NULL, 0) != child;
        kind = "freed";
    }
    TRY(cuInit(0));
    TRY(cuDevicePrimaryCtxRetain(&context, 0));
    TRY(cuCtxSetCurrent(context));
    if (strcmp(kind, "sealed") == 0 && seal() != 0)
        return 95; /* not here */
    TRY(strcmp(kind, "managed") == 0 ? cuMemAllocManaged(&block, n_bytes, CU_MEM_ATTACH_GLOBAL)
                                     : cuMemAlloc(&block, n_bytes));
    if (strcmp(kind, "ipc") == 0)
        TRY(cuIpcGetMemHandle(&handle, block));
    if (strcmp(kind, "freed") == 0) {
        for (int i = 0; i < 4; i++) { /* the memory of a loop is kept for a while */
            TRY(cuMemFree(block));
            TRY(cuMemAlloc(&block, n_bytes));
        }
        TRY(cuMemFree(block));
        n_bytes = 0;
    } else if (strcmp(kind, "device") == 0 || strcmp(kind, "managed") == 0 ||
               strcmp(kind, "ipc") == 0) {
        /* the software device starts a thread for this */
        bytes = malloc(n_bytes);
        TRY(cuMemsetD8(block, value, n_bytes));
    }
    puts("ready");
    fflush(stdout);
    if (strcmp(kind, "leaves") == 0)
        pthread_exit(NULL);
    while (fgets(line, sizeof line, stdin)) {
        if (n_bytes)
            TRY(cuMemcpyDtoH(bytes, block, n_bytes));
        else
            TRY(cuCtxSynchronize());
        for (size_t i = 0; i < n_bytes; i++) {
            if (bytes[i] != value)
                return 91;
        }
        if (n_bytes)
            TRY(cuMemsetD8(block, ++value, n_bytes));
        puts("well");
        fflush(stdout);
    }
    free(bytes);
    return 0;
}
