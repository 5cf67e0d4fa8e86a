/* Softmax of float and binary16 over an axis: kernels of every shape, in two widths of access. */
#include "kernels/device/device.cuh"

#include "kernels/softmax_columns.cuh"
#include "kernels/softmax_rows.cuh"

/* After its name: type, threads and elements a thread; `one` where accesses are of one element. */
#define BOTH_WIDTHS(word, Element, W, name, what, ...)                                             \
    KERNEL(softmax_##word##_one_##name)                                                            \
    (const struct softmax_args args) {                                                             \
        what<Access<Element, 1>, __VA_ARGS__>(args);                                               \
    }                                                                                              \
    KERNEL(softmax_##word##_##name)                                                                \
    (const struct softmax_args args) {                                                             \
        what<Access<Element, W>, __VA_ARGS__>(args);                                               \
    }

#define ROW_SHAPE(T, E, is_few)                                                                    \
    BOTH_WIDTHS(f32, float, 4, row_##T##_##E, softmax_row, T, E, false)                            \
    BOTH_WIDTHS(f16, uint16_t, 8, row_##T##_##E, softmax_row, T, E, false)
#define LONG_SHAPE ROW_SHAPE
#define CLUSTER_SHAPE(T, E, is_few)                                                                \
    BOTH_WIDTHS(f32, float, 4, cluster_##T##_##E, softmax_row, T, E, true)                         \
    BOTH_WIDTHS(f16, uint16_t, 8, cluster_##T##_##E, softmax_row, T, E, true)
#include "kernels/row_shapes.def"

BOTH_WIDTHS(f32, float, 4, stream, softmax_stream, false)
BOTH_WIDTHS(f16, uint16_t, 8, stream, softmax_stream, false)
BOTH_WIDTHS(f32, float, 4, stream_cluster, softmax_stream, true)
BOTH_WIDTHS(f16, uint16_t, 8, stream_cluster, softmax_stream, true)

#define TILE(word, Element, W, E)                                                                  \
    KERNEL(softmax_##word##_tile_##E)                                                              \
    (const struct softmax_args args) {                                                             \
        softmax_tile<Access<Element, W>, E>(args);                                                 \
    }
TILE(f32, float, 4, 8)
TILE(f32, float, 4, 32)
TILE(f32, float, 4, 128)
TILE(f16, uint16_t, 8, 8)
TILE(f16, uint16_t, 8, 32)
TILE(f16, uint16_t, 8, 128)

#define COLUMNS(word, Element)                                                                     \
    KERNEL(softmax_##word##_columns)                                                               \
    (const struct softmax_args args) {                                                             \
        softmax_columns<Access<Element, 1>>(args);                                                 \
    }
COLUMNS(f32, float)
COLUMNS(f16, uint16_t)
