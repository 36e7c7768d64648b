// The host side: memory of every kind, streams, events, errors, properties, occupancy.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>
#include <device_launch_parameters.h>

#define CHECK(call)                                                                     \
    do {                                                                                \
        cudaError_t status = (call);                                                    \
        if (status != cudaSuccess) {                                                    \
            fprintf(stderr, "%s:%d: %s (%s)\n", __FILE__, __LINE__,                     \
                    cudaGetErrorString(status), cudaGetErrorName(status));              \
            exit(1);                                                                    \
        }                                                                               \
    } while (0)
#define EXPECT(condition)                                                               \
    if (!(condition)) {                                                                 \
        printf("line %d: %s\n", __LINE__, #condition);                                  \
        return 1;                                                                       \
    }

__global__ void fill(float* data, float value, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) data[i] = value;
}
__global__ void fill_pitched(char* base, size_t pitch, int width, int height) {
    for (int y = 0; y < height; y++)
        for (int x = threadIdx.x; x < width; x += blockDim.x) ((float*)(base + y * pitch))[x] = y * 100 + x;
}

int main() {
    // devices
    int count = 0, device = -1, value = 0;
    cudaDeviceProp prop;
    CHECK(cudaGetDeviceCount(&count));
    CHECK(cudaSetDevice(0));
    CHECK(cudaGetDevice(&device));
    CHECK(cudaGetDeviceProperties(&prop, 0));
    CHECK(cudaDeviceGetAttribute(&value, cudaDevAttrMaxThreadsPerBlock, 0));
    EXPECT(count >= 1 && device == 0 && prop.warpSize == 32 && value == prop.maxThreadsPerBlock);
    EXPECT(prop.major >= 8 && prop.multiProcessorCount > 0 && prop.sharedMemPerBlock == 49152);
    size_t free_before = 0, free_after = 0, total = 0;
    CHECK(cudaMemGetInfo(&free_before, &total));

    // memory
    const int n = 1000;
    float *a, *b, *pinned, *managed;
    float host[n];
    CHECK(cudaMalloc(&a, n * sizeof(float)));
    CHECK(cudaMalloc((void**)&b, n * sizeof(float)));
    CHECK(cudaMemGetInfo(&free_after, &total));
    EXPECT(free_after < free_before && free_before <= total);
    EXPECT((size_t)a % 256 == 0 && (size_t)b % 256 == 0);
    CHECK(cudaMallocHost(&pinned, n * sizeof(float)));
    CHECK(cudaMallocManaged(&managed, n * sizeof(float)));
    fill<<<(n + 127) / 128, 128>>>(a, 2.5f, n);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(b, a, n * sizeof(float), cudaMemcpyDeviceToDevice));
    CHECK(cudaMemcpy(host, b, n * sizeof(float), cudaMemcpyDefault));
    EXPECT(host[n - 1] == 2.5f);
    CHECK(cudaMemset(a, 0, n * sizeof(float)));
    CHECK(cudaMemcpy(pinned, a, n * sizeof(float), cudaMemcpyDeviceToHost));
    EXPECT(pinned[5] == 0.f);
    managed[3] = 1.f;
    fill<<<1, 3>>>(managed, 7.f, 3);
    CHECK(cudaDeviceSynchronize());
    EXPECT(managed[2] == 7.f && managed[3] == 1.f);
    fill<<<1, 32>>>(pinned, 3.f, 32);
    CHECK(cudaDeviceSynchronize());
    EXPECT(pinned[31] == 3.f);
    cudaPointerAttributes attributes;
    CHECK(cudaPointerGetAttributes(&attributes, a));
    EXPECT(attributes.type == cudaMemoryTypeDevice);

    char* pitched;
    size_t pitch;
    float rows[4][10];
    CHECK(cudaMallocPitch(&pitched, &pitch, 10 * sizeof(float), 4));
    fill_pitched<<<1, 32>>>(pitched, pitch, 10, 4);
    CHECK(cudaMemcpy2D(rows, 10 * sizeof(float), pitched, pitch, 10 * sizeof(float), 4, cudaMemcpyDeviceToHost));
    EXPECT(rows[3][9] == 309.f && pitch >= 40);

    // streams and events
    cudaStream_t stream, other;
    cudaEvent_t start, stop;
    int least, greatest;
    CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithPriority(&other, cudaStreamDefault, greatest));
    CHECK(cudaEventCreate(&start));
    CHECK(cudaEventCreateWithFlags(&stop, cudaEventDefault));
    CHECK(cudaEventRecord(start, stream));
    CHECK(cudaMemcpyAsync(a, host, n * sizeof(float), cudaMemcpyHostToDevice, stream));
    fill<<<1, 64, 0, stream>>>(a, -1.f, 64);
    CHECK(cudaMemsetAsync(b, 0, n * sizeof(float), stream));
    CHECK(cudaEventRecord(stop, stream));
    CHECK(cudaStreamWaitEvent(other, stop, 0));
    CHECK(cudaMemcpyAsync(host, a, n * sizeof(float), cudaMemcpyDeviceToHost, other));
    CHECK(cudaStreamSynchronize(other));
    CHECK(cudaEventSynchronize(stop));
    EXPECT(cudaStreamQuery(stream) == cudaSuccess && cudaEventQuery(stop) == cudaSuccess);
    float milliseconds = -1;
    CHECK(cudaEventElapsedTime(&milliseconds, start, stop));
    EXPECT(milliseconds >= 0 && host[63] == -1.f && host[64] == 2.5f);
    float* async;
    CHECK(cudaMallocAsync(&async, 64, stream));
    CHECK(cudaFreeAsync(async, stream));

    // functions
    int blocks = 0, grid = 0, block = 0;
    cudaFuncAttributes function;
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, fill, 256, 0));
    CHECK(cudaOccupancyMaxPotentialBlockSize(&grid, &block, fill, 0, 0));
    CHECK(cudaFuncGetAttributes(&function, fill));
    CHECK(cudaFuncSetAttribute(fill, cudaFuncAttributePreferredSharedMemoryCarveout, 50));
    EXPECT(blocks > 0 && grid > 0 && block % 32 == 0 && function.maxThreadsPerBlock > 0);

    // errors are returned, kept once, and do not stick
    EXPECT(cudaMemcpy(a, host, (n + 1000) * sizeof(float), cudaMemcpyHostToDevice) != cudaSuccess);  // expect: error api
    EXPECT(cudaPeekAtLastError() != cudaSuccess && cudaGetLastError() != cudaSuccess);
    EXPECT(cudaGetLastError() == cudaSuccess);
    fill<<<1, 2048>>>(a, 0.f, n);  // expect: error launch
    EXPECT(cudaGetLastError() != cudaSuccess);  // which error it is depends on the CUDA version
    fill<<<0, 32>>>(a, 0.f, n);  // expect: error launch
    EXPECT(cudaGetLastError() != cudaSuccess);
    void* huge = nullptr;
    EXPECT(cudaMalloc(&huge, size_t(1) << 50) == cudaErrorMemoryAllocation && cudaGetLastError() != cudaSuccess);
    EXPECT(strcmp(cudaGetErrorName(cudaErrorIllegalAddress), "cudaErrorIllegalAddress") == 0);
    EXPECT(cudaFree(nullptr) == cudaSuccess);

    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaStreamDestroy(other));
    CHECK(cudaEventDestroy(start));
    CHECK(cudaEventDestroy(stop));
    CHECK(cudaFree(a));
    CHECK(cudaFree(b));
    CHECK(cudaFree(managed));
    CHECK(cudaFree(pitched));
    CHECK(cudaFreeHost(pinned));
    CHECK(cudaMemGetInfo(&free_after, &total));
    EXPECT(free_after == free_before);
    CHECK(cudaDeviceReset());
    puts("ok");
    return 0;
}
