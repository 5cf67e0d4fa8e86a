/*
 * Softmax of float, binary16 and bfloat16 over an axis, and its product.  There are kernels of
 * every shape with wide accesses; with accesses of one element there is one shape, and one for rows
 * of any length.  That is all that bfloat16 has.
 */
#include "kernels/device/device.cuh"

#include "kernels/softmax/softmax_columns.cuh"
#include "kernels/softmax/softmax_mul.cuh"
#include "kernels/softmax/softmax_rows.cuh"

/* After its name: type, threads and elements per thread; `one` if accesses are of one element. */
#define ROWS(n_threads, n_blocks, word, name, what, ...)                                           \
    KERNEL_OF(n_threads, n_blocks, softmax_##word##_##name)                                        \
    (const struct softmax_args args) {                                                             \
        what<__VA_ARGS__>(args);                                                                   \
    }
#define BOTH_TYPES(n_threads, n_blocks, name, what, ...)                                           \
    ROWS(n_threads, n_blocks, f32, name, what, Access<float, 4>, __VA_ARGS__)                      \
    ROWS(n_threads, n_blocks, f16, name, what, Access<uint16_t, 8>, __VA_ARGS__)
#define BOTH_ONE(n_threads, n_blocks, name, what, ...)                                             \
    ROWS(n_threads, n_blocks, f32_one, name, what, Access<float, 1>, __VA_ARGS__)                  \
    ROWS(n_threads, n_blocks, f16_one, name, what, Access<uint16_t, 1>, __VA_ARGS__)

/*
 * Blocks for which a multiprocessor has registers: 1536 threads, or fewer if each has more of a row
 * or the multiprocessor has fewer.
 */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define THREADS_OF_SM 1536
#else
#define THREADS_OF_SM 1024
#endif
#define BLOCK_OF(T)     ((T) <= 32 ? CUSHIM_ROW_BLOCK_THREADS : (T))
#define BLOCKS_OF(T, E) (((E) <= 16 ? THREADS_OF_SM : (E) <= 32 ? 1024 : 640) / BLOCK_OF(T))
#define ROW_SHAPE(T, E, when)                                                                      \
    BOTH_TYPES(BLOCK_OF(T), BLOCKS_OF(T, E), row_##T##_##E, softmax_row, T, E, false)
#define LONG_SHAPE ROW_SHAPE
#define CLUSTER_SHAPE(T, E, when)                                                                  \
    BOTH_TYPES(T, BLOCKS_OF(T, E), cluster_##T##_##E, softmax_cluster, T, E)
#define ONE_SHAPE(T, E, when)                                                                      \
    BOTH_ONE(BLOCK_OF(T), BLOCKS_OF(T, E), row_##T##_##E, softmax_row, T, E, false)
#include "kernels/shared/row_shapes.def"

BOTH_TYPES(SOFTMAX_STREAM_THREADS, 1, stream, softmax_stream_in, false)
BOTH_ONE(SOFTMAX_STREAM_THREADS, 1, stream, softmax_stream_in, false)
BOTH_TYPES(SOFTMAX_STREAM_THREADS, 1, stream_cluster, softmax_stream_in, true)
BOTH_ONE(SOFTMAX_STREAM_THREADS, 1, stream_cluster, softmax_stream_in, true)
#define BF16(name, ...)                                                                            \
    ROWS(SOFTMAX_STREAM_THREADS, 1, bf16, name, softmax_stream_in, Access<bf16, 8>, __VA_ARGS__)   \
    ROWS(SOFTMAX_STREAM_THREADS, 1, bf16_one, name, softmax_stream_in, Access<bf16, 1>, __VA_ARGS__)
BF16(stream, false)
BF16(stream_cluster, true)

#define TILE(word, Element, W, N)                                                                  \
    KERNEL_OF(SOFTMAX_TILE_THREADS, 2, softmax_##word##_tile_##N)                                  \
    (const struct softmax_args args) {                                                             \
        softmax_tile<Access<Element, W>, N>(args);                                                 \
    }
TILE(f32, float, 4, 1)
TILE(f32, float, 4, 4)
TILE(f32, float, 4, 16)
TILE(f16, uint16_t, 8, 1)
TILE(f16, uint16_t, 8, 4)
TILE(f16, uint16_t, 8, 16)

#define COLUMNS(word, Element)                                                                     \
    KERNEL(softmax_##word##_columns)                                                               \
    (const struct softmax_args args) {                                                             \
        softmax_columns<Access<Element, 1>>(args);                                                 \
    }
COLUMNS(f32, float)
COLUMNS(f16, uint16_t)
COLUMNS(bf16, bf16)
