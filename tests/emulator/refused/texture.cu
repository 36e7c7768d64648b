// refused
// expect: texture\.cu:3:\d+: error: textures and surfaces are not supported
__global__ void k(float* out, cudaTextureObject_t image) { *out = tex2D<float>(image, 0, 0); }
int main() { return 0; }
