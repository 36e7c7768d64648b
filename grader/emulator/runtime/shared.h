// Shared memory of the running block, and the variables of the device.
#pragma once

#include <cstddef>
#include <string>

#include "fault.h"

namespace emulator {

constexpr size_t kStaticSharedLimit = size_t{48} << 10;  // without asking for more
constexpr size_t kSharedLimit = size_t{227} << 10;

// Dynamic shared memory of `size` bytes for the blocks of a launch.
void prepare_shared(size_t size);
// Fresh (NaN) shared memory for the next block.
void start_shared();
// "past the end of dynamic shared memory ...", or "" if the address has nothing to do with it.
std::string describe_dynamic_shared(const void* address);
// Whether the address lies in shared memory: static as far as it was met, or dynamic.
bool is_shared(const void* address);
// The shared variable, or all of dynamic shared memory, that holds the address; false if there is none.
bool find_shared(const void* address, char** begin, size_t* size, std::string* name);
// Bytes of the static shared variables that the running block has met.
size_t static_shared();

// __device__, __constant__ and __managed__ variables.
void register_variable(const volatile void* address, size_t size, const char* name);
bool is_variable(const void* address);
bool find_variable(const void* address, char** begin, size_t* size, std::string* name);
struct DeviceVariable {
    char* begin;
    size_t size;
    std::string name;
    size_t room = 0;  // on either side, of a __shared__ variable
};
const DeviceVariable* variable_at(const void* address);
// "`count`", for messages.
std::string describe_variable(const void* address);

// Tells the checkers that a block starts with fresh __shared__ variables of namespace scope.
void enter_global_shared();

}  // namespace emulator
