// Source lines of machine addresses.
#pragma once

#include <string>

namespace emulator {

// "softmax.cu:57" for an instruction of student code, "" if that cannot be found out.
std::string line_of(const void* instruction);

}  // namespace emulator
