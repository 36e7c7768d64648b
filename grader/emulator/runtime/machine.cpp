#include "machine.h"

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "../include/emulator/control.h"
#include "early.h"

namespace emulator {

EMULATOR_EARLY Machine machine;

void Machine::set(const std::string& settings) {
    std::istringstream words(settings);
    for (std::string word; words >> word;) {
        const size_t at = word.find('=');
        if (at == std::string::npos) continue;
        const std::string key = word.substr(0, at);
        const uint64_t value = std::strtoull(word.c_str() + at + 1, nullptr, 10);
        const auto number = static_cast<unsigned>(value);
        if (key == "sms") sms = std::max(1u, number);
        if (key == "l1_bytes") l1_bytes = value;
        if (key == "l2_bytes") l2_bytes = value;
        if (key == "threads_per_sm") threads_per_sm = number;
        if (key == "max_blocks_per_sm") max_blocks_per_sm = number;
        if (key == "shared_per_sm") shared_per_sm = value;
        if (key == "reserved_shared") reserved_shared = value;
        if (key == "registers_per_sm") registers_per_sm = number;
        if (key == "access_limit") access_limit = value;
        if (key.rfind("registers:", 0) == 0) registers[key.substr(10)] = number;
    }
}

unsigned Machine::blocks_per_sm(unsigned threads, size_t shared, const std::string& kernel) const {
    const unsigned warps = (threads + 31) / 32;
    size_t blocks = std::min<size_t>(max_blocks_per_sm, threads_per_sm / (warps * 32));
    blocks = std::min(blocks, shared_per_sm / std::max<size_t>(1, reserved_shared + shared));
    const auto known = registers.find(kernel);
    if (known != registers.end() && known->second != 0) {
        const unsigned of_warp = (known->second * 32 + 255) / 256 * 256;  // handed out 256 at a time
        blocks = std::min<size_t>(blocks, registers_per_sm / of_warp / warps);
    }
    return static_cast<unsigned>(std::max<size_t>(1, blocks));
}

size_t Machine::l1_left(unsigned blocks, size_t shared) const {
    // The sizes that shared memory can be set to, in KB; the driver takes the least that holds the blocks.
    constexpr size_t kSizes[] = {0, 8, 16, 32, 64, 100, 132, 164, 196, 228};
    const size_t needed = blocks * (shared + reserved_shared);
    for (const size_t size : kSizes) {
        const size_t bytes = size << 10;
        if (bytes >= needed) return l1_bytes > bytes ? l1_bytes - bytes : 0;
    }
    return l1_bytes > needed ? l1_bytes - needed : 0;
}

}  // namespace emulator

extern "C" void emu_set_machine(const char* settings) { emulator::machine.set(settings); }
