/* Memory of other processes (interposition.md C2): a handle opens at the block's own bytes. */
#include "tests/preload/fixture/fixture.h"

#include <sys/wait.h>
#include <unistd.h>

/* A process that was forked before CUDA.  It takes a handle and reports what it finds there. */
struct importer {
    pid_t child;
    int to, from;
};

struct sight {
    unsigned word;  /* the first; 0: the handle does not open */
    size_t n_bytes; /* that can be reached from there */
};

static void serve(int from, int to) {
    CUipcMemHandle handle;
    while (read(from, &handle, sizeof handle) == sizeof handle) {
        CUdeviceptr address;
        CUdeviceptr base;
        struct sight sight;
        memset(&sight, 0, sizeof sight); /* because the padding between its fields is written,
                                          * too */
        fixture_use_device(0);
        if (cuIpcOpenMemHandle(&address, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) ==
            CUDA_SUCCESS) {
            sight.word = fixture_read(address);
            OK(cuMemGetAddressRange(&base, &sight.n_bytes, address));
            OK(cuIpcCloseMemHandle(address));
        }
        if (write(to, &sight, sizeof sight) != sizeof sight)
            break;
    }
}

static struct importer start_importer(void) {
    int there[2], back[2];
    ck_assert_int_eq(pipe(there), 0);
    ck_assert_int_eq(pipe(back), 0);
    struct importer importer = {fork(), there[1], back[0]};
    ck_assert_int_ge(importer.child, 0);
    if (importer.child == 0) {
        close(there[1]);
        serve(there[0], back[1]);
        exit(0);
    }
    close(there[0]);
    close(back[1]);
    return importer;
}

static struct sight look(const struct importer *importer, const CUipcMemHandle *handle) {
    struct sight sight;
    ck_assert_int_eq(write(importer->to, handle, sizeof *handle), sizeof *handle);
    ck_assert_int_eq(read(importer->from, &sight, sizeof sight), sizeof sight);
    return sight;
}

static unsigned import(const struct importer *importer, const CUipcMemHandle *handle) {
    return look(importer, handle).word;
}

static void stop_importer(const struct importer *importer) {
    int status;
    close(importer->to);
    ck_assert_int_eq(waitpid(importer->child, &status, 0), importer->child);
    ck_assert_int_eq(status, 0);
}

static int is_capable(CUdeviceptr address) {
    int value = 0;
    OK(cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, address));
    return value & 0xff;
}

TEST(a_handle_opens_at_its_own_bytes) {
    static const size_t sizes[] = {1000, 5000, 700000, 3 * MIB, 4 * MIB, 300 * MIB};
    enum { N = sizeof sizes / sizeof *sizes };
    struct importer importer = start_importer();
    fixture_use_device(0);
    for (unsigned i = 0; i < 2 * N; i++) {
        CUipcMemHandle handle;
        CUdeviceptr block = fixture_alloc(sizes[i / 2]);
        OK(cuMemsetD32(block, 100 + i, 1));
        OK(cuCtxSynchronize());
        OK(cuIpcGetMemHandle(&handle, block + 512)); /* the driver accepts any pointer into the
                                                      * block */
        ck_assert_uint_eq(import(&importer, &handle), 100 + i);
        ck_assert_int_eq(is_capable(block), 1);
    }
    stop_importer(&importer);
}

/* In another process: open all, look, and close all; 0, or a number for what went wrong. */
static int open_all(int from, unsigned n) {
    CUipcMemHandle handle;
    CUdeviceptr blocks[2][32];
    for (unsigned i = 0; i < n; i++) {
        if (read(from, &handle, sizeof handle) != sizeof handle)
            return 1;
        fixture_use_device(0);
        for (int k = 0; k < 2; k++) {
            if (cuIpcOpenMemHandle(&blocks[k][i], handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS))
                return 2;
        }
        if (blocks[0][i] != blocks[1][i])
            return 3;
    }
    for (unsigned i = 0; i < n; i++) {
        if (fixture_read(blocks[0][i]) != i)
            return 4;
        OK(cuMemsetD32(blocks[0][i], 1000 + i, 1));
    }
    OK(cuCtxSynchronize());
    for (int k = 0; k < 2; k++) {
        for (unsigned i = 0; i < n; i++) {
            if (cuIpcCloseMemHandle(blocks[k][i]))
                return 5;
        }
    }
    return cuIpcCloseMemHandle(blocks[0][1]) ? 0 : 6;
}

/* Blocks of one segment are open at the same time, each twice, and each is closed as often. */
TEST(neighbours_are_open_at_once) {
    enum { N = 32 };
    int there[2], status;
    ck_assert_int_eq(pipe(there), 0);
    pid_t child = fork();
    if (child == 0)
        _exit(fixture_is_preloaded() ? open_all(there[0], N) : 0);
    fixture_use_device(0);
    CUdeviceptr blocks[N];
    for (unsigned i = 0; i < N; i++) {
        CUipcMemHandle handle;
        blocks[i] = fixture_alloc(1000);
        OK(cuMemsetD32(blocks[i], i, 1));
        OK(cuCtxSynchronize());
        OK(cuIpcGetMemHandle(&handle, blocks[i]));
        ck_assert_int_eq(write(there[1], &handle, sizeof handle), sizeof handle);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    for (unsigned i = 0; i < N && fixture_is_preloaded(); i++)
        ck_assert_uint_eq(fixture_read(blocks[i]), 1000 + i);
}

/* A handle of a large block opens only that block.  Small ones share a page of 2 MiB, as without
 * cushim.
 */
TEST(no_handle_shows_another_large_block, .n = 3) {
    enum { N = 24 };
    static const size_t sizes[] = {MIB + MIB / 2, 3 * MIB, 20 * MIB};
    struct importer importer = start_importer();
    fixture_use_device(0);
    CUdeviceptr blocks[N];
    size_t n_bytes = sizes[_i];
    for (int i = 0; i < N; i++)
        blocks[i] = fixture_alloc(n_bytes);
    for (int i = 0; i < N; i++) {
        CUipcMemHandle handle;
        OK(cuIpcGetMemHandle(&handle, blocks[i]));
        struct sight sight = look(&importer, &handle);
        ck_assert_uint_ge(sight.n_bytes, n_bytes);
        for (int j = 0; j < N; j++)
            ck_assert_msg(j == i || blocks[j] - blocks[i] >= sight.n_bytes,
                          "block %d is %zu KiB behind block %d", j,
                          (size_t)(blocks[j] - blocks[i]) / KIB, i);
        ck_assert_int_eq(is_capable(blocks[i]), 1);
    }
    stop_importer(&importer);
}

/* A process that has it mapped still sees its old contents, and nothing that comes later. */
TEST(what_was_shared_goes_back_to_the_driver_with_its_free) {
    CUipcMemHandle handle;
    fixture_use_device(0);
    CUdeviceptr block = fixture_alloc(20 * MIB);
    OK(cuIpcGetMemHandle(&handle, block));
    unsigned long n_frees = sim_calls("cuMemFree_v2");
    OK(cuMemFree(block));
    ck_assert_uint_eq(sim_calls("cuMemFree_v2"), n_frees + 1);
}

/* Also if it is freed in stream order, after the stream's work. */
TEST(what_was_shared_goes_back_with_a_free_in_stream_order) {
    CUipcMemHandle handle;
    CUstream stream;
    fixture_use_device(0);
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CUdeviceptr block = fixture_alloc(20 * MIB);
    OK(cuIpcGetMemHandle(&handle, block));
    unsigned long n_frees = sim_calls("cuMemFreeAsync");
    OK(cuMemFreeAsync(block, stream));
    ck_assert_uint_eq(sim_calls("cuMemFreeAsync"), n_frees + 1);
    OK(cuStreamSynchronize(stream));
    unsigned long n_allocs = sim_calls("cuMemAlloc_v2");
    CUdeviceptr next = fixture_alloc(20 * MIB); /* no shared memory serves it */
    ck_assert_uint_eq(sim_calls("cuMemAlloc_v2"), n_allocs + 1);
    OK(cuMemFree(next));
    OK(cuStreamDestroy(stream));
}

/* Also for a small block without cushim: its page stays as it is until the process that opened it
 * closes it. */
TEST(what_was_shared_is_never_handed_out_again) {
    enum { N = 16, N_SIZES = 4, ROUNDS = 3 }; /* no more than may be idle */
    static const size_t sizes[N_SIZES] = {512, 5000, 100000, MIB};
    CUdeviceptr shown[N_SIZES], fresh[N_SIZES][N];
    fixture_use_device(0);
    for (unsigned i = 0; i < N_SIZES; i++) {
        CUipcMemHandle handle;
        CUdeviceptr beside = fixture_alloc(sizes[i]); /* a neighbour that comes from a thread's
                                                       * cache, too */
        shown[i] = fixture_alloc(sizes[i]);
        OK(cuMemFree(beside));
        OK(cuMemsetD32(shown[i], 100 + i, 1));
        OK(cuIpcGetMemHandle(&handle, shown[i]));
        OK(cuMemFree(shown[i]));
    }
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < N_SIZES; i++) {
            for (unsigned j = 0; j < N; j++) {
                fresh[i][j] = fixture_alloc(sizes[i]);
                for (unsigned k = 0; k < N_SIZES && fixture_is_preloaded(); k++)
                    ck_assert_msg(fresh[i][j] >= shown[k] + sizes[k] ||
                                      shown[k] >= fresh[i][j] + sizes[i],
                                  "%zu bytes lie where %zu were shown", sizes[i], sizes[k]);
            }
        }
        for (unsigned i = 0; i < N_SIZES; i++) {
            for (unsigned j = 0; j < N; j++)
                OK(cuMemFree(fresh[i][j]));
        }
        OK(cuCtxSynchronize());
    }
}

/* Blocks are shared and freed again and again beside live blocks, and held memory stays limited. */
TEST(what_was_shared_does_not_pile_up) {
    enum { N_LIVE = 8, N = 2000 };
    size_t before_bytes, after_bytes, total_bytes;
    CUdeviceptr live[N_LIVE];
    fixture_use_device(0);
    OK(cuMemGetInfo(&before_bytes, &total_bytes));
    for (unsigned i = 0; i < N; i++) {
        CUipcMemHandle handle;
        CUdeviceptr block = fixture_alloc(100000);
        OK(cuIpcGetMemHandle(&handle, block));
        OK(cuMemFree(block));
        if (i >= N_LIVE)
            OK(cuMemFree(live[i % N_LIVE]));
        live[i % N_LIVE] = fixture_alloc(100000);
    }
    OK(cuMemGetInfo(&after_bytes, &total_bytes));
    /* each live block may hold a segment, and one is being filled */
    ck_assert_uint_le(before_bytes - after_bytes, (N_LIVE + 2) * 2 * MIB);
    for (unsigned i = 0; i < N_LIVE; i++)
        OK(cuMemFree(live[i]));
    OK(cuMemGetInfo(&after_bytes, &total_bytes));
    ck_assert_uint_le(before_bytes - after_bytes, 2 * MIB);
}

/* Without cushim blocks up to 1 MiB share pages of 2 MiB, also if other processes know them. */
TEST(handles_of_small_blocks_take_no_more_memory_than_the_blocks) {
    enum { N = 600 };
    static CUdeviceptr blocks[N];
    size_t before_bytes, after_bytes, total_bytes;
    fixture_use_device(0);
    OK(cuMemGetInfo(&before_bytes, &total_bytes));
    for (unsigned i = 0; i < N; i++) {
        CUipcMemHandle handle;
        blocks[i] = fixture_alloc(4 * KIB);
        OK(cuIpcGetMemHandle(&handle, blocks[i]));
    }
    OK(cuMemGetInfo(&after_bytes, &total_bytes));
    ck_assert_uint_le(sim_live_bytes(), 4 * MIB);
    ck_assert_uint_le(before_bytes - after_bytes, 4 * MIB);
    for (unsigned i = 0; i < N; i++)
        OK(cuMemFree(blocks[i]));
    OK(cuMemGetInfo(&after_bytes, &total_bytes));
    ck_assert_uint_eq(before_bytes, after_bytes);
}

TEST(a_freed_or_foreign_pointer_has_no_handle) {
    CUipcMemHandle handle;
    fixture_use_device(0);
    CUdeviceptr block = fixture_alloc(3 * MIB);
    OK(cuMemFree(block));
    ck_assert_int_ne(cuIpcGetMemHandle(&handle, block), CUDA_SUCCESS);
    ck_assert_int_ne(cuIpcGetMemHandle(&handle, 0x1234000), CUDA_SUCCESS);
    ck_assert_uint_eq(sim_calls("cuIpcGetMemHandle"), 2); /* the driver's own answers */
}

/*
 * Every process shows blocks of each size to all, and reads the blocks of all.  TEST_PROCESSES is
 * their number.
 */
enum { MANY = 64, N_SHOWN = 3, N_ROUNDS = 3 };

struct message {
    int from, round,
        is_done; /* a quick process may say so, or be a round ahead, before slow ones answer */
    CUipcMemHandle handles[N_SHOWN];
};

/* What a process has heard in each round. */
struct heard {
    struct message shown[N_ROUNDS][MANY];
    int n_shown[N_ROUNDS], n_done[N_ROUNDS];
};

static void hear(struct heard *heard, int in) {
    struct message message;
    ck_assert_int_eq(read(in, &message, sizeof message), sizeof message);
    if (message.is_done) {
        heard->n_done[message.round]++;
        return;
    }
    heard->n_shown[message.round]++;
    heard->shown[message.round][message.from] = message;
}

static void say(const struct message *message, int n, const int *outs) {
    for (int k = 0; k < n; k++)
        ck_assert_int_eq(write(outs[k], message, sizeof *message), sizeof *message);
}

static unsigned word_of(int process, int round, int k) {
    return 1u + (unsigned)(process * 100 + round * 10 + k);
}

static void show_all(struct message *own, CUdeviceptr blocks[N_SHOWN]) {
    static const size_t sizes[N_SHOWN] = {1000, 200000, 3 * MIB};
    for (int k = 0; k < N_SHOWN; k++) {
        blocks[k] = fixture_alloc(sizes[k]);
        OK(cuMemsetD32(blocks[k], word_of(own->from, own->round, k), 1));
        OK(cuIpcGetMemHandle(&own->handles[k], blocks[k]));
    }
    OK(cuCtxSynchronize());
}

static void read_all(const struct message *shown) {
    for (int k = 0; k < N_SHOWN; k++) {
        CUdeviceptr address;
        OK(cuIpcOpenMemHandle(&address, shown->handles[k], CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
        ck_assert_uint_eq(fixture_read(address), word_of(shown->from, shown->round, k));
        OK(cuIpcCloseMemHandle(address));
    }
}

static void meet_all(int i, int n, int in, const int *outs) {
    static struct heard heard;
    CUdeviceptr blocks[N_SHOWN];
    fixture_use_device(0);
    for (int round = 0; round < N_ROUNDS; round++) {
        struct message own = {.from = i, .round = round};
        show_all(&own, blocks);
        say(&own, n, outs);
        while (heard.n_shown[round] < n)
            hear(&heard, in);
        for (int k = 0; k < n; k++) {
            if (k != i)
                read_all(&heard.shown[round][k]);
        }
        own.is_done = 1;
        say(&own, n, outs);
        while (heard.n_done[round] < n)
            hear(&heard, in);
        for (int k = 0; k < N_SHOWN; k++)
            OK(cuMemFree(blocks[k]));
    }
}

TEST(each_of_many_processes_reads_what_all_show) {
    const char *asked = getenv("TEST_PROCESSES");
    int n = asked ? atoi(asked) : 8, ends[MANY][2], outs[MANY], status;
    pid_t children[MANY];
    ck_assert(n > 1 && n <= MANY);
    for (int i = 0; i < n; i++) {
        ck_assert_int_eq(pipe(ends[i]), 0);
        outs[i] = ends[i][1];
    }
    for (int i = 0; i < n; i++) {
        children[i] = fork();
        ck_assert_int_ge(children[i], 0);
        if (children[i] == 0) {
            meet_all(i, n, ends[i][0], outs);
            exit(0);
        }
    }
    for (int i = 0; i < n; i++) {
        ck_assert_int_eq(waitpid(children[i], &status, 0), children[i]);
        ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "process %d", i);
    }
}

int main(void) {
    return fixture_run("ipc");
}
