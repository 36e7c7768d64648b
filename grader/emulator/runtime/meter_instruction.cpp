#include "meter_instruction.h"

namespace emulator::meter {

Instruction* Instructions::search(uintptr_t key, Slot& slot, const void* code, What what, char* address, Buffers& buffers) {
    Buffer* buffer = buffers.find(address);
    if (buffer == nullptr) {
        slot = {key, address, 1, nullptr};
        return nullptr;
    }
    Instruction*& instruction = by_key_[buffer->space == Space::shared][key];
    if (instruction == nullptr) {
        const auto number = static_cast<uint32_t>(instructions_.size());
        instructions_.push_back({number, code, what, buffer->space, buffer, {}});
        instruction = &instructions_.back();
    }
    slot = {key, buffer->begin, buffer->size, instruction};
    return instruction;
}

void Instructions::clear() {
    for (Slot& slot : slots_) slot = {};
    instructions_.clear();
    by_key_[0].clear();
    by_key_[1].clear();
}

}  // namespace emulator::meter
