#include "findings.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "../include/emulator/control.h"
#include "../include/emulator/runtime_api.h"
#include "error.h"
#include "lines.h"
#include "watch.h"

namespace emulator {
namespace {

constexpr size_t kKept = 2048;  // before lines are known; each place of a kernel may have several instructions
constexpr size_t kTold = 64;

struct Key {
    const char* kind;
    const void* instruction;
    const char* file;
    int line;
    const void* buffer;

    bool operator==(const Key& other) const {
        return kind == other.kind && instruction == other.instruction && file == other.file && line == other.line &&
               buffer == other.buffer;
    }
};
struct Hash {
    size_t operator()(const Key& key) const {
        auto mix = reinterpret_cast<uintptr_t>(key.instruction) ^ reinterpret_cast<uintptr_t>(key.kind) << 7;
        mix ^= reinterpret_cast<uintptr_t>(key.buffer) << 13 ^ reinterpret_cast<uintptr_t>(key.file);
        return mix * 0x9E3779B97F4A7C15ull ^ static_cast<size_t>(key.line);
    }
};

// Never destroyed: they may be read until the very end of the process.
auto& index_of = *new std::unordered_map<Key, size_t, Hash>;
auto& kept = *new std::vector<std::pair<Finding, uint64_t>>;
std::string& text = *new std::string;

struct Told {
    Finding finding;
    SourceLine line;
    uint64_t count;
};

const char* name_of(Severity severity) {
    switch (severity) {
        case Severity::error: return "error";
        case Severity::warning: return "warning";
        default: return "advice";
    }
}

// The lines of all instructions in one go: the tool that knows them takes a while to start.
std::map<const void*, SourceLine> all_lines() {
    std::vector<const void*> instructions;
    for (const auto& [finding, count] : kept) {
        for (const void* instruction : {finding.place.instruction, finding.other.instruction}) {
            if (instruction != nullptr) instructions.push_back(instruction);
        }
    }
    return lines_of(instructions);
}

SourceLine line_at(const Place& place, std::map<const void*, SourceLine>& lines) {
    if (place.instruction != nullptr) return lines[place.instruction];
    SourceLine line;
    if (place.site.file != nullptr) {
        line.file = place.site.file;
        line.line = place.site.line;
    }
    return line;
}

// The message as it is told, on one line.
std::string worded(const Finding& finding, const SourceLine& here, const SourceLine& other) {
    std::string message;
    for (const char c : finding.message) {
        if (c == kOther) {
            message += other.file.empty() ? "another place" : other.text();
        } else {
            message += c == '\n' || c == '\t' ? ' ' : c;
        }
    }
    if (!here.called_from.empty()) message += " (called from " + here.called_from + ")";
    return message;
}

// One finding for each line, kind and buffer.
std::vector<Told> merged() {
    auto lines = all_lines();
    std::map<std::tuple<std::string, int, std::string, std::string>, size_t> places;
    std::vector<Told> told;
    for (const auto& [finding, count] : kept) {
        const SourceLine here = line_at(finding.place, lines);
        const auto [at, is_new] = places.try_emplace({here.file, here.line, finding.kind, finding.buffer}, told.size());
        if (is_new) {
            told.push_back({finding, here, count});
            told.back().finding.message = worded(finding, here, line_at(finding.other, lines));
        } else {
            told[at->second].count += count;
        }
    }
    return told;
}

}  // namespace

// What nobody has asked about is told with the rest.
void add_unchecked_error() {
    const Forgotten forgotten = forgotten_error();
    if (forgotten.error == cudaSuccess || found_again("unchecked_error", {nullptr, forgotten.site}, nullptr)) return;
    add_finding({Severity::warning, "unchecked_error", {nullptr, forgotten.site}, "",
                 std::string("a CUDA call failed with ") + cudaGetErrorName(forgotten.error) + " (" +
                     cudaGetErrorString(forgotten.error) + "), and nobody asked: look at what it returns, or call"
                     " cudaGetLastError() after it", {}});
}

namespace {

// The same accesses are an error already.
bool adds_nothing(const Told& one, const std::vector<Told>& told) {
    const std::string kind = one.finding.kind;
    if (kind != "same_value_race" && kind != "mixed_atomic") return false;
    return std::any_of(told.begin(), told.end(), [&](const Told& other) {
        return std::string(other.finding.kind).rfind("race_", 0) == 0 && other.line.file == one.line.file &&
               other.line.line == one.line.line && other.finding.buffer == one.finding.buffer;
    });
}

std::string write_all() {
    add_unchecked_error();
    std::vector<Told> told = merged();
    std::stable_sort(told.begin(), told.end(), [](const Told& a, const Told& b) {
        return a.finding.severity < b.finding.severity;
    });
    if (told.size() > kTold) told.resize(kTold);
    std::string all;
    for (const Told& one : told) {
        if (adds_nothing(one, told)) continue;
        all += std::string(name_of(one.finding.severity)) + "\t" + one.finding.kind + "\t" + one.line.file + "\t" +
               std::to_string(one.line.line) + "\t" + std::to_string(one.count) + "\t" + one.finding.message + "\n";
    }
    return all;
}

Key key_of(const char* kind, const Place& place, const void* buffer) {
    return {kind, place.instruction, place.site.file, place.site.line, buffer};
}

Key last_asked;

}  // namespace

bool found_again(const char* kind, const Place& place, const void* buffer) {
    last_asked = key_of(kind, place, buffer);
    const auto at = index_of.find(last_asked);
    if (at == index_of.end()) return kept.size() >= kKept;
    ++kept[at->second].second;
    return true;
}

void add_finding(Finding finding) {
    index_of[last_asked] = kept.size();
    kept.emplace_back(std::move(finding), 1);
}

void add_fault(const char* kind, const std::string& place, const std::string& sentence, Severity severity) {
    if ((watchers & kChecks) == 0) return;
    const size_t colon = place.rfind(':');
    const int line = colon == std::string::npos ? 0 : std::atoi(place.c_str() + colon + 1);
    static auto& files = *new std::set<std::string>;  // of faults; their names must stay
    const std::string& file = *files.insert(place.substr(0, colon)).first;
    const Place at{nullptr, {file.c_str(), line}};
    if (!found_again(kind, at, nullptr)) add_finding({severity, kind, at, "", sentence, {}});
}

}  // namespace emulator

using namespace emulator;

extern "C" const char* emu_findings(void) {
    text = write_all();
    return text.c_str();
}
extern "C" void emu_clear_findings(void) {
    index_of.clear();
    kept.clear();
}
