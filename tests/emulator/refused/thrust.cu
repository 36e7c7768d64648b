// refused
// expect: thrust\.cu:3:1: error: Thrust is not available here
#include <thrust/device_vector.h>
int main() { return 0; }
