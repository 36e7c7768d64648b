// Kernel launches.
#pragma once

#include <cstddef>
#include <string>

namespace emulator {

// The kernel that runs, for messages.
std::string kernel_name();
// Where it was launched.
std::string launch_site();
// Shared memory that a launch may ask for; grows when a function is given a larger limit.
void allow_dynamic_shared(size_t bytes);

}  // namespace emulator
