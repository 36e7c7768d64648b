// The memory of the checkers: for every word that device code touches a cell, and for every byte whether it
// has been written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "check_stamp.h"

namespace emulator::checker {

// Cells and written bits of the memory from `base` on.
struct Shadow {
    char* base;
    Cell* cells;
    uint8_t* written;  // a bit for each byte

    Cell& cell(const char* address) const { return cells[(address - base) >> 2]; }
};

constexpr size_t kChunk = size_t{64} << 10;

// Global memory is shadowed in chunks of this size, each made when it is first asked for.
// The shadow of the chunk that holds the address, which lies in the heap or in a device variable.
const Shadow& global_shadow(const char* address);
// The same if something was remembered of it already, else null.
const Shadow* known_shadow(const char* address);

// A __shared__ variable, or the dynamic shared memory of a block.
struct SharedArray {
    char* begin;
    size_t size;
    size_t room;       // on either side, where nobody has any business
    std::string name;  // with its quotes
    Shadow shadow;

    char* end() const { return begin + size; }
};

// A block meets a shared variable: nothing of it has been written.
void enter_shared(char* begin, size_t size, size_t room, const char* name);
// The dynamic shared memory of the launches that follow.
void prepare_dynamic_shared(char* begin, size_t size);
void enter_dynamic_shared();
// The array that holds the address, or lies nearest to it if the address is in the room around it; or null.
const SharedArray* shared_at(const char* address);

// The array that begins next below the address, however far that is; or null.
const SharedArray* shared_below(const char* address);

// Whether no byte of the range has been written; and makes all of them written, or not.
bool nothing_written(const Shadow& shadow, const char* address, size_t size);
void mark_written(const Shadow& shadow, char* address, size_t size);
void mark_global(char* address, size_t size, bool written);
// The written bits of the source become those of the destination, both global memory.
void copy_written(char* to, const char* from, size_t size);
// All that exists counts as written from now on.
void forget_unwritten();

}  // namespace emulator::checker
