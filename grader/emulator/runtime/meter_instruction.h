// The instructions of a launch that access memory, and what is counted of each.
#pragma once

#include <cstdint>
#include <deque>
#include <unordered_map>
#include <vector>

#include "meter_buffers.h"
#include "meter_record.h"
#include "meter_request.h"

namespace emulator::meter {

// What a request costs.
struct Cost {
    uint32_t sectors;  // of global memory; waves of shared memory
    uint32_t ideal;
    uint32_t turns;    // of an atomic: the most lanes on one address
    uint32_t lines;    // of 128 bytes of global memory
};

struct Instruction {
    uint32_t number;
    const void* address;  // of the code behind the access
    What what;
    Space space;
    Buffer* buffer;  // met last
    std::vector<std::pair<Buffer*, LineCounts>> lines;
    // The last request and its cost: the next one often looks the same.
    Request like{};
    Cost cost{};
};

class Instructions {
public:
    // Null if the address is of no interest.
    Instruction* find(const void* code, What what, char* address, Buffers& buffers) {
        const auto key = reinterpret_cast<uintptr_t>(code) << 2 | static_cast<uintptr_t>(what);
        Slot& slot = slots_[(key ^ key >> 12) % kSlots];
        if (slot.key == key && static_cast<size_t>(address - slot.begin) < slot.size) return slot.instruction;
        return search(key, slot, code, what, address, buffers);
    }
    Instruction& operator[](uint32_t number) { return instructions_[number]; }
    std::deque<Instruction>& all() { return instructions_; }
    void clear();

private:
    static constexpr size_t kSlots = 1024;
    // Where an instruction went last.
    struct Slot {
        uintptr_t key;
        char* begin;
        size_t size;
        Instruction* instruction;
    };

    Instruction* search(uintptr_t key, Slot& slot, const void* code, What what, char* address, Buffers& buffers);

    Slot slots_[kSlots] = {};
    std::deque<Instruction> instructions_;
    std::unordered_map<uintptr_t, Instruction*> by_key_[2];  // of global memory, of shared memory
};

}  // namespace emulator::meter
