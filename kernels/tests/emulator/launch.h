/*
 * A kernel as the kernel NAME of the software device: EMULATE(name, function, n_threads) in a file
 * that has seen the function; n_threads is its launch bound. static_begin and static_end are
 * visible there too (generate.py).
 */
#ifndef CUSHIM_EMULATOR_LAUNCH_H
#define CUSHIM_EMULATOR_LAUNCH_H

#include <stddef.h>
#include <type_traits>
#include <utility>

struct sim_launch;

namespace emulated {

enum : unsigned { MOST_THREADS = 1024 };

struct Kernel {
    const char *name;
    unsigned n_threads;              /* the most that a block may have */
    char *static_begin, *static_end; /* its family's static shared memory */
};

/* Run `call` with `data` in every thread of the grid. */
void launch(const Kernel *kernel, const sim_launch *shape, void (*call)(void *data), void *data);

template <class Kernel> struct Entry;

template <class... P> struct Entry<void(P...)> {
    struct Sizes {
        size_t of[sizeof...(P) + 1];
    };
    static constexpr Sizes sizes() {
        return {{sizeof(P)..., 0}};
    }
    struct Call {
        void (*kernel)(P...);
        void **args;
    };
    template <size_t... I> static void apply(const Call *call, std::index_sequence<I...>) {
        call->kernel(*(std::remove_cv_t<P> *)call->args[I]...);
    }
    static void run_thread(void *data) {
        apply((const Call *)data, std::index_sequence_for<P...>());
    }
    static void run(const Kernel *kernel, void (*function)(P...), const sim_launch *shape,
                    void **args) {
        Call call = {function, args};
        launch(kernel, shape, run_thread, &call);
    }
};

} // namespace emulated

#define EMULATED_EXPORT extern "C" __attribute__((visibility("default")))

#define EMULATE(name, function, n_threads)                                                         \
    EMULATED_EXPORT const emulated::Entry<decltype(function)>::Sizes sim_params_##name;            \
    const emulated::Entry<decltype(function)>::Sizes sim_params_##name =                           \
        emulated::Entry<decltype(function)>::sizes();                                              \
    EMULATED_EXPORT void sim_kernel_##name(const sim_launch *shape, void **args);                  \
    void sim_kernel_##name(const sim_launch *shape, void **args) {                                 \
        using namespace emulated;                                                                  \
        static const Kernel kernel = {#name, n_threads, static_begin, static_end};                 \
        Entry<decltype(function)>::run(&kernel, function, shape, args);                            \
    }

#endif
