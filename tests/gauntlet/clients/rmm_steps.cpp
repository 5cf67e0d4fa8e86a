/*
 * RMM's memory resources; prints a line per step: `ok NAME`, or `NAME: outcome`.
 *
 * RMM's headers are compiled with g++ against the CUDA toolkit's, and linked to the runtime of the
 * software device.
 */
#include <rmm/cuda_stream.hpp>
#include <rmm/cuda_stream_pool.hpp>
#include <rmm/device_buffer.hpp>
#include <rmm/mr/device/arena_memory_resource.hpp>
#include <rmm/mr/device/binning_memory_resource.hpp>
#include <rmm/mr/device/cuda_async_memory_resource.hpp>
#include <rmm/mr/device/cuda_memory_resource.hpp>
#include <rmm/mr/device/fixed_size_memory_resource.hpp>
#include <rmm/mr/device/limiting_resource_adaptor.hpp>
#include <rmm/mr/device/managed_memory_resource.hpp>
#include <rmm/mr/device/per_device_resource.hpp>
#include <rmm/mr/device/pool_memory_resource.hpp>
#include <rmm/mr/device/statistics_resource_adaptor.hpp>
#include <rmm/mr/device/thread_safe_resource_adaptor.hpp>
#include <rmm/mr/pinned_host_memory_resource.hpp>

#include <cstdio>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

namespace {

constexpr std::size_t MIB = 1 << 20;

void must(bool is_true, char const *what) {
    if (!is_true)
        throw std::logic_error(what);
}

/* Blocks of many sizes; each has its own bytes, which are read again before its free. */
void churn(rmm::mr::device_memory_resource &resource, rmm::cuda_stream_view stream, unsigned seed,
           std::size_t most_bytes) {
    struct Held {
        rmm::device_buffer buffer;
        unsigned char value;
    };
    std::minstd_rand random(seed);
    std::vector<Held> held;
    auto check = [&](Held const &of) {
        std::vector<unsigned char> host(of.buffer.size());
        RMM_CUDA_TRY(cudaMemcpyAsync(host.data(), of.buffer.data(), host.size(), cudaMemcpyDefault,
                                     stream.value()));
        stream.synchronize();
        must(host.front() == of.value && host.back() == of.value, "a block lost its bytes");
    };
    for (unsigned i = 0; i < 400; i++) {
        std::size_t n_bytes = 1 + random() % most_bytes;
        held.push_back(
            {rmm::device_buffer(n_bytes, stream, &resource), static_cast<unsigned char>(i)});
        RMM_CUDA_TRY(
            cudaMemsetAsync(held.back().buffer.data(), held.back().value, n_bytes, stream.value()));
        if (held.size() > 16) {
            std::size_t at = random() % held.size();
            check(held[at]);
            held.erase(held.begin() + static_cast<std::ptrdiff_t>(at));
        }
    }
    for (auto const &of : held)
        check(of);
}

void cuda_resource() {
    rmm::mr::cuda_memory_resource cuda;
    churn(cuda, rmm::cuda_stream_default, 1, 3 * MIB);
}

void managed_resource() {
    rmm::mr::managed_memory_resource managed;
    churn(managed, rmm::cuda_stream_default, 2, MIB);
}

void async_resource() {
    rmm::mr::cuda_async_memory_resource async(4 * MIB);
    rmm::cuda_stream stream;
    churn(async, stream, 3, MIB);
}

void pool_resource() {
    rmm::mr::cuda_memory_resource cuda;
    rmm::mr::pool_memory_resource<rmm::mr::cuda_memory_resource> pool(&cuda, 16 * MIB, 512 * MIB);
    churn(pool, rmm::cuda_stream_default, 4, 3 * MIB);
    must(pool.pool_size() >= 16 * MIB, "the pool is smaller than it began");
}

void pool_by_streams() {
    rmm::mr::cuda_memory_resource cuda;
    rmm::mr::pool_memory_resource<rmm::mr::cuda_memory_resource> pool(&cuda, 16 * MIB);
    rmm::cuda_stream_pool streams(4);
    for (unsigned i = 0; i < 8; i++)
        churn(pool, streams.get_stream(), 10 + i, 200000);
}

void pool_by_threads() {
    rmm::mr::cuda_memory_resource cuda;
    rmm::mr::pool_memory_resource<rmm::mr::cuda_memory_resource> pool(&cuda, 16 * MIB);
    std::vector<std::thread> threads;
    std::vector<std::exception_ptr> faults(4);
    for (unsigned i = 0; i < 4; i++)
        threads.emplace_back([&pool, &faults, i] {
            try {
                rmm::cuda_stream stream;
                churn(pool, stream, 20 + i, 200000);
            } catch (...) {
                faults[i] = std::current_exception();
            }
        });
    for (auto &thread : threads)
        thread.join();
    for (auto const &fault : faults) {
        if (fault)
            std::rethrow_exception(fault);
    }
}

void arena_resource() {
    rmm::mr::cuda_memory_resource cuda;
    rmm::mr::arena_memory_resource<rmm::mr::cuda_memory_resource> arena(&cuda, 256 * MIB);
    churn(arena, rmm::cuda_stream_default, 5, MIB);
}

void binning_resource() {
    rmm::mr::cuda_memory_resource cuda;
    rmm::mr::binning_memory_resource<rmm::mr::cuda_memory_resource> bins(&cuda, 10, 20);
    churn(bins, rmm::cuda_stream_default, 6, 2 * MIB);
}

void fixed_size_resource() {
    rmm::mr::cuda_memory_resource cuda;
    rmm::mr::fixed_size_memory_resource<rmm::mr::cuda_memory_resource> fixed(&cuda, MIB, 32);
    churn(fixed, rmm::cuda_stream_default, 7, MIB);
}

void pinned_resource() {
    rmm::mr::pinned_host_memory_resource pinned;
    for (std::size_t n_bytes : {std::size_t{1}, std::size_t{100000}, 3 * MIB}) {
        auto *block = static_cast<unsigned char *>(pinned.allocate(n_bytes));
        block[n_bytes - 1] = 7;
        rmm::device_buffer copy(block, n_bytes, rmm::cuda_stream_default);
        rmm::cuda_stream_default.synchronize(); /* which reads the block meanwhile */
        block[n_bytes - 1] = 0;
        RMM_CUDA_TRY(cudaMemcpy(block, copy.data(), n_bytes, cudaMemcpyDefault));
        must(block[n_bytes - 1] == 7, "pinned memory lost its bytes");
        pinned.deallocate(block, n_bytes);
    }
}

void limit_refuses() {
    rmm::mr::cuda_memory_resource cuda;
    rmm::mr::limiting_resource_adaptor<rmm::mr::cuda_memory_resource> limited(&cuda, MIB);
    rmm::device_buffer most(MIB, rmm::cuda_stream_default, &limited);
    try {
        rmm::device_buffer beyond(1, rmm::cuda_stream_default, &limited);
    } catch (rmm::out_of_memory const &) {
        return;
    }
    must(false, "the limit was passed");
}

void out_of_memory() {
    rmm::mr::cuda_memory_resource cuda;
    auto [n_free, n_all] = rmm::available_device_memory();
    must(n_free <= n_all, "more is free than there is");
    try {
        rmm::device_buffer beyond(n_all + MIB, rmm::cuda_stream_default, &cuda);
    } catch (rmm::out_of_memory const &) {
        rmm::device_buffer after(MIB, rmm::cuda_stream_default, &cuda);
        return;
    }
    must(false, "more was served than there is");
}

void statistics() {
    rmm::mr::cuda_memory_resource cuda;
    rmm::mr::statistics_resource_adaptor<rmm::mr::cuda_memory_resource> counted(&cuda);
    churn(counted, rmm::cuda_stream_default, 8, MIB);
    must(counted.get_bytes_counter().value == 0, "a block was left");
    must(counted.get_allocations_counter().total == 400, "a block was not counted");
}

void buffers_grow() {
    rmm::mr::cuda_memory_resource cuda;
    rmm::mr::pool_memory_resource<rmm::mr::cuda_memory_resource> pool(&cuda, 16 * MIB);
    std::vector<int> host(1000, 41), back(1000);
    rmm::device_buffer buffer(host.data(), 4000, rmm::cuda_stream_default, &pool);
    buffer.resize(10 * MIB, rmm::cuda_stream_default);
    buffer.resize(4000, rmm::cuda_stream_default);
    buffer.shrink_to_fit(rmm::cuda_stream_default);
    RMM_CUDA_TRY(cudaMemcpy(back.data(), buffer.data(), 4000, cudaMemcpyDefault));
    must(back == host, "a buffer lost its words");
}

struct Step {
    char const *name;
    void (*run)();
};

Step const steps[] = {{"cuda_resource", cuda_resource},
                      {"managed_resource", managed_resource},
                      {"async_resource", async_resource},
                      {"pool_resource", pool_resource},
                      {"pool_by_streams", pool_by_streams},
                      {"pool_by_threads", pool_by_threads},
                      {"arena_resource", arena_resource},
                      {"binning_resource", binning_resource},
                      {"fixed_size_resource", fixed_size_resource},
                      {"pinned_resource", pinned_resource},
                      {"limit_refuses", limit_refuses},
                      {"out_of_memory", out_of_memory},
                      {"statistics", statistics},
                      {"buffers_grow", buffers_grow}};

} // namespace

int main() {
    for (auto const &step : steps) {
        try {
            step.run();
            std::printf("ok %s\n", step.name);
        } catch (std::exception const &error) {
            std::printf("%s: %s\n", step.name, typeid(error).name());
            std::fprintf(stderr, "%s: %s\n", step.name, error.what());
        }
        std::fflush(stdout);
    }
    return 0;
}
