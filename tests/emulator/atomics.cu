// Atomics on global, shared and device variables; a student's own atomicMax for floats; a spin lock.
#include <cstdio>

__device__ int errors;
__device__ void check(bool ok) {
    if (!ok) atomicAdd(&errors, 1);
}

struct Cells {
    int i;
    unsigned u;
    long long l;
    unsigned long long ul;
    float f;
    double d;
};

// not a CUDA function: students write their own
__device__ float atomicMax(float* address, float value) {
    int* bits = (int*)address;
    int old = *bits, assumed;
    do {
        assumed = old;
        old = atomicCAS(bits, assumed, __float_as_int(fmaxf(value, __int_as_float(assumed))));
    } while (assumed != old);
    return __int_as_float(old);
}

__global__ void add(Cells* c) {
    __shared__ float sum;
    if (threadIdx.x == 0) sum = 0;
    __syncthreads();
    atomicAdd(&sum, 1.5f);
    atomicAdd(&c->i, -2);
    atomicAdd(&c->u, 3u);
    atomicAdd(&c->ul, 1ull << 33);
    atomicAdd(&c->f, 0.5f);
    atomicAdd(&c->d, 0.25);
    atomicAdd_block(&c->i, 1);
    atomicAdd_system(&c->u, 1u);
    atomicSub(&c->i, 1);
    __syncthreads();
    if (threadIdx.x == 0) check(sum == 1.5f * blockDim.x);
}

__global__ void others(Cells* c) {
    int t = threadIdx.x;
    atomicMin(&c->i, -t);
    atomicMax(&c->u, (unsigned)t);
    atomicMax(&c->l, (long long)t << 34);
    atomicMin(&c->ul, (unsigned long long)t + 5);
    atomicMax(&c->f, t * 0.5f);
    __syncthreads();
    if (t == 0) {
        check(c->i == -63 && c->u == 63 && c->l == 63ll << 34 && c->ul == 5 && c->f == 31.5f);
        c->i = 0xff;
        c->u = 0;
    }
    __syncthreads();
    atomicAnd(&c->i, ~(1 << (t % 4)));
    atomicOr(&c->u, 1u << (t % 32));
    __syncthreads();
    if (t == 0) check(c->i == 0xf0 && c->u == 0xffffffffu);
    __syncthreads();
    if (t == 0) {
        c->i = 0;
        c->u = 5;
    }
    __syncthreads();
    atomicXor(&c->i, 1 << (t % 8));
    unsigned ticket = atomicInc(&c->u, 9);
    check(ticket <= 9);
    __syncthreads();
    if (t == 0) {
        check(c->i == 0 && c->u == (5 + 64) % 10);
        check(atomicDec(&c->u, 7) == 9 && c->u == 7);
        check(atomicExch(&c->f, 2.5f) == 31.5f && c->f == 2.5f);
        check(atomicExch(&c->i, 4) == 0 && atomicCAS(&c->i, 4, 6) == 4 && atomicCAS(&c->i, 4, 8) == 6 && c->i == 6);
        check(atomicCAS(&c->ul, 5ull, 77ull) == 5ull && c->ul == 77ull);
    }
}

__device__ int lock = 0;
__device__ volatile int guarded = 0;

__global__ void spin_lock() {
    if (threadIdx.x % 32 == 0) {
        while (atomicCAS(&lock, 0, 1) != 0) {}
        guarded = guarded + 1;
        __threadfence();
        atomicExch(&lock, 0);
    }
}

// One thread waits for another of its block.
__global__ void wait_for_flag() {
    __shared__ volatile int flag;
    if (threadIdx.x == 0) flag = 0;
    __syncthreads();
    if (threadIdx.x == 5) {
        while (flag == 0) {}
        check(flag == 8);
    }
    if (threadIdx.x == 70) flag = 8;
}

int main() {
    Cells* cells;
    Cells host = {};
    cudaMalloc(&cells, sizeof(Cells));
    cudaMemset(cells, 0, sizeof(Cells));
    add<<<4, 64>>>(cells);
    cudaMemcpy(&host, cells, sizeof(Cells), cudaMemcpyDeviceToHost);
    bool ok = host.i == -512 && host.u == 1024 && host.ul == 256ull << 33 && host.f == 128.f && host.d == 64.0;
    cudaMemset(cells, 0, sizeof(Cells));
    host = {};
    host.ul = ~0ull;
    cudaMemcpy(cells, &host, sizeof(Cells), cudaMemcpyHostToDevice);
    others<<<1, 64>>>(cells);
    spin_lock<<<8, 256>>>();
    wait_for_flag<<<2, 96>>>();
    cudaError_t error = cudaDeviceSynchronize();
    int count = -1, locked = 0;
    cudaMemcpyFromSymbol(&count, errors, sizeof(int));
    cudaMemcpyFromSymbol(&locked, guarded, sizeof(int));
    cudaFree(cells);
    if (!ok || error != cudaSuccess || count != 0 || locked != 64) {
        printf("failed: %d, %s, %d errors, %d\n", ok, cudaGetErrorString(error), count, locked);
        return 1;
    }
    puts("ok");
    return 0;
}
