/* Softmax of float and binary16 over an axis: kernels of every shape, in two widths of access. */
#include "kernels/device/device.cuh"

#include "kernels/softmax_columns.cuh"
#include "kernels/softmax_rows.cuh"

/* After its name: type, threads and elements a thread; `one` where accesses are of one element. */
#define BOTH_WIDTHS(n_threads, n_blocks, word, Element, W, name, what, ...)                        \
    KERNEL_OF(n_threads, n_blocks, softmax_##word##_one_##name)                                    \
    (const struct softmax_args args) {                                                             \
        what<Access<Element, 1>, __VA_ARGS__>(args);                                               \
    }                                                                                              \
    KERNEL_OF(n_threads, n_blocks, softmax_##word##_##name)                                        \
    (const struct softmax_args args) {                                                             \
        what<Access<Element, W>, __VA_ARGS__>(args);                                               \
    }
#define BOTH_TYPES(n_threads, n_blocks, name, what, ...)                                           \
    BOTH_WIDTHS(n_threads, n_blocks, f32, float, 4, name, what, __VA_ARGS__)                       \
    BOTH_WIDTHS(n_threads, n_blocks, f16, uint16_t, 8, name, what, __VA_ARGS__)

/* Blocks that a multiprocessor has registers for: 1536 threads, or fewer with more of a row each,
 * or where it has fewer. */
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
    BOTH_TYPES(T, BLOCKS_OF(T, E), cluster_##T##_##E, softmax_row, T, E, true)
#include "kernels/row_shapes.def"

BOTH_TYPES(SOFTMAX_STREAM_THREADS, 1, stream, softmax_stream, false)
BOTH_TYPES(SOFTMAX_STREAM_THREADS, 1, stream_cluster, softmax_stream, true)

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
