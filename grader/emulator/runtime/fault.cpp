#include "fault.h"

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "../include/emulator/control.h"
#include "error.h"
#include "findings.h"
#include "launch.h"
#include "scheduler.h"

namespace emulator {
namespace {

struct Report {
    bool set = false;
    std::string kind;
    std::string sentence;
};
// Never destroyed: they may be read until the very end of the process.
Report& fault_report = *new Report;
Report& note_report = *new Report;

struct Meaning {
    const char* name;
    cudaError_t error;
};
Meaning meaning(Kind kind) {
    switch (kind) {
        case Kind::deadlock: return {"deadlock", cudaErrorLaunchTimeout};
        case Kind::divergent_barrier: return {"divergent_barrier", cudaErrorLaunchFailure};
        case Kind::shuffle: return {"shuffle", cudaErrorLaunchFailure};
        case Kind::endless_loop: return {"endless_loop", cudaErrorLaunchTimeout};
        case Kind::illegal_address: return {"illegal_address", cudaErrorIllegalAddress};
        case Kind::misaligned: return {"misaligned", cudaErrorMisalignedAddress};
        case Kind::stack_overflow: return {"stack_overflow", cudaErrorHardwareStackError};
        case Kind::assertion: return {"assert", cudaErrorAssert};
        case Kind::launch: return {"launch", cudaErrorLaunchFailure};
        case Kind::trap: return {"trap", cudaErrorLaunchFailure};
        case Kind::api: return {"api", cudaErrorInvalidValue};
        case Kind::unsupported: return {"unsupported", cudaErrorNotSupported};
    }
    return {"", cudaErrorUnknown};
}

void keep(Report& report, const char* kind, const std::string& place, const std::string& sentence) {
    const bool is_note = &report == &note_report;
    add_fault(is_note ? "undefined_shuffle" : kind, place, sentence, is_note ? Severity::warning : Severity::error);
    if (report.set) return;
    report = {true, kind, (place.empty() ? "" : place + ": ") + sentence};
}

std::string coordinates(const uint3& at) {
    return "(" + std::to_string(at.x) + "," + std::to_string(at.y) + "," + std::to_string(at.z) + ")";
}

}  // namespace

std::string Site::text() const {
    if (file == nullptr) return "";
    return line > 0 ? std::string(file) + ":" + std::to_string(line) : std::string(file);
}

void record(Kind kind, const std::string& place, const std::string& sentence) {
    const Meaning means = meaning(kind);
    keep(fault_report, means.name, place, sentence);
    set_sticky_error(means.error);
    block.abandoned = true;
}

void record(Kind kind, const Site& site, const std::string& sentence) { record(kind, site.text(), sentence); }

void leave() { jump_context(block.hub); }

void fault(Kind kind, const Site& site, const std::string& sentence) {
    record(kind, site, sentence);
    leave();
}

void record_error(Kind kind, const Site& site, const std::string& sentence) {
    keep(fault_report, meaning(kind).name, site.text(), sentence);
}

void note(const Site& site, const std::string& sentence) { keep(note_report, "note", site.text(), sentence); }

void host_called(const char* function, int line, const char* file) {
    record(Kind::unsupported, Site{file, line}, std::string(function) + " was called by host code: it belongs in a kernel");
}

std::string block_name() { return "block " + coordinates(blockIdx) + " of " + kernel_name(); }

std::string thread_name(const Thread& thread) { return "thread " + coordinates(thread.index) + " of " + block_name(); }

std::string ranges(const char* noun, const std::vector<int>& numbers) {
    std::string text = std::string(noun) + (numbers.size() == 1 ? " " : "s ");
    for (size_t i = 0; i < numbers.size();) {
        size_t j = i;
        while (j + 1 < numbers.size() && numbers[j + 1] == numbers[j] + 1) ++j;
        if (i != 0) text += ", ";
        if (text.size() > 80) return text + "...";
        text += std::to_string(numbers[i]);
        if (j > i) text += "-" + std::to_string(numbers[j]);
        i = j + 1;
    }
    return text;
}

std::string hexadecimal(uint64_t value) {
    char text[24];
    std::snprintf(text, sizeof text, "0x%" PRIx64, value);
    return text;
}

int rank_of(const Thread* thread) { return static_cast<int>(thread - block.threads.data()); }

}  // namespace emulator

using namespace emulator;

extern "C" const char* emu_fault(void) { return fault_report.sentence.c_str(); }
extern "C" const char* emu_fault_kind(void) { return fault_report.kind.c_str(); }
extern "C" const char* emu_note(void) { return note_report.sentence.c_str(); }
extern "C" void emu_clear_fault(void) {
    fault_report = {};
    note_report = {};
    clear_errors();
}
