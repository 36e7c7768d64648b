#include "steps.h"

#include <cstdint>
#include <stdexcept>
#include <string>

#include "../include/emulator/control.h"
#include "fault.h"
#include "launch.h"
#include "scheduler.h"

// Steps left in the slice of the budget that is being used. At its end the runtime has a look: the
// budget may be spent, and a thread that spins may be waiting for one that has not had its turn.
static constexpr long kSlice = 4096;
long __emulator_steps = kSlice;

namespace emulator {
namespace {

uint64_t budget = 0;  // 0: no limit
uint64_t spent = 0;   // before the current slice

// Accounts for the slice; false when the budget is spent.
bool next_slice() {
    spent += static_cast<uint64_t>(kSlice - __emulator_steps);
    __emulator_steps = kSlice;
    return budget == 0 || spent < budget;
}

std::string count_of_steps() { return std::to_string(budget) + " steps"; }

}  // namespace

bool take_steps(long count) {
    __emulator_steps -= count;
    return __emulator_steps > 0 || next_slice();
}

}  // namespace emulator

using namespace emulator;

extern "C" void __emulator_out_of_steps(int line, const char* file) {
    const bool goes_on = next_slice();
    const Site site{file, line};
    if (!runs_kernel()) {
        if (goes_on) return;
        const std::string what = "this loop of host code does not end (" + count_of_steps() + " taken)";
        record(Kind::endless_loop, site, what);
        throw std::runtime_error(site.text() + ": " + what);
    }
    if (goes_on) {
        yield();
        return;
    }
    fault(Kind::endless_loop, site,
          "the kernel does not end: after " + count_of_steps() + " " + thread_name(*current) +
              " is still in this loop. If it waits for another block: blocks run one after another here and"
              " in any order on a GPU, so they must not wait for each other");
}

extern "C" void emu_set_step_budget(uint64_t steps) {
    budget = steps;
    spent = 0;
    __emulator_steps = kSlice;
}

extern "C" uint64_t emu_steps(void) { return spent + static_cast<uint64_t>(kSlice - __emulator_steps); }
