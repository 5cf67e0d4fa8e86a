/*
 * Processes that export device memory to each other: bytes go both ways, an exporter frees memory
 * that is open elsewhere, an importer or an exporter is killed.
 *
 *   processes          directs three other processes and uses CUDA itself
 *   processes --peer   one of them that was spawned: orders on standard input, answers on output
 *
 * One of the three is forked before CUDA is used, one is spawned, and one closes every unneeded
 * descriptor before it uses CUDA, as a daemon does.
 */
#include "program.h"

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { N_SIZES = 3, FD_IN = 0, FD_OUT = 1, N_DESCRIPTORS = 256 };
static const size_t sizes[N_SIZES] = {1000, 200000, 5 << 20};

enum what { EXPORT, FREE, OPEN, READ, WRITE, CLOSE };

struct order {
    enum what what;
    int value; /* the value of the bytes */
    size_t n_bytes;
    cudaIpcMemHandle_t handle;
};

struct reply {
    cudaError_t error;
    int value; /* the value of the first byte; -1: the last byte differs */
    cudaIpcMemHandle_t handle;
};

struct peer {
    pid_t pid;
    int to, from;
};

static void send_all(int fd, const void *data, size_t n_bytes) {
    MUST(write(fd, data, n_bytes) == (ssize_t)n_bytes);
}

/* ---- a peer ---- */

static int value_of(const void *block, size_t n_bytes) {
    unsigned char first, last;
    TRY(cudaMemcpy(&first, block, 1, cudaMemcpyDeviceToHost));
    TRY(cudaMemcpy(&last, (const char *)block + n_bytes - 1, 1, cudaMemcpyDeviceToHost));
    return first == last ? first : -1;
}

static void fill(void *block, int value, size_t n_bytes) {
    TRY(cudaMemset(block, value, n_bytes));
    TRY(cudaDeviceSynchronize());
}

static void obey(const struct order *order, struct reply *reply) {
    static void *own, *opened;
    switch (order->what) {
    case EXPORT:
        TRY(cudaMalloc(&own, order->n_bytes));
        fill(own, order->value, order->n_bytes);
        reply->error = cudaIpcGetMemHandle(&reply->handle, own);
        break;
    case FREE:
        reply->value = value_of(own, order->n_bytes);
        reply->error = cudaFree(own);
        break;
    case OPEN:
        reply->error = cudaIpcOpenMemHandle(&opened, order->handle, cudaIpcMemLazyEnablePeerAccess);
        cudaGetLastError();
        break;
    case READ:
        reply->value = value_of(opened, order->n_bytes);
        break;
    case WRITE:
        fill(opened, order->value, order->n_bytes);
        break;
    case CLOSE:
        reply->error = cudaIpcCloseMemHandle(opened);
        break;
    }
}

static int serve(int from, int to) {
    struct order order;
    while (read(from, &order, sizeof order) == sizeof order) {
        struct reply reply;
        memset(&reply, 0, sizeof reply);
        obey(&order, &reply);
        send_all(to, &reply, sizeof reply);
    }
    return 0;
}

/* ---- the directing process ---- */

static struct reply tell(const struct peer *peer, enum what what, size_t n_bytes, int value,
                         const cudaIpcMemHandle_t *handle) {
    struct order order;
    struct reply reply;
    memset(&order, 0, sizeof order);
    order.what = what;
    order.n_bytes = n_bytes;
    order.value = value;
    if (handle)
        order.handle = *handle;
    send_all(peer->to, &order, sizeof order);
    MUST(read(peer->from, &reply, sizeof reply) == sizeof reply);
    return reply;
}

static struct reply tell_well(const struct peer *peer, enum what what, size_t n_bytes, int value,
                              const cudaIpcMemHandle_t *handle) {
    struct reply reply = tell(peer, what, n_bytes, value, handle);
    TRY(reply.error);
    return reply;
}

static void make_pipes(int down[2], int up[2]) {
    MUST(pipe(down) == 0 && pipe(up) == 0);
}

static struct peer peer_of(pid_t pid, int down[2], int up[2]) {
    struct peer peer = {pid, down[1], up[0]};
    MUST(pid > 0);
    close(down[0]);
    close(up[1]);
    return peer;
}

static struct peer fork_peer(int closes_all) {
    int down[2], up[2];
    make_pipes(down, up);
    pid_t pid = fork();
    if (pid == 0) {
        MUST(dup2(down[0], FD_IN) == FD_IN && dup2(up[1], FD_OUT) == FD_OUT);
        if (closes_all) {
            for (int fd = 3; fd < N_DESCRIPTORS; fd++)
                close(fd);
        } else {
            close(down[1]);
            close(up[0]);
        }
        _exit(serve(FD_IN, FD_OUT));
    }
    return peer_of(pid, down, up);
}

static struct peer spawn_peer(void) {
    char name[] = "processes", option[] = "--peer";
    char *arguments[] = {name, option, NULL};
    int down[2], up[2];
    posix_spawn_file_actions_t files;
    pid_t pid = -1;
    make_pipes(down, up);
    MUST(posix_spawn_file_actions_init(&files) == 0);
    MUST(posix_spawn_file_actions_adddup2(&files, down[0], FD_IN) == 0);
    MUST(posix_spawn_file_actions_adddup2(&files, up[1], FD_OUT) == 0);
    MUST(posix_spawn_file_actions_addclose(&files, down[1]) == 0);
    MUST(posix_spawn_file_actions_addclose(&files, up[0]) == 0);
    MUST(posix_spawn(&pid, "/proc/self/exe", &files, NULL, arguments, environ) == 0);
    MUST(posix_spawn_file_actions_destroy(&files) == 0);
    return peer_of(pid, down, up);
}

static void end_peer(struct peer *peer, int is_killed) {
    int status;
    if (is_killed)
        MUST(kill(peer->pid, SIGKILL) == 0);
    close(peer->to);
    MUST(waitpid(peer->pid, &status, 0) == peer->pid);
    MUST(is_killed ? WIFSIGNALED(status) : WIFEXITED(status) && WEXITSTATUS(status) == 0);
    close(peer->from);
}

/* Bytes go to the peer and back, then the other way round. */
static void show_both_ways(const struct peer *peer, const char *name) {
    for (int i = 0; i < N_SIZES; i++) {
        cudaIpcMemHandle_t handle;
        void *block, *opened;
        TRY(cudaMalloc(&block, sizes[i]));
        fill(block, 10 + i, sizes[i]);
        TRY(cudaIpcGetMemHandle(&handle, block));
        tell_well(peer, OPEN, sizes[i], 0, &handle);
        MUST(tell_well(peer, READ, sizes[i], 0, NULL).value == 10 + i);
        tell_well(peer, WRITE, sizes[i], 20 + i, NULL);
        MUST(value_of(block, sizes[i]) == 20 + i);
        tell_well(peer, CLOSE, sizes[i], 0, NULL);
        TRY(cudaFree(block));

        handle = tell_well(peer, EXPORT, sizes[i], 30 + i, NULL).handle;
        TRY(cudaIpcOpenMemHandle(&opened, handle, cudaIpcMemLazyEnablePeerAccess));
        MUST(value_of(opened, sizes[i]) == 30 + i);
        fill(opened, 40 + i, sizes[i]);
        TRY(cudaIpcCloseMemHandle(opened));
        MUST(tell_well(peer, FREE, sizes[i], 0, NULL).value == 40 + i);
    }
    printf("%s: bytes go both ways\n", name);
}

/* Open memory keeps its content, whatever the exporter does with its memory afterwards. */
static void free_what_is_open(const struct peer *peer) {
    enum { N = 40 };
    for (int i = 0; i < N_SIZES; i++) {
        cudaIpcMemHandle_t handle;
        void *block, *later[N];
        TRY(cudaMalloc(&block, sizes[i]));
        fill(block, 50 + i, sizes[i]);
        TRY(cudaIpcGetMemHandle(&handle, block));
        tell_well(peer, OPEN, sizes[i], 0, &handle);
        TRY(cudaFree(block));
        for (int k = 0; k < N; k++) {
            TRY(cudaMalloc(&later[k], sizes[i]));
            fill(later[k], 60, sizes[i]);
        }
        MUST(tell_well(peer, READ, sizes[i], 0, NULL).value == 50 + i);
        tell_well(peer, WRITE, sizes[i], 70, NULL);
        for (int k = 0; k < N; k++) {
            MUST(value_of(later[k], sizes[i]) == 60);
            TRY(cudaFree(later[k]));
        }
        tell_well(peer, CLOSE, sizes[i], 0, NULL);
    }
    printf("what is open stays while its exporter frees and allocates\n");
}

static void kill_an_importer(struct peer *importer) {
    cudaIpcMemHandle_t handles[2];
    void *blocks[2];
    for (int i = 0; i < 2; i++) {
        TRY(cudaMalloc(&blocks[i], sizes[i]));
        fill(blocks[i], 80 + i, sizes[i]);
        TRY(cudaIpcGetMemHandle(&handles[i], blocks[i]));
        tell_well(importer, OPEN, sizes[i], 0, &handles[i]);
    }
    end_peer(importer, 1);
    for (int i = 0; i < 2; i++) {
        MUST(value_of(blocks[i], sizes[i]) == 80 + i);
        TRY(cudaFree(blocks[i]));
    }
    printf("an importer was killed: its exporter goes on\n");
}

static void kill_an_exporter(struct peer *exporter, const struct peer *importer) {
    cudaIpcMemHandle_t handle = tell_well(exporter, EXPORT, sizes[1], 90, NULL).handle;
    tell_well(importer, OPEN, sizes[1], 0, &handle);
    end_peer(exporter, 1);
    MUST(tell_well(importer, READ, sizes[1], 0, NULL).value == 90);
    tell_well(importer, CLOSE, sizes[1], 0, NULL);
    MUST(tell(importer, OPEN, sizes[1], 0, &handle).error != cudaSuccess);
    printf("an exporter was killed: what was open stays, and opens no more\n");
}

int main(int argc, char **argv) {
    if (program_flag(argc, argv, "--peer"))
        return serve(FD_IN, FD_OUT);
    struct peer forked = fork_peer(0), spawned = spawn_peer(), bare = fork_peer(1);
    show_both_ways(&forked, "forked before CUDA");
    show_both_ways(&spawned, "spawned");
    show_both_ways(&bare, "without other descriptors");
    free_what_is_open(&spawned);
    kill_an_importer(&bare);
    kill_an_exporter(&forked, &spawned);
    end_peer(&spawned, 0);
    return 0;
}
