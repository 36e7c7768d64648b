// For programs that stand alone: settings from the environment, and faults on stderr at the end.
//   EMULATOR_STEPS=N      the step budget; none by default
//   EMULATOR_SCHEDULE=N   0 ascending, 1 descending, others shuffle
// Linked in only by programs that ask for the symbol below.
#include <cstdio>
#include <cstdlib>

#include "../include/emulator/control.h"

extern "C" {
extern const int emulator_standalone;
const int emulator_standalone = 1;
}

namespace {

struct Standalone {
    Standalone() {
        if (const char* steps = std::getenv("EMULATOR_STEPS")) emu_set_step_budget(std::strtoull(steps, nullptr, 10));
        if (const char* seed = std::getenv("EMULATOR_SCHEDULE")) emu_set_schedule(std::strtoull(seed, nullptr, 10));
    }
    ~Standalone() {
        std::fflush(stdout);
        if (emu_fault()[0] != '\0') std::fprintf(stderr, "%s [%s]\n", emu_fault(), emu_fault_kind());
        if (emu_note()[0] != '\0') std::fprintf(stderr, "note: %s\n", emu_note());
    }
} standalone;

}  // namespace
