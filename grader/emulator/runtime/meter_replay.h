// What the caches make of the requests. Blocks run one after another here, side by side on a device: so
// the requests are kept, and replayed as the blocks that are resident together would issue them.
#pragma once

#include <cstdint>
#include <vector>

#include "meter_buffers.h"
#include "meter_instruction.h"
#include "meter_record.h"
#include "meter_request.h"

namespace emulator::meter {

// The requests of a warp to global memory, and its block barriers.
using WarpTrace = std::vector<Request>;
constexpr Request kBarrier{nullptr, 0, 0, 0, 0, 0, true};  // of no lane

struct BlockTrace {
    uint64_t number;  // in the grid
    uint64_t weight;  // how many blocks it stands for
    std::vector<WarpTrace> warps;
};

// Counts hits, misses and traffic of L1, L2 and memory into `record`, and what is touched into `buffers`.
void replay(std::vector<BlockTrace>& traces, const Scattered& scattered, Instructions& instructions, Buffers& buffers,
            Record& record, size_t shared_of_block);

}  // namespace emulator::meter
