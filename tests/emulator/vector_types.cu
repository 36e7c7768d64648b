// Vector types: sizes, alignment, brace initialisation, copies, unions, a student's own operators.
#include <cstdio>
#include <type_traits>

static_assert(sizeof(float3) == 12 && alignof(float3) == 4, "");
static_assert(sizeof(float4) == 16 && alignof(float4) == 16, "");
static_assert(sizeof(float2) == 8 && alignof(float2) == 8, "");
static_assert(sizeof(double2) == 16 && alignof(double2) == 16, "");
static_assert(sizeof(uchar4) == 4 && alignof(uchar4) == 4, "");
static_assert(sizeof(short4) == 8 && alignof(short4) == 8, "");
static_assert(sizeof(longlong2) == 16 && alignof(longlong2) == 16, "");
static_assert(std::is_trivially_copyable<float4>::value, "");

__host__ __device__ inline float4 operator+(float4 a, float4 b) {
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}
__host__ __device__ inline float4 operator*(float s, const float4& v) { return {s * v.x, s * v.y, s * v.z, s * v.w}; }
__host__ __device__ inline float4& operator+=(float4& a, const float4& b) { return a = a + b; }

union Pack {
    float4 vector;
    float elements[4];
};
__device__ Pack load(const float* address) {
    Pack pack;
    pack.vector = *reinterpret_cast<const float4*>(address);
    return pack;
}

template <typename T, int N>
struct alignas(sizeof(T) * N) Vec {
    T value[N];
};

struct Particle {
    float3 position;
    float4 velocity;
    int2 cell = {1, 2};
};

__device__ int errors;
__device__ void check(bool ok) {
    if (!ok) atomicAdd(&errors, 1);
}

__global__ void vectors(float* out, const float* inp, int n) {
    int t = threadIdx.x;
    float4 zero = {0, 0, 0, 0}, partial = {1.f}, empty{}, direct{1.f, 2.f, 3.f, 4.f};
    float4 copy(direct);
    const float4* in4 = (const float4*)inp;
    float4* out4 = reinterpret_cast<float4*>(out);
    float4 v = in4[t];
    const float4 w = __ldg(&in4[t]);
    check(partial.y == 0 && empty.w == 0 && zero.x == 0 && copy.z == 3.f && v.x == w.x);
    v += 2.f * direct;
    out4[t] = v;
    __syncthreads();
    check(out[4 * t + 1] == inp[4 * t + 1] + 4.f);

    Pack pack = load(inp + 4 * t), other;
    other = pack;
    float sum = 0;
    for (float element : other.elements) sum += element;
    check(sum == v.x + v.y + v.z + v.w - 20.f);

    // a local array used as a vector
    float registers[8];
    *reinterpret_cast<float4*>(&registers[0]) = in4[t];
    *reinterpret_cast<float4*>(&registers[4]) = zero;
    check(registers[3] == inp[4 * t + 3] && registers[7] == 0);
    Vec<float, 4> chunk = *reinterpret_cast<const Vec<float, 4>*>(inp + 4 * t);
    check(chunk.value[2] == inp[4 * t + 2]);

    int4 i4 = make_int4(1, 2, 3, 4);
    uint2 u2 = make_uint2(5, 6);
    double2 d2 = make_double2(0.5, 1.5);
    uchar4 c4 = make_uchar4(250, 251, 252, 253);
    char2 signed2 = make_char2(-1, 2);
    short3 s3 = make_short3(1, 2, 3);
    longlong2 l2 = make_longlong2(1ll << 40, 2);
    float1 f1 = make_float1(3.f);
    int3 i3 = {7, 8, 9};
    check(i4.w + u2.y + (int)d2.y + c4.w + signed2.x + s3.z + (int)(l2.x >> 40) + (int)f1.x + i3.z == 279);

    __shared__ float4 tile[32];
    __shared__ Particle particles[2];
    tile[t] = v;
    if (t < 2) particles[t].velocity = v, particles[t].position = make_float3(1, 2, t), particles[t].cell.y = t;
    __syncthreads();
    check(tile[31 - t].x == out[4 * (31 - t)] && particles[1].position.z == 1.f && particles[1].cell.y == 1);
    float* flat = &tile[0].x;
    check(flat[4 * t + 2] == v.z);
    (void)n;
}

int main() {
    dim3 one, two(2, 3), three = {4, 5, 6}, number = 7;
    dim3 list[] = {dim3(1), 8};
    if (one.x * one.y * one.z != 1 || two.z != 1 || three.z != 6 || number.x != 7 || list[1].x != 8) return 1;
    uint3 plain = three;
    if (plain.y != 5) return 1;
    float host[128], *inp, *out;
    for (int i = 0; i < 128; i++) host[i] = i;
    cudaMalloc(&inp, sizeof host);
    cudaMalloc(&out, sizeof host);
    cudaMemcpy(inp, host, sizeof host, cudaMemcpyHostToDevice);
    vectors<<<1, 32>>>(out, inp, 128);
    cudaError_t error = cudaDeviceSynchronize();
    int count = -1;
    cudaMemcpyFromSymbol(&count, errors, sizeof(int));
    if (error != cudaSuccess || count != 0) {
        printf("failed: %s, %d errors\n", cudaGetErrorString(error), count);
        return 1;
    }
    puts("ok");
    return 0;
}
