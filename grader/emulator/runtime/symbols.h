// Variables of the program, by address.
#pragma once

#include <string>

namespace emulator {

// What lies at an address of static data.
struct Owner {
    // Of namespace scope and host code can change it; another variable, of a function, say, that may be the
    // device's; something that no device code has a name for; or it cannot be told.
    enum Kind { host, other, foreign, unknown } kind;
    std::string name;  // of a host variable
};
Owner owner_of(const void* address);

// The program has __device__ in macros: variables that they declare are not known.
bool hides_variables();

}  // namespace emulator
