#include "meter_buffers.h"

#include "memory.h"
#include "shared.h"

namespace emulator::meter {

// An array that was named inside an allocation is a buffer of its own.
static Buffer buffer_at(char* address) {
    if (const Allocation* allocation = heap.find(address)) {
        const bool inside = static_cast<size_t>(address - allocation->shown_begin) < allocation->shown_size;
        if (inside) return {allocation->shown_begin, allocation->shown_size, Space::global, allocation->name, {}, {}};
        return {allocation->begin, allocation->size, Space::global, allocation->name, {}, {}};
    }
    char* begin = nullptr;
    size_t size = 0;
    std::string name;
    if (find_shared(address, &begin, &size, &name)) return {begin, size, Space::shared, name, {}, {}};
    if (find_variable(address, &begin, &size, &name)) return {begin, size, Space::global, name, {}, {}};
    return {nullptr, 0, Space::none, "", {}, {}};
}

Buffer* Buffers::search(char* address) {
    for (Buffer& buffer : buffers_) {
        if (buffer.contains(address)) return last_ = &buffer;
    }
    Buffer found = buffer_at(address);
    if (found.space == Space::none) return nullptr;
    if (found.space == Space::global) {
        found.read.resize(found.sectors() + 1);
        found.written.resize(found.sectors() + 1);
    }
    buffers_.push_back(std::move(found));
    return last_ = &buffers_.back();
}

void Buffers::clear() {
    buffers_.clear();
    last_ = nullptr;
}

}  // namespace emulator::meter
