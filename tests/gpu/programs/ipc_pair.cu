/*
 * Two processes share blocks by IPC handles: the exporter's content arrives, the importer's writes
 * come back, neighbours of one segment are open at once, an event orders both processes, and a
 * block that the exporter frees stays readable until the importer closes it.
 *
 *   ipc_pair            exports to a copy of itself, prints what each saw
 *   ipc_pair --child    the importer: handles on standard input, answers on standard output
 *
 * CHILD_PRELOAD, if set, is the importer's LD_PRELOAD; if empty, it has none.
 */
#include "program.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

extern char **environ;

enum { N_BLOCKS = 16, WRITTEN = 100, FD_IN = 0, FD_OUT = 1 };
static const size_t SIZES[] = {512, 4096, 100000, 1 << 20, 2 << 20, 3 << 20, 20 << 20, 64 << 20};

struct message {
    cudaIpcMemHandle_t blocks[N_BLOCKS];
    cudaIpcEventHandle_t event;
};

struct answer {
    int opened[N_BLOCKS], n_wrong[N_BLOCKS], n_wrong_later[N_BLOCKS], closed[N_BLOCKS];
    int event, event_waited;
};

static size_t size_of(int block) {
    return SIZES[block / 2];
}

static void send_all(int fd, const void *data, size_t n_bytes) {
    for (size_t n_sent = 0; n_sent < n_bytes;) {
        ssize_t n = write(fd, (const char *)data + n_sent, n_bytes - n_sent);
        MUST(n > 0);
        n_sent += (size_t)n;
    }
}

static void receive_all(int fd, void *data, size_t n_bytes) {
    for (size_t n_got = 0; n_got < n_bytes;) {
        ssize_t n = read(fd, (char *)data + n_got, n_bytes - n_got);
        MUST(n > 0);
        n_got += (size_t)n;
    }
}

static int count_wrong(const void *block, size_t n_bytes, int value) {
    std::vector<unsigned char> copy(n_bytes);
    TRY(cudaMemcpy(copy.data(), block, n_bytes, cudaMemcpyDeviceToHost));
    int n_wrong = 0;
    for (unsigned char byte : copy)
        n_wrong += byte != (unsigned char)value;
    return n_wrong;
}

static int import_blocks(void) {
    struct message *message = (struct message *)program_allocate(sizeof *message);
    struct answer *answer = (struct answer *)program_allocate(sizeof *answer);
    void *blocks[N_BLOCKS], *own;
    cudaEvent_t event;
    char go;

    receive_all(FD_IN, message, sizeof *message);
    TRY(cudaMalloc(&own, 4096));
    for (int i = 0; i < N_BLOCKS; i++)
        answer->opened[i] =
            cudaIpcOpenMemHandle(&blocks[i], message->blocks[i], cudaIpcMemLazyEnablePeerAccess);
    answer->event = cudaIpcOpenEventHandle(&event, message->event);
    answer->event_waited = answer->event;
    if (answer->event == cudaSuccess)
        answer->event_waited = cudaStreamWaitEvent(0, event, 0);
    for (int i = 0; i < N_BLOCKS; i++) {
        if (answer->opened[i] != cudaSuccess)
            continue;
        answer->n_wrong[i] = count_wrong(blocks[i], size_of(i), i + 1);
        TRY(cudaMemset(blocks[i], i + WRITTEN, size_of(i)));
    }
    TRY(cudaDeviceSynchronize());
    send_all(FD_OUT, answer, sizeof *answer);
    receive_all(FD_IN, &go, 1);
    for (int i = 0; i < N_BLOCKS; i++) {
        if (answer->opened[i] != cudaSuccess)
            continue;
        answer->n_wrong_later[i] = count_wrong(blocks[i], size_of(i), i + WRITTEN);
        answer->closed[i] = cudaIpcCloseMemHandle(blocks[i]);
    }
    if (answer->event == cudaSuccess)
        TRY(cudaEventDestroy(event));
    TRY(cudaFree(own));
    send_all(FD_OUT, answer, sizeof *answer);
    free(message);
    free(answer);
    return 0;
}

static pid_t start_importer(const char *self, int *to_child, int *from_child) {
    char *arguments[] = {(char *)self, (char *)"--child", NULL};
    int down[2], up[2];
    posix_spawn_file_actions_t files;
    pid_t child;
    const char *preload = getenv("CHILD_PRELOAD");

    MUST(pipe(down) == 0 && pipe(up) == 0);
    MUST(posix_spawn_file_actions_init(&files) == 0);
    MUST(posix_spawn_file_actions_adddup2(&files, down[0], FD_IN) == 0);
    MUST(posix_spawn_file_actions_adddup2(&files, up[1], FD_OUT) == 0);
    for (int fd : {down[0], down[1], up[0], up[1]})
        MUST(posix_spawn_file_actions_addclose(&files, fd) == 0);
    if (preload)
        setenv("LD_PRELOAD", preload, 1);
    MUST(posix_spawn(&child, "/proc/self/exe", &files, NULL, arguments, environ) == 0);
    posix_spawn_file_actions_destroy(&files);
    close(down[0]);
    close(up[1]);
    *to_child = down[1];
    *from_child = up[0];
    return child;
}

int main(int argc, char **argv) {
    struct message *message;
    struct answer *answer;
    void *blocks[N_BLOCKS];
    int freed[N_BLOCKS], n_wrong[N_BLOCKS], to_child, from_child, status;
    cudaEvent_t event;

    if (program_flag(argc, argv, "--child"))
        return import_blocks();
    message = (struct message *)program_allocate(sizeof *message);
    answer = (struct answer *)program_allocate(sizeof *answer);
    /* before this process uses CUDA */
    pid_t child = start_importer(argv[0], &to_child, &from_child);
    for (int i = 0; i < N_BLOCKS; i++) {
        TRY(cudaMalloc(&blocks[i], size_of(i)));
        TRY(cudaMemset(blocks[i], i + 1, size_of(i)));
        TRY(cudaIpcGetMemHandle(&message->blocks[i], blocks[i]));
    }
    TRY(cudaEventCreateWithFlags(&event, cudaEventDisableTiming | cudaEventInterprocess));
    TRY(cudaEventRecord(event, 0));
    TRY(cudaIpcGetEventHandle(&message->event, event));
    send_all(to_child, message, sizeof *message);
    receive_all(from_child, answer, sizeof *answer);
    for (int i = 0; i < N_BLOCKS; i++)
        n_wrong[i] = answer->opened[i] ? 0 : count_wrong(blocks[i], size_of(i), i + WRITTEN);
    for (int i = 0; i < N_BLOCKS; i++)
        freed[i] = cudaFree(blocks[i]);
    /* writes other content to the freed blocks, if the allocator reuses them */
    for (int i = 0; i < N_BLOCKS; i++) {
        TRY(cudaMalloc(&blocks[i], size_of(i)));
        TRY(cudaMemset(blocks[i], 0, size_of(i)));
    }
    TRY(cudaDeviceSynchronize());
    send_all(to_child, "g", 1);
    receive_all(from_child, answer, sizeof *answer);
    MUST(waitpid(child, &status, 0) == child);
    printf("event: opened %d, waited for %d\n", answer->event, answer->event_waited);
    for (int i = 0; i < N_BLOCKS; i++) {
        printf("block %2d of %zu: opened %d, importer read %d wrong, exporter read %d wrong, freed "
               "%d, "
               "then the importer read %d wrong, closed %d\n",
               i, size_of(i), answer->opened[i], answer->n_wrong[i], n_wrong[i], freed[i],
               answer->n_wrong_later[i], answer->closed[i]);
        TRY(cudaFree(blocks[i]));
    }
    printf("importer ended with %d\n", status);
    TRY(cudaEventDestroy(event));
    free(message);
    free(answer);
    return 0;
}
