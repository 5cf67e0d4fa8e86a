/*
 * RMS norm in five kinds: kernels of every shape, in two widths of access; long rows in registers
 * in the wide one alone, since rows of models are multiples of 8.
 */
#include "kernels/device/device.cuh"

#include "kernels/norm_rows.cuh"

#define WIDE(word, Op, name, what, ...)                                                            \
    KERNEL(norm_##word##_##name)                                                                   \
    (const struct norm_args args) {                                                                \
        what<Op, __VA_ARGS__>(args);                                                               \
    }

/* `one`, after the kind: accesses are of one element. */
#define BOTH(word, Op, W, name, what, ...)                                                         \
    WIDE(word##_one, Op<1>, name, what, __VA_ARGS__)                                               \
    WIDE(word, Op<W>, name, what, __VA_ARGS__)

#define EACH_KIND(name, what, ...)                                                                 \
    BOTH(rms_f32, RmsF32, 4, name, what, __VA_ARGS__)                                              \
    BOTH(add_rms_f32, AddRmsF32, 4, name, what, __VA_ARGS__)                                       \
    BOTH(rms_add_f32, RmsAddF32, 4, name, what, __VA_ARGS__)                                       \
    BOTH(rms_f16, RmsF16, 8, name, what, __VA_ARGS__)                                              \
    BOTH(rms_e4m3, RmsE4m3, 8, name, what, __VA_ARGS__)

#define EACH_WIDE_KIND(name, what, ...)                                                            \
    WIDE(rms_f32, RmsF32<4>, name, what, __VA_ARGS__)                                              \
    WIDE(add_rms_f32, AddRmsF32<4>, name, what, __VA_ARGS__)                                       \
    WIDE(rms_add_f32, RmsAddF32<4>, name, what, __VA_ARGS__)                                       \
    WIDE(rms_f16, RmsF16<8>, name, what, __VA_ARGS__)                                              \
    WIDE(rms_e4m3, RmsE4m3<8>, name, what, __VA_ARGS__)

#define ROW_SHAPE(T, E, is_few)     EACH_KIND(row_##T##_##E, norm_row, T, E, false)
#define LONG_SHAPE(T, E, is_few)    EACH_WIDE_KIND(row_##T##_##E, norm_row, T, E, false)
#define CLUSTER_SHAPE(T, E, is_few) EACH_WIDE_KIND(cluster_##T##_##E, norm_row, T, E, true)
#include "kernels/row_shapes.def"

EACH_KIND(stream, norm_stream, NORM_STREAM_THREADS)
