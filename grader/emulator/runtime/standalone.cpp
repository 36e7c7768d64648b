// For programs that stand alone: settings from the environment, and faults on stderr at the end.
//   EMULATOR_STEPS=N      the step budget; none by default
//   EMULATOR_SCHEDULE=N   0 ascending, 1 descending, others shuffle
//   EMULATOR_COUNT=1      count what kernels do, and print it as JSON
//   EMULATOR_SAMPLE=N     run about N blocks of each launch only
//   EMULATOR_ACCESSES=N   and no more than make about N accesses to memory; 3000000 by default
//   EMULATOR_MACHINE=...  settings as emu_set_machine() takes them
//   EMULATOR_CHECK=1      the checkers; what they find is told on stderr, too
// Linked in only by programs that ask for the symbol below.
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>

#include "../include/emulator/control.h"

extern "C" {
extern const int emulator_standalone;
const int emulator_standalone = 1;
}

namespace {

// "softmax.cu:57: error: sentence [kind]"
void tell_findings() {
    std::istringstream lines(emu_findings());
    std::string severity, kind, file, line, count, sentence;
    while (std::getline(lines, severity, '\t') && std::getline(lines, kind, '\t') && std::getline(lines, file, '\t') &&
           std::getline(lines, line, '\t') && std::getline(lines, count, '\t') && std::getline(lines, sentence)) {
        if (count != "1") sentence += " (" + count + " times)";
        std::fprintf(stderr, "%s:%s: %s: %s [%s]\n", file.c_str(), line.c_str(), severity.c_str(), sentence.c_str(),
                     kind.c_str());
    }
}

struct Standalone {
    Standalone() {
        emu_watch((checks() ? 1 : 0) | (counts() ? 2 : 0));
        if (const char* steps = std::getenv("EMULATOR_STEPS")) emu_set_step_budget(std::strtoull(steps, nullptr, 10));
        if (const char* seed = std::getenv("EMULATOR_SCHEDULE")) emu_set_schedule(std::strtoull(seed, nullptr, 10));

        if (const char* machine = std::getenv("EMULATOR_MACHINE")) emu_set_machine(machine);
        if (const char* blocks = std::getenv("EMULATOR_SAMPLE")) {
            const char* accesses = std::getenv("EMULATOR_ACCESSES");
            emu_sample(static_cast<unsigned>(std::strtoul(blocks, nullptr, 10)),
                       accesses == nullptr ? 3'000'000 : std::strtoull(accesses, nullptr, 10));
        }
    }
    ~Standalone() {
        std::fflush(stdout);
        if (emu_fault()[0] != '\0') std::fprintf(stderr, "%s [%s]\n", emu_fault(), emu_fault_kind());
        tell_findings();
        if (emu_note()[0] != '\0') std::fprintf(stderr, "note: %s\n", emu_note());
        if (counts()) std::fprintf(stderr, "%s\n", emu_counters());
    }

private:
    static bool counts() { return std::getenv("EMULATOR_COUNT") != nullptr; }
    static bool checks() { return std::getenv("EMULATOR_CHECK") != nullptr; }
} standalone;

}  // namespace
