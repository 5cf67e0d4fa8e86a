/*
 * cuBLAS: handles are created and destroyed; matrix products run with its own workspace, with the
 * program's, and in batches. Small results are compared with the CPU, large ones with each other.
 */
#include "program.h"

#include <cublas_v2.h>
#include <vector>

static void must(cublasStatus_t status, const char *what, int line) {
    if (status != CUBLAS_STATUS_SUCCESS)
        program_fail(cublasGetStatusName(status), what, __FILE__, line);
}

#define TRY_BLAS(call) must((call), #call, __LINE__)

/* Small whole numbers, so that sums are exact in any order. */
static std::vector<float> matrix(size_t n, unsigned long long state) {
    std::vector<float> values(n);
    for (auto &value : values)
        value = (float)(int)(program_random(&state) % 9) - 4;
    return values;
}

static float *upload(const std::vector<float> &values) {
    float *device;
    TRY(cudaMalloc((void **)&device, values.size() * sizeof(float)));
    TRY(cudaMemcpy(device, values.data(), values.size() * sizeof(float), cudaMemcpyHostToDevice));
    return device;
}

static std::vector<float> multiply(cublasHandle_t blas, const std::vector<float> &a,
                                   const std::vector<float> &b, int n) {
    std::vector<float> c((size_t)n * n);
    float one = 1, zero = 0, *da = upload(a), *db = upload(b), *dc;
    TRY(cudaMalloc((void **)&dc, c.size() * sizeof(float)));
    TRY_BLAS(
        cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, da, n, db, n, &zero, dc, n));
    TRY(cudaMemcpy(c.data(), dc, c.size() * sizeof(float), cudaMemcpyDeviceToHost));
    TRY(cudaFree(da));
    TRY(cudaFree(db));
    TRY(cudaFree(dc));
    return c;
}

static void check(const std::vector<float> &a, const std::vector<float> &b,
                  const std::vector<float> &c, int n, int step) {
    for (int col = 0; col < n; col += step) {
        for (int row = 0; row < n; row += step) {
            double sum = 0;
            for (int k = 0; k < n; k++)
                sum += (double)a[(size_t)k * n + row] * b[(size_t)col * n + k];
            MUST(sum == c[(size_t)col * n + row]);
        }
    }
}

static void products(int n, bool is_own_workspace) {
    cublasHandle_t blas;
    void *workspace = NULL;
    size_t workspace_bytes = (size_t)32 << 20;
    TRY_BLAS(cublasCreate(&blas));
    if (is_own_workspace) {
        TRY(cudaMalloc(&workspace, workspace_bytes));
        TRY_BLAS(cublasSetWorkspace(blas, workspace, workspace_bytes));
    }
    std::vector<float> a = matrix((size_t)n * n, 1), b = matrix((size_t)n * n, 2);
    std::vector<float> c = multiply(blas, a, b, n);
    check(a, b, c, n, n > 300 ? 97 : 1);
    for (int i = 0; i < 10; i++)
        MUST(multiply(blas, a, b, n) == c);
    TRY_BLAS(cublasDestroy(blas));
    TRY(cudaFree(workspace));
    printf("cublas: sgemm %d%s, checksum %016llx\n", n, is_own_workspace ? " with a workspace" : "",
           program_checksum(CHECKSUM, c.data(), c.size() * sizeof(float)));
}

static void batched(int n, int n_batches) {
    cublasHandle_t blas;
    TRY_BLAS(cublasCreate(&blas));
    size_t n_one = (size_t)n * n;
    std::vector<float> a = matrix(n_one * n_batches, 3), b = matrix(n_one * n_batches, 4),
                       c(a.size());
    float one = 1, zero = 0, *da = upload(a), *db = upload(b), *dc = upload(c);
    TRY_BLAS(cublasSgemmStridedBatched(blas, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, da, n,
                                       (long long)n_one, db, n, (long long)n_one, &zero, dc, n,
                                       (long long)n_one, n_batches));
    TRY(cudaMemcpy(c.data(), dc, c.size() * sizeof(float), cudaMemcpyDeviceToHost));
    for (int i = 0; i < n_batches; i++) {
        auto part = [&](const std::vector<float> &all) {
            return std::vector<float>(all.begin() + i * n_one, all.begin() + (i + 1) * n_one);
        };
        check(part(a), part(b), part(c), n, 1);
    }
    TRY(cudaFree(da));
    TRY(cudaFree(db));
    TRY(cudaFree(dc));
    TRY_BLAS(cublasDestroy(blas));
    printf("cublas: %d products of %d, checksum %016llx\n", n_batches, n,
           program_checksum(CHECKSUM, c.data(), c.size() * sizeof(float)));
}

int main() {
    for (int i = 0; i < 3; i++)
        products(128, false);
    products(1024, false);
    products(1024, true);
    products(2048, false);
    batched(48, 60);
    return 0;
}
