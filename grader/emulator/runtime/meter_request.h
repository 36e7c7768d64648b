// One request of a warp to memory: the addresses that its lanes give to one execution of one instruction.
#pragma once

#include <cstdint>
#include <vector>

namespace emulator::meter {

// Most requests are regular: each lane's address lies a fixed distance from its neighbour's, and no
// list of addresses has to be kept.
struct Request {
    char* address;    // of lane `first`
    int32_t stride;   // bytes from lane to lane; for a scattered one: where its addresses are kept
    uint32_t lanes;
    uint32_t instruction;    // the instruction
    uint8_t first;
    uint8_t size;     // bytes of a lane, at most 16
    bool regular;
};

// Addresses of the requests that are not regular, 32 each.
using Scattered = std::vector<char*>;

// The addresses of a request in the order of its lanes.
struct Addresses {
    char* of[32];
    uint8_t lane[32];
    int count;
    int size;

    Addresses(const Request& request, const Scattered& scattered);
};

// A 128-byte line of memory, and which of its four sectors are meant.
struct Line {
    uint64_t number;
    uint32_t sectors;
};

// The lines that a request touches, ascending.
struct Lines {
    Line at[64];
    int count = 0;

    explicit Lines(const Addresses& addresses);
    unsigned sectors() const;
};

// Sectors that would do if the bytes that are touched lay side by side.
unsigned ideal_sectors(const Addresses& addresses);
// The largest number of lanes that give the same address.
unsigned same_address(const Addresses& addresses);

// Passes over the 32 banks of shared memory that a request takes, and as many as it would take without
// conflicts. Lanes that want the same word share it.
struct Waves {
    unsigned taken;
    unsigned ideal;
};
Waves shared_waves(const Addresses& addresses);
// In atomics all lanes that want the same bank take turns.
unsigned atomic_waves(const Addresses& addresses);

}  // namespace emulator::meter
