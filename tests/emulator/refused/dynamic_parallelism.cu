// refused
// expect: dynamic_parallelism\.cu:4:\d+: error: a kernel launch inside device code \(dynamic parallelism\) is not supported
__global__ void child() {}
__global__ void parent() { child<<<1, 1>>>(); }
int main() { parent<<<1, 1>>>(); }
