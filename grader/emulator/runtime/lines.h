// Source lines of machine addresses.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace emulator {

struct SourceLine {
    std::string file;
    int line = 0;
    std::string called_from;  // "softmax.cu:57" if the line belongs to a function that was inlined there

    std::string text() const { return file.empty() ? "" : file + ":" + std::to_string(line); }
};

// "softmax.cu:57" for an instruction of student code, "" if that cannot be found out.
std::string line_of(const void* instruction);

// The lines of calls: `returns` are where they return to. Code of headers counts as the line that uses it.
std::map<const void*, SourceLine> lines_of(const std::vector<const void*>& returns);

}  // namespace emulator
