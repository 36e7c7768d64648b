// Requests and sectors of global memory. A warp has 32 lanes, a sector 32 bytes, so 32 floats side by
// side are 4 sectors. Every kernel runs 2 blocks of 64 threads: 4 warps.

// expect contiguous: threads = 128, warps = 4
// A load and a store of each warp, 4 sectors each.
// expect contiguous: global_load_requests = 4, global_load_sectors = 16, global_load_ideal_sectors = 16
// expect contiguous: global_store_requests = 4, global_store_sectors = 16, global_store_ideal_sectors = 16
// expect contiguous: l1_waves = 8, unique_read_sectors = 16, unique_written_sectors = 16, accesses = 256
__global__ void contiguous(float* out, const float* inp) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = inp[i];
}

// Each lane has a sector of its own, of which it wants 4 bytes: 32 sectors where 4 would do.
// expect strided: global_load_requests = 4, global_load_sectors = 128, global_load_ideal_sectors = 16
// expect strided: unique_read_sectors = 128
__global__ void strided(float* out, const float* inp) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = inp[8 * i];
}

// The 128 bytes of a warp begin 4 bytes into a sector: they touch 5, in two lines of 128 bytes.
// expect misaligned: global_load_requests = 4, global_load_sectors = 20, global_load_ideal_sectors = 16
// Neighbouring warps share a sector, so all of them together need 17.
// expect misaligned: unique_read_sectors = 17, l1_waves = 12
__global__ void misaligned(float* out, const float* inp) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = inp[i + 1];
}

// One request of 512 bytes: 16 sectors, 4 lines.
// expect four_floats: global_load_requests = 4, global_load_sectors = 64, global_load_ideal_sectors = 64
// expect four_floats: global_store_requests = 4, global_store_sectors = 64, l1_waves = 32
__global__ void four_floats(float4* out, const float4* inp) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = inp[i];
}

// 256 bytes: 8 sectors.
// expect doubles: global_load_requests = 4, global_load_sectors = 32, global_load_ideal_sectors = 32
__global__ void doubles(float* out, const double* inp) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = static_cast<float>(inp[i]);
}

// 32 bytes: 1 sector.
// expect bytes: global_load_requests = 4, global_load_sectors = 4, global_load_ideal_sectors = 4
__global__ void bytes(float* out, const unsigned char* inp) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = inp[i];
}

// All lanes want the same word.
// expect broadcast: global_load_requests = 4, global_load_sectors = 4, global_load_ideal_sectors = 4
// expect broadcast: unique_read_sectors = 1
__global__ void broadcast(float* out, const float* inp) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = inp[0];
}

// The order of the lanes does not matter.
// expect backwards: global_load_requests = 4, global_load_sectors = 16, global_load_ideal_sectors = 16
__global__ void backwards(float* out, const float* inp) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = inp[127 - i];
}

// Neighbours swap their words: no regular distance from lane to lane, the same 4 sectors.
// expect swapped: global_load_requests = 4, global_load_sectors = 16, global_load_ideal_sectors = 16
__global__ void swapped(float* out, const float* inp) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = inp[i ^ 1];
}

// A structure of 32 bytes goes as two pieces of 16, 32 bytes apart from lane to lane: 32 sectors each.
// expect structures: global_load_requests = 8, global_load_sectors = 256, global_load_ideal_sectors = 128
// expect structures: global_store_requests = 8, global_store_sectors = 256
struct alignas(16) Eight {
    float value[8];
};
__global__ void structures(Eight* out, const Eight* inp) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = inp[i];
}

// 40 of the 64 threads of a block: a full warp and one with 8 lanes, whose 32 bytes are one sector.
// expect guarded: global_load_requests = 4, global_load_sectors = 10, global_load_ideal_sectors = 10
__global__ void guarded(float* out, const float* inp) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.x < 40) out[i] = inp[i];
}

// Lanes run their loops one after another; the k-th iterations of all lanes are one request.
// 3 iterations with 4 sectors, of 4 warps.
// expect loop: global_load_requests = 12, global_load_sectors = 48, global_load_ideal_sectors = 48
// expect loop: busiest_warp_load_requests = 3, busiest_warp_requests = 4, busiest_warp_load_rounds = 1
__global__ void loop(float* out, const float* inp) {
    float sum = 0;
    for (int k = 0; k < 3; k++) sum += inp[k * 128 + blockIdx.x * 64 + threadIdx.x];
    out[blockIdx.x * 64 + threadIdx.x] = sum;
}

// A read and a write of the same place, although the source names it once.
// expect in_place: global_load_requests = 4, global_store_requests = 4
// expect in_place: unique_read_sectors = 16, unique_written_sectors = 16
__global__ void in_place(float* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] *= 2;
}

int main() {
    float *a, *b;
    cudaMalloc(&a, 4096 * sizeof(float));
    cudaMalloc(&b, 4096 * sizeof(float));
    contiguous<<<2, 64>>>(b, a);
    strided<<<2, 64>>>(b, a);
    misaligned<<<2, 64>>>(b, a);
    four_floats<<<2, 64>>>((float4*)b, (float4*)a);
    doubles<<<2, 64>>>(b, (double*)a);
    bytes<<<2, 64>>>(b, (unsigned char*)a);
    broadcast<<<2, 64>>>(b, a);
    backwards<<<2, 64>>>(b, a);
    swapped<<<2, 64>>>(b, a);
    structures<<<2, 64>>>((Eight*)b, (Eight*)a);
    guarded<<<2, 64>>>(b, a);
    loop<<<2, 64>>>(b, a);
    in_place<<<2, 64>>>(b);
    return cudaDeviceSynchronize();
}
