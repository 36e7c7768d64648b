#include "lines.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#ifdef __linux__
#include <elf.h>
#endif

#include "fault.h"

namespace emulator {
namespace {

constexpr size_t kAtATime = 1000;

// The address as the debug information of its module knows it.
uintptr_t offset_in_module(const void* instruction, const Dl_info& module) {
#ifdef __linux__
    const auto* header = static_cast<const Elf64_Ehdr*>(module.dli_fbase);
    if (header->e_type == ET_EXEC) return reinterpret_cast<uintptr_t>(instruction);
#endif
    return reinterpret_cast<uintptr_t>(instruction) - reinterpret_cast<uintptr_t>(module.dli_fbase);
}

// The file as its author knows it, or "" for headers of ours, the compiler or the system. Files of a
// submission are relative to the folder it was compiled in, which addr2line puts in front of them.
std::string student_line(const std::string& line) {
    if (line.empty() || line[0] == '?' || line.find(":?") != std::string::npos) return "";
    if (line.rfind("/usr/", 0) == 0 || line.find("/include/emulator/") != std::string::npos) return "";
    if (line.find("/emulator/include/") != std::string::npos) return "";
    if (line.size() > 2 && line.compare(line.size() - 2, 2, ":0") == 0) return "";
    const size_t relative = line.rfind("./");
    if (relative != std::string::npos) return line.substr(relative + 2);
    return line[0] == '/' ? line.substr(line.rfind('/') + 1) : line;
}

}  // namespace

// Runs addr2line on addresses of one module; the inlined frames of each, innermost first.
static std::vector<std::vector<std::string>> frames_of(const char* module, const std::vector<uintptr_t>& offsets) {
    std::vector<std::vector<std::string>> frames;
    std::string command = std::string("addr2line -a -i -e '") + module + "'";
    for (const uintptr_t offset : offsets) command += " " + hexadecimal(offset);
    FILE* output = popen((command + " 2>/dev/null").c_str(), "r");
    if (output == nullptr) return frames;
    char buffer[4096];
    while (std::fgets(buffer, sizeof buffer, output) != nullptr) {
        std::string line(buffer);
        line.erase(line.find_last_not_of('\n') + 1);
        if (line.rfind("0x", 0) == 0) {
            frames.emplace_back();
        } else if (!frames.empty()) {
            frames.back().push_back(student_line(line.substr(0, line.find(" (discriminator"))));
        }
    }
    pclose(output);
    return frames;
}

// The innermost line of the student's, and the next one around it.
static SourceLine innermost(const std::vector<std::string>& frames) {
    SourceLine found;
    for (const std::string& frame : frames) {
        if (frame.empty()) continue;
        if (!found.file.empty()) {
            if (frame != found.text()) found.called_from = frame;
            break;
        }
        const size_t colon = frame.rfind(':');
        found.file = frame.substr(0, colon);
        found.line = std::atoi(frame.c_str() + colon + 1);
    }
    return found;
}

std::string line_of(const void* instruction) {
    Dl_info module{};
    if (dladdr(instruction, &module) == 0 || module.dli_fname == nullptr) return "";
    const auto frames = frames_of(module.dli_fname, {offset_in_module(instruction, module)});
    return frames.empty() ? "" : innermost(frames.front()).text();
}

std::map<const void*, SourceLine> lines_of(const std::vector<const void*>& returns) {
    std::map<const void*, SourceLine> lines;
    std::map<std::string, std::vector<std::pair<const void*, uintptr_t>>> modules;
    for (const void* address : returns) {
        Dl_info module{};
        if (!lines.try_emplace(address).second) continue;
        if (dladdr(address, &module) == 0 || module.dli_fname == nullptr) continue;
        modules[module.dli_fname].emplace_back(address, offset_in_module(address, module) - 1);
    }
    for (const auto& [name, addresses] : modules) {
        // As many at a time as a command line holds for sure.
        for (size_t first = 0; first < addresses.size(); first += kAtATime) {
            const size_t last = std::min(first + kAtATime, addresses.size());
            std::vector<uintptr_t> offsets;
            for (size_t i = first; i < last; ++i) offsets.push_back(addresses[i].second);
            const auto frames = frames_of(name.c_str(), offsets);
            for (size_t i = first; i < last && i - first < frames.size(); ++i) {
                lines[addresses[i].first] = innermost(frames[i - first]);
            }
        }
    }
    return lines;
}

}  // namespace emulator
