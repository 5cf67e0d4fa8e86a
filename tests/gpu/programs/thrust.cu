/*
 * Thrust as programs use it: copy, sort, scan and reduce; each call allocates temporary memory.
 *
 *   thrust [--time]
 */
#include "program.h"

#include <algorithm>
#include <vector>

#include <thrust/copy.h>
#include <thrust/device_vector.h>
#include <thrust/functional.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sort.h>

struct answer {
    unsigned first, middle, last; /* after the sort */
    unsigned scanned;
    unsigned long long sum;
};

static answer pass(const thrust::device_vector<unsigned> &input) {
    size_t n = input.size();
    thrust::device_vector<unsigned> sorted(n);
    thrust::copy(input.begin(), input.end(), sorted.begin());
    thrust::sort(sorted.begin(), sorted.end());
    thrust::device_vector<unsigned> sums(n); /* modulo 2^32 */
    thrust::inclusive_scan(sorted.begin(), sorted.end(), sums.begin());
    answer out;
    out.first = sorted[0];
    out.middle = sorted[n / 2];
    out.last = sorted[n - 1];
    out.scanned = sums[n - 1];
    out.sum =
        thrust::reduce(sorted.begin(), sorted.end(), 0ull, thrust::plus<unsigned long long>());
    return out;
}

static answer pass_on_host(std::vector<unsigned> input) {
    std::sort(input.begin(), input.end());
    unsigned long long sum = 0;
    for (unsigned value : input)
        sum += value;
    return {input[0], input[input.size() / 2], input[input.size() - 1], (unsigned)sum, sum};
}

static bool is_same(const answer &a, const answer &b) {
    return a.first == b.first && a.middle == b.middle && a.last == b.last &&
           a.scanned == b.scanned && a.sum == b.sum;
}

static void print_time(const char *label, const thrust::device_vector<unsigned> &input) {
    std::vector<double> times;
    double end = program_seconds() + 0.4;
    while (times.size() < 5 || (program_seconds() < end && times.size() < 2000)) {
        double start = program_seconds();
        pass(input);
        times.push_back(program_seconds() - start);
    }
    std::sort(times.begin(), times.end());
    printf("{\"case\": \"thrust/%s\", \"n\": %zu, \"p0_ns\": %.0f, \"p50_ns\": %.0f, \"p99_ns\": "
           "%.0f, \"max_ns\": %.0f}\n",
           label, times.size(), 1e9 * times[0], 1e9 * times[times.size() / 2],
           1e9 * times[(times.size() - 1) * 99 / 100], 1e9 * times.back());
}

int main(int argc, char **argv) {
    static const struct {
        const char *label;
        size_t n;
    } sizes[] = {{"1k", 1000}, {"100k", 100000}, {"1M", 1000000}, {"10M", 10000000}};
    for (const auto &size : sizes) {
        unsigned long long state = size.n;
        std::vector<unsigned> host(size.n);
        for (auto &value : host)
            value = (unsigned)program_random(&state);
        thrust::device_vector<unsigned> input = host;
        answer want = pass_on_host(host);
        for (int i = 0; i < 5; i++)
            MUST(is_same(pass(input), want));
        if (program_flag(argc, argv, "--time"))
            print_time(size.label, input);
        else
            printf("thrust: %zu, first %u, middle %u, last %u, sum %llu\n", size.n, want.first,
                   want.middle, want.last, want.sum);
    }
    return 0;
}
