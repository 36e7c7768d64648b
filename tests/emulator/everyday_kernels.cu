// Kernels from everyday life: softmax, tiled transpose and product, block-wide scan, histogram.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define TILE_DIM 32
#define BLOCK_ROWS 8

__global__ void softmax(float* __restrict__ out, const float* __restrict__ inp, int columns) {
    extern __shared__ float row[];
    __shared__ float reduced[32];
    const float* x = inp + blockIdx.x * columns;
    int lane = threadIdx.x % warpSize, warp = threadIdx.x / warpSize, warps = blockDim.x / warpSize;
    float largest = -INFINITY;
    for (int i = threadIdx.x; i < columns; i += blockDim.x) largest = fmaxf(largest, row[i] = x[i]);
    for (int o = 16; o > 0; o >>= 1) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, o));
    if (lane == 0) reduced[warp] = largest;
    __syncthreads();
    largest = lane < warps ? reduced[lane] : -INFINITY;
    for (int o = 16; o > 0; o >>= 1) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, o));
    __syncthreads();
    float sum = 0;
    for (int i = threadIdx.x; i < columns; i += blockDim.x) sum += row[i] = __expf(row[i] - largest);
    for (int o = 16; o > 0; o >>= 1) sum += __shfl_xor_sync(~0u, sum, o);
    if (lane == 0) reduced[warp] = sum;
    __syncthreads();
    sum = lane < warps ? reduced[lane] : 0;
    for (int o = 16; o > 0; o >>= 1) sum += __shfl_xor_sync(~0u, sum, o);
    for (int i = threadIdx.x; i < columns; i += blockDim.x) out[blockIdx.x * columns + i] = row[i] / sum;
}

__global__ void transpose(float* out, const float* inp, int width, int height) {
    __shared__ float tile[TILE_DIM][TILE_DIM + 1];
    int x = blockIdx.x * TILE_DIM + threadIdx.x, y = blockIdx.y * TILE_DIM + threadIdx.y;
    for (int j = 0; j < TILE_DIM; j += BLOCK_ROWS)
        if (x < width && y + j < height) tile[threadIdx.y + j][threadIdx.x] = inp[(y + j) * width + x];
    __syncthreads();
    x = blockIdx.y * TILE_DIM + threadIdx.x;
    y = blockIdx.x * TILE_DIM + threadIdx.y;
    for (int j = 0; j < TILE_DIM; j += BLOCK_ROWS)
        if (x < height && y + j < width) out[(y + j) * height + x] = tile[threadIdx.x][threadIdx.y + j];
}

template <int Tile>
__global__ void product(float* c, const float* a, const float* b, int n) {
    __shared__ float as[Tile][Tile], bs[Tile][Tile];
    int row = blockIdx.y * Tile + threadIdx.y, column = blockIdx.x * Tile + threadIdx.x;
    float sum = 0;
    for (int t = 0; t < (n + Tile - 1) / Tile; ++t) {
        int i = t * Tile + threadIdx.x, j = t * Tile + threadIdx.y;
        as[threadIdx.y][threadIdx.x] = row < n && i < n ? a[row * n + i] : 0.f;
        bs[threadIdx.y][threadIdx.x] = j < n && column < n ? b[j * n + column] : 0.f;
        __syncthreads();
#pragma unroll
        for (int k = 0; k < Tile; ++k) sum += as[threadIdx.y][k] * bs[k][threadIdx.x];
        __syncthreads();
    }
    if (row < n && column < n) c[row * n + column] = sum;
}

__global__ void scan(int* out, const int* inp, int n) {
    extern __shared__ int buffers[];
    int t = threadIdx.x, pout = 0, pin = 1;
    buffers[t] = t < n ? inp[t] : 0;
    __syncthreads();
    for (int offset = 1; offset < n; offset *= 2) {
        pout = 1 - pout;
        pin = 1 - pout;
        buffers[pout * n + t] = buffers[pin * n + t] + (t >= offset ? buffers[pin * n + t - offset] : 0);
        __syncthreads();
    }
    out[t] = buffers[pout * n + t];
}

__global__ void histogram(unsigned int* bins, const unsigned char* data, int n) {
    __shared__ unsigned int local[256];
    for (int i = threadIdx.x; i < 256; i += blockDim.x) local[i] = 0;
    __syncthreads();
    int stride = blockDim.x * gridDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) atomicAdd(&local[data[i]], 1);
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += blockDim.x) atomicAdd(&bins[i], local[i]);
}

template <typename T>
struct Buffer {
    T* device = nullptr;
    size_t count;
    explicit Buffer(size_t n) : count(n) { cudaMalloc(&device, n * sizeof(T)); }
    explicit Buffer(const std::vector<T>& host) : Buffer(host.size()) {
        cudaMemcpy(device, host.data(), count * sizeof(T), cudaMemcpyHostToDevice);
    }
    ~Buffer() { cudaFree(device); }
    std::vector<T> host() const {
        std::vector<T> values(count);
        cudaMemcpy(values.data(), device, count * sizeof(T), cudaMemcpyDeviceToHost);
        return values;
    }
    operator T*() const { return device; }
};

int failures = 0;
void expect(const char* what, bool ok) {
    if (!ok) printf("%s failed\n", what);
    failures += !ok;
}

int main() {
    const int rows = 5, columns = 100, n = 45;
    std::vector<float> values(rows * columns), square(n * n);
    for (size_t i = 0; i < values.size(); i++) values[i] = sinf(i) * 4;
    for (size_t i = 0; i < square.size(); i++) square[i] = i % 7;
    Buffer<float> inp(values), out(values.size());
    softmax<<<rows, 96, columns * sizeof(float)>>>(out, inp, columns);
    std::vector<float> got = out.host();
    bool ok = true;
    for (int r = 0; r < rows; r++) {
        double sum = 0;
        for (int c = 0; c < columns; c++) sum += exp((double)values[r * columns + c]);
        for (int c = 0; c < columns; c++)
            ok = ok && fabs(got[r * columns + c] - exp((double)values[r * columns + c]) / sum) < 1e-6;
    }
    expect("softmax", ok);

    dim3 grid((columns + TILE_DIM - 1) / TILE_DIM, (rows + TILE_DIM - 1) / TILE_DIM), block(TILE_DIM, BLOCK_ROWS);
    transpose<<<grid, block>>>(out, inp, columns, rows);
    got = out.host();
    ok = true;
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < columns; c++) ok = ok && got[c * rows + r] == values[r * columns + c];
    expect("transpose", ok);

    Buffer<float> a(square), c(square.size());
    product<16><<<dim3(3, 3), dim3(16, 16)>>>(c, a, a, n);
    got = c.host();
    ok = true;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            float sum = 0;
            for (int k = 0; k < n; k++) sum += square[i * n + k] * square[k * n + j];
            ok = ok && got[i * n + j] == sum;
        }
    expect("product", ok);

    std::vector<int> ones(128, 2);
    Buffer<int> numbers(ones), sums(128);
    scan<<<1, 128, 2 * 128 * sizeof(int)>>>(sums, numbers, 128);
    std::vector<int> scanned = sums.host();
    ok = true;
    for (int i = 0; i < 128; i++) ok = ok && scanned[i] == 2 * (i + 1);
    expect("scan", ok);

    std::vector<unsigned char> bytes(5000);
    for (size_t i = 0; i < bytes.size(); i++) bytes[i] = i * i;
    Buffer<unsigned char> data(bytes);
    Buffer<unsigned int> bins(256);
    cudaMemset(bins, 0, 256 * sizeof(unsigned int));
    histogram<<<3, 128>>>(bins, data, bytes.size());
    std::vector<unsigned int> counted = bins.host(), expected(256);
    for (unsigned char byte : bytes) expected[byte]++;
    expect("histogram", counted == expected);
    expect("errors", cudaDeviceSynchronize() == cudaSuccess);
    puts(failures ? "failed" : "ok");
    return failures != 0;
}
