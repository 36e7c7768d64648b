// refused
// expect: wmma\.cu:3:1: error: tensor-core instructions
#include <mma.h>
using namespace nvcuda;
int main() { return 0; }
