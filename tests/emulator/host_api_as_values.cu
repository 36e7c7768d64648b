// Functions of the API as deleters and pointers, launches by configuration, memory pools.
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            printf("line %d: %s\n", __LINE__, #condition); \
            return 1; \
        } \
    } while (0)
#define OK(call) CHECK((call) == cudaSuccess)

__global__ void add(float* p, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) p[i] += 1;
}

struct Owner {
    std::unique_ptr<float, decltype(&cudaFree)> memory{nullptr, cudaFree};
};

int main() {
    float *p, *q;
    void* r;
    OK(cudaMalloc(&p, 64));
    OK(cudaMalloc(&q, 64));
    OK(cudaMalloc(&r, 64));
    Owner owner;
    owner.memory.reset(p);
    std::shared_ptr<float> shared(q, cudaFree);
    std::unique_ptr<void, std::function<void(void*)>> erased(r, ::cudaFree);
    cudaError_t (*fill)(void*, int, size_t) = cudaMemset;
    auto* copy = &cudaMemcpy;
    OK(fill(p, 0, 64));

    int n = 4;
    void* arguments[] = {&p, &n};
    OK(cudaLaunchKernel((const void*)add, dim3(1), dim3(32), arguments, 0, nullptr));
    OK(cudaLaunchKernel(reinterpret_cast<const void*>(&add), 1, 32, arguments, 0, nullptr));
    cudaStream_t stream;
    OK(cudaStreamCreate(&stream));
    cudaLaunchConfig_t configuration = {};
    configuration.gridDim = 1;
    configuration.blockDim = dim3(32);
    configuration.stream = stream;
    cudaLaunchAttribute priority;
    priority.id = cudaLaunchAttributePriority;
    priority.val.priority = 0;
    configuration.attrs = &priority;
    configuration.numAttrs = 1;
    OK(cudaLaunchKernelEx(&configuration, add, p, n));
    OK(cudaLaunchKernelExC(&configuration, (const void*)add, arguments));

    // no clusters on this device: a launch in clusters is refused, and asking says so beforehand
    cudaLaunchAttribute cluster;
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim = {2, 1, 1};
    configuration.attrs = &cluster;
    int clusters = 7;
    CHECK(cudaOccupancyMaxActiveClusters(&clusters, add, &configuration) == cudaErrorNotSupported);
    CHECK(clusters == 0);
    CHECK(cudaLaunchKernelEx(&configuration, add, p, n) == cudaErrorNotSupported);

    float host[16];
    OK(copy(host, p, 64, cudaMemcpyDeviceToHost));
    CHECK(host[0] == 4 && host[3] == 4 && host[4] == 0);

    cudaMemPool_t pool;
    OK(cudaDeviceGetDefaultMemPool(&pool, 0));
    uint64_t threshold = UINT64_MAX, found = 0;
    OK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
    OK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &found));
    CHECK(found == threshold);
    float* pooled;
    OK(cudaMallocFromPoolAsync(&pooled, 64, pool, stream));
    OK(cudaMemsetAsync(pooled, 0, 64, stream));
    OK(cudaFreeAsync(pooled, stream));
    OK(cudaMemPoolTrimTo(pool, 0));
    OK(cudaStreamDestroy(stream));
    puts("ok");
}
