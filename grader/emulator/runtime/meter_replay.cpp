#include "meter_replay.h"

#include <algorithm>
#include <map>

#include "machine.h"
#include "meter_cache.h"
#include "sampling.h"

namespace emulator::meter {
namespace {

constexpr size_t kLineBytes = 128;
// Requests of a warp that L1 answers, one after another, before it is another warp's turn.
constexpr int kInARow = 16;

unsigned count(uint32_t sectors) { return static_cast<unsigned>(__builtin_popcount(sectors)); }

// L2 and memory, which all multiprocessors share.
class SharedMemories {
public:
    SharedMemories(size_t lines, Buffers& buffers, Counters& sum) : l2_(lines, Replacement::oldest), buffers_(buffers), sum_(sum) {}

    void read(const Line& line, uint64_t weight) {
        CacheLine& cached = line_of(line.number);
        const uint32_t missing = line.sectors & ~uint32_t{cached.sectors};
        sum_.l2_hit_sectors += weight * count(line.sectors & cached.sectors);
        if (missing != 0) fetch({line.number, missing}, weight);
        cached.sectors |= static_cast<uint8_t>(line.sectors);
    }

    // A part of a sector is kept with a mask, and needs no read.
    void write(const Line& line, uint64_t weight) {
        CacheLine& cached = line_of(line.number);
        cached.sectors |= static_cast<uint8_t>(line.sectors);
        cached.dirty |= static_cast<uint8_t>(line.sectors);
        cached.weight = static_cast<uint32_t>(weight);
        mark_written(line, weight);
    }

    // What is dirty at the end.
    void finish() {
        for (const CacheLine& line : l2_.lines()) {
            if (line.dirty == 0) continue;
            if (Buffer* buffer = buffer_of(line.number)) buffer->dirty_sectors += uint64_t{line.weight} * count(line.dirty);
        }
    }

private:
    Buffer* buffer_of(uint64_t line) { return buffers_.find(reinterpret_cast<char*>(line * kLineBytes)); }

    CacheLine& line_of(uint64_t number) {
        if (CacheLine* cached = l2_.find(number)) return *cached;
        CacheLine evicted;
        bool evicts = false;
        CacheLine* fresh = l2_.insert(number, &evicted, &evicts);
        if (evicts) sum_.dram_write_sectors += uint64_t{evicted.weight} * count(evicted.dirty);
        return *fresh;
    }

    // Runs f(buffer, index) for each of the sectors that lies in a buffer.
    template <class F>
    void for_each(const Line& line, const F& f) {
        for (uint32_t rest = line.sectors; rest != 0; rest &= rest - 1) {
            const uint64_t sector = line.number * 4 + static_cast<uint64_t>(__builtin_ctz(rest));
            Buffer* buffer = buffers_.find(reinterpret_cast<char*>(sector * 32));
            // An array that does not start with a sector starts inside one.
            if (buffer == nullptr) buffer = buffers_.find(reinterpret_cast<char*>(sector * 32 + 31));
            if (buffer != nullptr) f(*buffer, sector - reinterpret_cast<uintptr_t>(buffer->begin) / 32);
        }
    }

    // Sectors that were never touched are told apart from those that were and have left the cache: what
    // is first touched may be there from an earlier launch, and no buffer has more of it than sectors.
    void fetch(const Line& line, uint64_t weight) {
        for_each(line, [&](Buffer& buffer, uint64_t sector) {
            if (buffer.read[sector] || buffer.written[sector]) {
                sum_.dram_read_sectors += weight;
            } else {
                buffer.read_sectors += weight;
            }
            buffer.read[sector] = true;
        });
    }

    void mark_written(const Line& line, uint64_t weight) {
        for_each(line, [&](Buffer& buffer, uint64_t sector) {
            if (!buffer.written[sector]) buffer.written_sectors += weight;
            buffer.written[sector] = true;
        });
    }

    Cache l2_;
    Buffers& buffers_;
    Counters& sum_;
};

// A block on a multiprocessor, and how far its warps have come.
struct Resident {
    const BlockTrace* trace;
    std::vector<size_t> next;  // request of each warp
    std::vector<bool> waits;   // at a block barrier
    size_t waiting = 0;
    size_t running = 0;  // warps that are not done

    explicit Resident(const BlockTrace& block)
        : trace(&block), next(block.warps.size(), 0), waits(block.warps.size(), false) {
        for (const WarpTrace& warp : block.warps) running += !warp.empty();
    }

    // The next request of a warp; null if it has none or waits.
    const Request* step(size_t warp) {
        const WarpTrace& requests = trace->warps[warp];
        if (waits[warp] || next[warp] == requests.size()) return nullptr;
        const Request& request = requests[next[warp]++];
        const bool done = next[warp] == requests.size();
        if (request.lanes == 0) {
            waits[warp] = true;
            ++waiting;
        }
        if (done) finish(warp);
        release();
        return request.lanes == 0 ? nullptr : &request;
    }

private:
    void finish(size_t warp) {
        --running;
        if (waits[warp]) --waiting;
        waits[warp] = false;
    }
    void release() {
        if (waiting != running) return;
        waiting = 0;
        waits.assign(waits.size(), false);
    }
};

class Multiprocessor {
public:
    Multiprocessor(size_t l1_lines, size_t slots) : l1_(l1_lines, Replacement::mixed), slots_(slots) {}
    void give(const BlockTrace& block) { queue_.push_back(&block); }

    // The next request that it issues; null if there is none any more. A warp goes on as long as L1 has what
    // it asks for; when it has to wait, it is another one's turn.
    const Request* step(uint64_t* weight) {
        while (residents_.size() < slots_ && start_block()) {}
        while (!residents_.empty()) {
            if (missed_ || ++in_a_row_ >= kInARow) next_warp();
            Resident& resident = residents_[block_];
            *weight = resident.trace->weight;
            const Request* request = resident.step(warp_);
            missed_ = request == nullptr;
            if (resident.running == 0) end_block();
            if (request != nullptr) return request;
        }
        return nullptr;
    }

    void access(const Line& line, What what, uint64_t weight, SharedMemories& below, Counters& sum) {
        if (what == What::load) return load(line, weight, below, sum);
        if (what == What::store) return store(line, weight, below, sum);
        sum.l2_atomic_sectors += weight * count(line.sectors);  // done where L2 is
        below.read(line, weight);
        below.write(line, weight);
    }

private:
    void load(const Line& line, uint64_t weight, SharedMemories& below, Counters& sum) {
        CacheLine& cached = line_of(line.number);
        const uint32_t missing = line.sectors & ~uint32_t{cached.sectors};
        sum.l1_hit_sectors += weight * count(line.sectors & cached.sectors);
        if (missing == 0) return;
        missed_ = true;
        sum.l2_read_sectors += weight * count(missing);
        cached.sectors |= static_cast<uint8_t>(line.sectors);
        below.read({line.number, missing}, weight);
    }

    // Written through. The line takes its place in L1, but only what is read there counts as being there.
    void store(const Line& line, uint64_t weight, SharedMemories& below, Counters& sum) {
        line_of(line.number);
        sum.l2_write_sectors += weight * count(line.sectors);
        below.write(line, weight);
    }

    CacheLine& line_of(uint64_t number) {
        if (CacheLine* cached = l1_.find(number)) return *cached;
        CacheLine evicted;
        bool evicts = false;
        return *l1_.insert(number, &evicted, &evicts);
    }

    void next_warp() {
        missed_ = false;
        in_a_row_ = 0;
        if (++warp_ < residents_[block_].trace->warps.size()) return;
        warp_ = 0;
        block_ = (block_ + 1) % residents_.size();
    }

    // False if no block is left.
    bool start_block() {
        for (; given_ < queue_.size(); ++given_) {
            Resident resident(*queue_[given_]);
            if (resident.running != 0) residents_.push_back(std::move(resident));
            if (resident.running != 0) return ++given_, true;
        }
        return false;
    }

    // Another block takes the place of the one whose turn it is.
    void end_block() {
        const bool another = start_block();
        if (another) residents_[block_] = std::move(residents_.back());
        if (another) {
            residents_.pop_back();
        } else {
            residents_.erase(residents_.begin() + static_cast<ptrdiff_t>(block_));
            if (block_ >= residents_.size()) block_ = 0;
        }
        warp_ = 0;
        in_a_row_ = 0;
    }

    Cache l1_;
    size_t slots_;
    std::vector<const BlockTrace*> queue_;
    size_t given_ = 0;
    std::vector<Resident> residents_;
    size_t block_ = 0;
    size_t warp_ = 0;
    int in_a_row_ = 0;     // of this warp
    bool missed_ = false;  // its last request
};

}  // namespace

void replay(std::vector<BlockTrace>& traces, const Scattered& scattered, Instructions& instructions, Buffers& buffers,
            Record& record, size_t shared_of_block) {
    const size_t l1 = machine.l1_left(record.blocks_per_sm, shared_of_block);
    // Blocks that were not run would have taken their share of L2.
    const size_t l2 = machine.l2_bytes * sampling.sampled() / std::max<uint64_t>(1, sampling.occupied());
    SharedMemories memories(l2 / kLineBytes, buffers, record.counters);
    std::map<uint64_t, Multiprocessor> by_number;
    std::sort(traces.begin(), traces.end(), [](const BlockTrace& a, const BlockTrace& b) { return a.number < b.number; });
    for (const BlockTrace& trace : traces) {
        const uint64_t sm = trace.number % machine.sms;
        by_number.try_emplace(sm, l1 / kLineBytes, record.blocks_per_sm).first->second.give(trace);
    }
    std::vector<Multiprocessor*> running;
    for (auto& [number, multiprocessor] : by_number) running.push_back(&multiprocessor);
    while (!running.empty()) {
        size_t kept = 0;
        for (Multiprocessor* multiprocessor : running) {
            uint64_t weight = 1;
            const Request* request = multiprocessor->step(&weight);
            if (request == nullptr) continue;
            running[kept++] = multiprocessor;
            const What what = instructions[request->instruction].what;
            const Lines lines(Addresses(*request, scattered));
            for (int i = 0; i < lines.count; ++i) {
                multiprocessor->access(lines.at[i], what, weight, memories, record.counters);
            }
        }
        running.resize(kept);
    }
    memories.finish();
}

}  // namespace emulator::meter
