// refused
// expect: cluster\.cu:3:12: error: thread-block clusters are not supported
__global__ __cluster_dims__(2, 1, 1) void k() {}
int main() { return 0; }
