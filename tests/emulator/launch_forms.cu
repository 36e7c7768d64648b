// Kernel launches wherever C++ allows an expression: templates, pointers, macros, wrappers, ternaries.
#include <cstdio>
#include <vector>

#define LAUNCH(kernel, ...) kernel<<<2, 32>>>(__VA_ARGS__)
#define LAUNCH_NAMED(name, out) add_##name<<<1, 32>>>(out)
#define CHECK(call)                                                             \
    do {                                                                        \
        cudaError_t error_ = (call);                                            \
        if (error_ != cudaSuccess) {                                            \
            printf("line %d: %s\n", __LINE__, cudaGetErrorString(error_));      \
            return 1;                                                           \
        }                                                                       \
    } while (0)
#define KERNEL __global__ void
#define DEFINE_ADD(name, amount)                                                \
    __global__ void add_##name(int* out) { atomicAdd(out, amount); }

DEFINE_ADD(one, 1)
DEFINE_ADD(ten, 10)

KERNEL count(int* out) { atomicAdd(out, 1); }

template <typename T, int N>
__global__ void __launch_bounds__(N) add(T* out, T value) {
    atomicAdd(out, value);
}

template <>
__global__ void add<int, 7>(int* out, int value) {
    atomicAdd(out, 100 * value);
}

template <typename... Values>
__global__ void add_all(int* out, Values... values) {
    int sum = (0 + ... + values);
    atomicAdd(out, sum);
}

__global__ void overloaded(int* out) { atomicAdd(out, 1); }
__global__ void overloaded(int* out, int value) { atomicAdd(out, value); }

// declared here, defined below
__global__ void later(int* __restrict__ out, const int* __restrict__ null, size_t bytes);

namespace outer {
namespace inner {
static __global__ void nested(int *out) { atomicAdd(out, 1); }
}
struct Runner {
    int blocks;
    void (*kernel)(int*);
    void run(int* out) const { kernel<<<blocks, 32>>>(out); }
    template <int N>
    static void run_all(int* out) {
        for (int i = 0; i < N; i++) inner::nested<<<1, 32>>>(out);
    }
};
}  // namespace outer

struct Pair {
    int first;
    float second;
};
__global__ void by_value(int* out, Pair pair, dim3 shape, bool flag) {
    if (flag) atomicAdd(out, pair.first + (int)pair.second + (int)shape.y);
    pair.first = -1;  // each thread has its own
}

template <class F, class... Arguments>
void forward(F kernel, int blocks, Arguments... arguments) {
    kernel<<<blocks, 32>>>(arguments...);
}

template <int Blocks>
struct Grid {
    static constexpr int value = Blocks;
};

int expect(const char* what, int* device, int wanted) {
    int got = 0;
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(&got, device, sizeof(int), cudaMemcpyDeviceToHost));
    CHECK(cudaMemset(device, 0, sizeof(int)));
    if (got != wanted) printf("%s: %d instead of %d\n", what, got, wanted);
    return got != wanted;
}

int main() {
    int* out;
    CHECK(cudaMalloc(&out, sizeof(int)));
    CHECK(cudaMemset(out, 0, sizeof(int)));
    int bad = 0, n = 96, threads = 32;
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));

    count<<<3, 32>>>(out);
    bad += expect("plain", out, 96);
    count<<<dim3(2, 2), dim3(4, 4, 2), 0, stream>>>(out);
    bad += expect("dim3 and a stream", out, 128);
    count<<<n >> 5, 1 << 5>>>(out);
    bad += expect("shifts", out, 96);
    count<<<(n + threads - 1) / threads, n > 64 ? 32 : 16>>>(out);
    bad += expect("comparison", out, 96);
    count<<<Grid<(3 > 2)>::value, (Grid<32>::value)>>>(out);
    bad += expect("template in the configuration", out, 32);
    count
        <<<
            2,   // blocks
            32   /* threads >>> */
        >>>(
            out);
    bad += expect("over several lines", out, 64);
    add<int, 256><<<2, 32>>>(out, 2);
    bad += expect("explicit template arguments", out, 128);
    add<int, 7><<<1, 1>>>(out, 3);
    bad += expect("specialisation", out, 300);
    add_all<<<1, 2>>>(out, 1, 2, 3);
    bad += expect("variadic", out, 12);
    overloaded<<<1, 1>>>(out);
    overloaded<<<1, 1>>>(out, 5);
    bad += expect("overloads", out, 6);
    later<<<1, 1>>>(out, NULL, 3);
    bad += expect("declared before", out, 3);
    outer::inner::nested<<<1, 3>>>(out);
    ::outer::inner::nested<<<1, 3>>>(out);
    bad += expect("namespaces", out, 6);

    void (*pointer)(int*) = count;
    pointer<<<1, 32>>>(out);
    (*pointer)<<<1, 32>>>(out);
    bad += expect("function pointers", out, 64);
    void (*table[2])(int*) = {count, outer::inner::nested};
    for (int i = 0; i < 2; i++) table[i]<<<i + 1, 32>>>(out);
    bad += expect("array of function pointers", out, 96);
    auto chosen = n > 5 ? count : outer::inner::nested;
    chosen<<<1, 1>>>(out);
    (n < 5 ? count : outer::inner::nested)<<<1, 1>>>(out);
    bad += expect("conditional", out, 2);
    n > 5 ? count<<<1, 4>>>(out) : outer::inner::nested<<<1, 8>>>(out);
    bad += expect("in a ternary", out, 4);
    if (n > 5) count<<<1, 1>>>(out); else count<<<1, 2>>>(out);
    bad += expect("without braces", out, 1);
    outer::Runner runner{2, count};
    runner.run(out);
    outer::Runner* other = &runner;
    other->kernel<<<1, 32>>>(out);
    outer::Runner::run_all<3>(out);
    bad += expect("members", out, 64 + 32 + 96);
    LAUNCH(count, out);
    LAUNCH((add<int, 64>), out, 1);
    LAUNCH_NAMED(ten, out);
    LAUNCH_NAMED(one, out);
    bad += expect("macros", out, 64 + 64 + 320 + 32);
    forward(add<int, 32>, 2, out, 1);
    forward(count, 1, out);
    bad += expect("wrappers", out, 96);
    auto lambda = [&](int blocks) { count<<<blocks, 32>>>(out); };
    lambda(3);
    bad += expect("in a lambda", out, 96);
    by_value<<<1, 2>>>(out, Pair{3, 4.5f}, 5, n);
    by_value<<<1, 1>>>(out, {1, 2.f}, {1, 2, 3}, true);
    bad += expect("arguments by value", out, 2 * 8 + 5);
    void* arguments[] = {&out};
    CHECK(cudaLaunchKernel((void*)count, dim3(2), dim3(32), arguments, 0, stream));
    bad += expect("cudaLaunchKernel", out, 64);
    std::vector<std::vector<std::vector<int>>> unrelated(1);
    int shifted = 1 << 3 >> 1;
    count<<<shifted, unrelated.size()>>>(out);
    bad += expect("next to other angle brackets", out, 4);

    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(out));
    puts(bad ? "failed" : "ok");
    return bad != 0;
}

__global__ void later(int* __restrict__ out, const int* __restrict__ null, size_t bytes) {
    if (null == nullptr) *out += (int)bytes;
}
