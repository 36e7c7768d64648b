#include "check_shadow.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "early.h"

namespace emulator::checker {
namespace {

// Zeroed, and backed by memory only where it is touched.
void* reserve(size_t size) {
    void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) std::abort();
    return memory;
}

using Number = uintptr_t;  // of a chunk

Number number_of(const char* address) { return reinterpret_cast<uintptr_t>(address) / kChunk; }

// Chunks by number; the ones met last are found without a search.
struct Chunks {
    static constexpr size_t kRecent = 1024;
    std::unordered_map<Number, Shadow> all;
    struct {
        Number number;
        const Shadow* shadow;
    } recent[kRecent];
};
EMULATOR_EARLY Chunks chunks;

Shadow new_chunk(Number number) {
    Shadow shadow{};
    shadow.base = reinterpret_cast<char*>(number * kChunk);
    auto* memory = static_cast<char*>(reserve(kChunk / 4 * sizeof(Cell) + kChunk / 8));
    shadow.cells = reinterpret_cast<Cell*>(memory);
    shadow.written = reinterpret_cast<uint8_t*>(memory + kChunk / 4 * sizeof(Cell));
    std::memset(shadow.written, 0xff, kChunk / 8);
    return shadow;
}

struct SharedArrays {
    std::map<const char*, std::unique_ptr<SharedArray>> by_begin;
    SharedArray dynamic;
    const SharedArray* last = nullptr;  // that was found
};
EMULATOR_EARLY SharedArrays shared;

void make_shadow(SharedArray& array) {
    array.shadow.base = array.begin;
    const size_t words = (array.size + 3) / 4;
    const size_t cells = words * sizeof(Cell);
    auto* memory = static_cast<char*>(reserve(cells + words + 8));
    array.shadow.cells = reinterpret_cast<Cell*>(memory);
    array.shadow.written = reinterpret_cast<uint8_t*>(memory + cells);
}

void nothing_is_written(const SharedArray& array) { std::memset(array.shadow.written, 0, array.size / 8 + 1); }

// Whether no other array lies in the room around this one, as the front end has promised.
bool has_room(const SharedArray& array) {
    auto after = shared.by_begin.upper_bound(array.begin);
    if (after != shared.by_begin.end() && after->first < array.end() + array.room) return false;
    auto at = shared.by_begin.find(array.begin);
    return at == shared.by_begin.begin() || std::prev(at)->second->end() + array.room <= array.begin;
}

const SharedArray* near(const char* address) {
    auto after = shared.by_begin.upper_bound(address);
    if (after != shared.by_begin.begin()) {
        const SharedArray& before = *std::prev(after)->second;
        if (address < before.end() + before.room) return &before;
    }
    if (after == shared.by_begin.end() || static_cast<size_t>(after->first - address) > after->second->room) {
        return nullptr;
    }
    return after->second.get();
}

}  // namespace

const Shadow& global_shadow(const char* address) {
    const Number number = number_of(address);
    auto& recent = chunks.recent[number % Chunks::kRecent];
    if (__builtin_expect(recent.number != number || recent.shadow == nullptr, 0)) {
        auto at = chunks.all.find(number);
        if (at == chunks.all.end()) at = chunks.all.emplace(number, new_chunk(number)).first;
        recent = {number, &at->second};
    }
    return *recent.shadow;
}

const Shadow* known_shadow(const char* address) {
    auto at = chunks.all.find(number_of(address));
    return at == chunks.all.end() ? nullptr : &at->second;
}

void enter_shared(char* begin, size_t size, size_t room, const char* name) {
    std::unique_ptr<SharedArray>& array = shared.by_begin[begin];
    if (array == nullptr || array->size != size) {
        shared.last = nullptr;
        array = std::make_unique<SharedArray>(SharedArray{begin, size, room, "`" + std::string(name) + "`", {}});
        make_shadow(*array);
        if (!has_room(*array)) array->room = 0;
    }
    nothing_is_written(*array);
}

void prepare_dynamic_shared(char* begin, size_t size) {
    constexpr size_t kMost = size_t{1} << 20;
    if (shared.dynamic.begin == nullptr) {
        shared.dynamic = {begin, kMost, 0, "dynamic shared memory", {}};
        make_shadow(shared.dynamic);
    }
    shared.dynamic.size = size;
}

void enter_dynamic_shared() {
    if (shared.dynamic.size != 0) nothing_is_written(shared.dynamic);
}

const SharedArray* shared_at(const char* address) {
    const SharedArray* last = shared.last;
    if (last != nullptr && static_cast<size_t>(address - last->begin) < last->size) return last;
    const SharedArray& dynamic = shared.dynamic;
    // Pages are accessible beyond its end; what is not is no business of the checkers.
    const bool in_dynamic = static_cast<size_t>(address - dynamic.begin) < (size_t{1} << 20);
    if (in_dynamic && dynamic.size != 0) return shared.last = &dynamic;
    const SharedArray* found = near(address);
    if (found != nullptr) shared.last = found;
    return found;
}

const SharedArray* shared_below(const char* address) {
    auto after = shared.by_begin.upper_bound(address);
    return after == shared.by_begin.begin() ? nullptr : std::prev(after)->second.get();
}

bool nothing_written(const Shadow& shadow, const char* address, size_t size) {
    for (size_t i = 0; i < size; ++i) {
        const auto offset = static_cast<size_t>(address + i - shadow.base);
        if ((shadow.written[offset >> 3] >> (offset & 7) & 1) != 0) return false;
    }
    return true;
}

// Sets or clears the bits of a range.
static void mark(const Shadow& shadow, const char* address, size_t size, bool written) {
    for (auto offset = static_cast<size_t>(address - shadow.base); size != 0;) {
        uint8_t& bits = shadow.written[offset >> 3];
        if ((offset & 7) == 0 && size >= 8) {
            std::memset(&bits, written ? 0xff : 0, size >> 3);
            offset += size & ~size_t{7};
            size &= 7;
        } else {
            const auto bit = static_cast<uint8_t>(1u << (offset & 7));
            bits = static_cast<uint8_t>(written ? bits | bit : bits & ~bit);
            ++offset;
            --size;
        }
    }
}

void mark_written(const Shadow& shadow, char* address, size_t size) { mark(shadow, address, size, true); }

void mark_global(char* address, size_t size, bool written) {
    while (size != 0) {
        const size_t here = std::min(size, kChunk - reinterpret_cast<uintptr_t>(address) % kChunk);
        if (written) {
            if (const Shadow* shadow = known_shadow(address)) mark_written(*shadow, address, here);
        } else {
            mark(global_shadow(address), address, here, false);
        }
        address += here;
        size -= here;
    }
}

void copy_written(char* to, const char* from, size_t size) {
    for (size_t i = 0; i < size; ++i) {
        const Shadow* source = known_shadow(from + i);
        const bool written = source == nullptr || !nothing_written(*source, from + i, 1);
        if (!written) mark(global_shadow(to + i), to + i, 1, false);
    }
}

void forget_unwritten() {
    for (auto& [number, shadow] : chunks.all) std::memset(shadow.written, 0xff, kChunk / 8);
}

}  // namespace emulator::checker
