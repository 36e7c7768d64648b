#include "sampling.h"

#include <algorithm>
#include <set>

#include "../include/emulator/control.h"
#include "early.h"
#include "machine.h"

namespace emulator {

EMULATOR_EARLY Sampling sampling;

void Sampling::start(uint64_t blocks) {
    grid_ = blocks;
    chosen_.clear();
    weights_.clear();
    if (!on()) return;
    constexpr uint64_t kFull = 4;  // launches of which the whole sample is run
    const uint64_t blocks_of_launch = target_blocks_ * kFull / std::max(kFull, ++launches_);
    choose(std::max<uint64_t>(blocks_of_launch, 2), 1);
    weigh(0);
}

bool Sampling::next(uint64_t position, uint64_t* number) const {
    if (!on()) {
        *number = position;
        return position < grid_;
    }
    if (position >= chosen_.size()) return false;
    *number = chosen_[position];
    return true;
}

uint64_t Sampling::weight(uint64_t position) const { return on() ? weights_[position] : 1; }

uint64_t Sampling::occupied() const { return std::min<uint64_t>(grid_, machine.sms); }

uint64_t Sampling::sampled() const {
    if (!on()) return occupied();
    std::set<uint64_t> sms;
    for (const uint64_t number : chosen_) sms.insert(number % machine.sms);
    return sms.size();
}

// All blocks of some multiprocessors, for it is there that blocks share a cache: block b lives on
// multiprocessor b modulo their number. If those are too many, some of their turns, evenly spread, but at
// least as many as are resident together. The last block of the grid belongs to them: in many kernels it
// finishes what the others have begun.
void Sampling::choose(uint64_t blocks, uint64_t resident) {
    const uint64_t sms = occupied();
    const uint64_t turns = (grid_ + sms - 1) / sms;
    const uint64_t used = std::clamp<uint64_t>(blocks / turns, 1, sms);
    const uint64_t wanted = std::min(turns, std::max({blocks / used, resident, uint64_t{1}}));
    std::set<uint64_t> numbers{grid_ - 1};
    for (uint64_t i = 0; i < used; ++i) {
        const uint64_t sm = (grid_ - 1 + i * sms / used) % sms;
        for (uint64_t k = 0; k < wanted; ++k) {
            const uint64_t number = k * turns / wanted * sms + sm;
            if (number < grid_) numbers.insert(number);
        }
    }
    chosen_.assign(numbers.begin(), numbers.end());
}

// The blocks from here on share evenly in those that nobody stands for yet; the last one is alone.
void Sampling::weigh(uint64_t from) {
    uint64_t left = grid_ - 1;
    for (uint64_t i = 0; i < from; ++i) left -= weights_[i];
    weights_.resize(chosen_.size());
    const uint64_t sharers = chosen_.size() - 1 - from;
    for (uint64_t i = 0; i < sharers; ++i) weights_[from + i] = (i + 1) * left / sharers - i * left / sharers;
    weights_.back() = 1;
}

void Sampling::learn(uint64_t accesses, unsigned resident) {
    if (!on() || chosen_.size() < 3 || accesses == 0) return;
    const uint64_t affordable = target_accesses_ / accesses;  // of this launch
    if (affordable >= chosen_.size()) return;
    const uint64_t first = chosen_.front();
    choose(std::max<uint64_t>(affordable, 1), resident);
    // The first one has run, and stands for as many as was thought when it started.
    if (chosen_.front() != first) chosen_.insert(chosen_.begin(), first);
    chosen_.erase(std::remove_if(chosen_.begin() + 1, chosen_.end(), [&](uint64_t x) { return x <= first; }),
                  chosen_.end());
    // Somebody has to stand for the rest.
    if (chosen_.size() < 3) chosen_.insert(chosen_.begin() + 1, chosen_.front() + 1);
    weigh(1);
}

}  // namespace emulator

extern "C" void emu_sample(unsigned blocks, uint64_t accesses) {
    emulator::sampling.set(blocks, accesses);
}
