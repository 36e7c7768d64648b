// Device maths: overloads of min, max and abs, fast functions, conversions, bits, constants.
#include <algorithm>
#include <cfloat>
#include <climits>
#include <cmath>
#include <cstdio>
#include <limits>
#include <math_constants.h>
using namespace std;

__device__ int errors;
__device__ int first_line;
__device__ void check(bool ok, int line) {
    if (!ok && atomicAdd(&errors, 1) == 0) first_line = line;
}
#define CHECK(condition) check(condition, __LINE__)

__device__ bool close(double a, double b, double tolerance = 1e-5) { return fabs(a - b) <= tolerance * (1 + fabs(b)); }

__constant__ int seven = 7;

__global__ void functions(float x, double y, int i, unsigned u) {
    CHECK(max(i, 3) == 5 && min(i, 3) == 3 && max(u, 3u) == 9u && min(2.5f, x) == 2.f && max(y, 1.0) == 3.0);
    CHECK(max(x, 1.f) == 2.f && fmaxf(x, NAN) == 2.f && fmin(y, 4.0) == 3.0 && min(i, seven) == 5);
    CHECK(max(5ll, 6ll) == 6 && max(5ull, 6ull) == 6 && max(5l, 6l) == 6 && min(x, 3.0) == 2.0);
    CHECK(abs(-i) == 5 && abs(-x) == 2.f && fabsf(-x) == 2.f && abs(-y) == 3.0 && llabs(-5ll) == 5 && labs(-5l) == 5);
    CHECK(close(rsqrtf(x), 0.70710678) && close(rsqrt(y), 0.57735027) && close(sqrtf(x), 1.41421356));
    CHECK(close(expf(x), 7.3890561) && close(exp(y), 20.085537) && close(__expf(x), 7.3890561) && close(exp2f(x), 4));
    CHECK(close(logf(x), 0.69314718) && close(__logf(x), 0.69314718) && close(log2f(x), 1) && close(log1pf(x), 1.0986123));
    CHECK(close(powf(x, 3.f), 8) && close(__powf(x, 3.f), 8) && close(pow(y, 2.0), 9) && close(cbrtf(27.f), 3));
    CHECK(close(sinf(x), 0.90929743) && close(__sinf(x), 0.90929743) && close(__cosf(x), -0.41614684) && close(tanhf(x), 0.96402758));
    CHECK(close(erff(x), 0.99532227) && close(hypotf(3.f, 4.f), 5) && close(fmodf(7.f, 4.f), 3) && copysignf(x, -1.f) == -2.f);
    float s, c;
    sincosf(x, &s, &c);
    CHECK(close(s, 0.90929743) && close(c, -0.41614684));
    __sincosf(x, &s, &c);
    CHECK(close(s, 0.90929743) && close(exp10f(x), 100, 1e-4));
    CHECK(fmaf(x, x, 1.f) == 5.f && fma(y, y, 1.0) == 10.0 && __fmaf_rn(x, x, 1.f) == 5.f && __fmul_rn(x, 3.f) == 6.f);
    CHECK(__fadd_rn(x, 1.f) == 3.f && __fsub_rn(x, 1.f) == 1.f && __fdiv_rn(x, 4.f) == 0.5f && __fdividef(x, 4.f) == 0.5f);
    CHECK(__frcp_rn(x) == 0.5f && __fsqrt_rn(4.f) == 2.f && close(__frsqrt_rn(x), 0.70710678) && __dadd_rn(y, 1.0) == 4.0);
    CHECK(__saturatef(x) == 1.f && __saturatef(-x) == 0.f && close(normcdff(0.f), 0.5) && close(rcbrtf(8.f), 0.5));
    CHECK(roundf(2.5f) == 3.f && rintf(2.5f) == 2.f && floorf(x + 0.5f) == 2.f && ceilf(x + 0.5f) == 3.f && truncf(-2.5f) == -2.f);
    CHECK(__float2int_rn(2.5f) == 2 && __float2int_rz(2.9f) == 2 && __float2int_ru(2.1f) == 3 && __float2int_rd(-2.1f) == -3);
    CHECK(__float2uint_rn(3.4f) == 3u && __int2float_rn(i) == 5.f && __uint2float_rn(u) == 9.f && __double2int_rn(y) == 3);
    CHECK(__float2int_rn(1e20f) == INT_MAX && __float2int_rz(NAN) == 0 && __double2float_rn(y) == 3.f);
    CHECK(__float_as_int(1.f) == 0x3f800000 && __int_as_float(0x40000000) == 2.f && __float_as_uint(x) == 0x40000000u);
    CHECK(__double_as_longlong(1.0) == 0x3ff0000000000000ll && __longlong_as_double(0x4000000000000000ll) == 2.0);
    CHECK(__hiloint2double(__double2hiint(y), __double2loint(y)) == y);
    CHECK(isnan(NAN) && !isnan(x) && isinf(INFINITY) && isfinite(x) && signbit(-x) && isnan(CUDART_NAN_F) && isinf(-CUDART_INF_F));
    CHECK(std::isnan(NAN) && max(3, i) == 5 && min(1.0, y) == 1.0 && close(CUDART_PI_F, M_PI));
    CHECK(FLT_MAX > 1e38f && FLT_EPSILON == 1.1920929e-07f && DBL_MIN > 0);
    CHECK(__popc(0xf0f0u) == 8 && __popcll(~0ull) == 64 && __clz(1) == 31 && __clz(0) == 32 && __clzll(1) == 63);
    CHECK(__ffs(8) == 4 && __ffs(0) == 0 && __ffsll(1ll << 40) == 41 && __brev(1u) == 0x80000000u && __brevll(1) == 1ull << 63);
    CHECK(__funnelshift_l(0x80000000u, 1u, 1) == 3u && __funnelshift_r(0x2u, 1u, 1) == 0x80000001u);
    CHECK(__byte_perm(0x03020100u, 0x07060504u, 0x7531) == 0x07050301u && __umulhi(1u << 31, 4u) == 2u && __mulhi(-1, 1) == -1);
    CHECK(__mul24(7, -8) == -56 && __sad(3, 7, 1u) == 5u && __dp4a(0x01010101, 0x02020202, 1) == 9 && __hadd(3, 5) == 4);
    CHECK(umin(3u, 4u) == 3u && __mul64hi(1ll << 62, 8) == 2 && __umul64hi(1ull << 63, 4) == 2);
    CHECK(ldexpf(x, 3) == 16.f && nextafterf(0.f, 1.f) > 0.f && fdimf(x, 3.f) == 0.f && remainderf(5.f, 3.f) == -1.f);
}

int main() {
    functions<<<1, 1>>>(2.f, 3.0, 5, 9u);
    cudaError_t error = cudaDeviceSynchronize();
    int count = -1, line = 0;
    cudaMemcpyFromSymbol(&count, errors, sizeof(int));
    cudaMemcpyFromSymbol(&line, first_line, sizeof(int));
    // and on the host
    bool host = std::max(2.f, 3.f) == 3.f && abs(-2) == 2 && max(2, 3) == 3;
    if (error != cudaSuccess || count != 0) {
        printf("failed: %s, %d errors, line %d\n", cudaGetErrorString(error), count, line);
        return 1;
    }
    if (!host) return 1;
    puts("ok");
    return 0;
}
