// Variables of the program, by address.
#pragma once

#include <string>

namespace emulator {

// The name of the variable of namespace scope that holds the address and that host code can change; "" if it is
// something else: a constant, a static variable of a function or class, a template's, one of the runtime's own,
// or if the module has no symbols.
std::string host_variable(const void* address);

// The program has __device__ in macros: variables that they declare are not known.
bool hides_variables();

}  // namespace emulator
