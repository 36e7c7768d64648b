#include "check_order.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <unordered_map>
#include <vector>

#include "early.h"

namespace emulator::checker {

Now now;
WarpClock* warp_clocks = nullptr;
bool anything_learnt = false;

namespace {

using Row = std::array<uint16_t, kWarpSize>;

// What a fence and the barriers before it published: all accesses of the block before `interval`, and in
// `interval` those up to an epoch for each thread.
struct Published {
    uint32_t block = 0;  // first interval of the block
    uint32_t interval = 0;
    bool device = false;  // to other blocks, too
    std::vector<uint16_t> epochs;
    std::vector<std::shared_ptr<const Published>> learnt;  // what the block itself had been told

    bool covers(Stamp access) const {
        if (access.interval() < block || access.interval() > interval) return false;
        return access.interval() < interval || access.epoch() <= epochs[access.thread()];
    }
};
using Publication = std::shared_ptr<const Published>;

// The last fence of a thread: when, and what it knew of its warp.
struct Fence {
    uint32_t interval = 0;
    Row known{};
    Publication published;  // what the thread published last,
    uint64_t version = 0;   // and when
};

// Fences of one reach: those of a block only, or of the device.
struct Fences {
    std::vector<Fence> of_thread;
    uint32_t last = 0;         // interval in which somebody passed one
    uint32_t before_last = 0;  // and the one before `last`
};

// Something the running block was told: by one thread at first, by all after the next barrier.
struct Learnt {
    Publication what;
    uint32_t interval;
    unsigned thread;
};

struct State {
    std::vector<WarpClock> clocks;
    std::vector<uint32_t> starts;  // first interval of each block of the launch,
    std::vector<uint64_t> blocks;  // and its number
    Fences reach_block;
    Fences reach_device;
    bool fenced = false;  // by a thread of the running block
    std::unordered_map<const char*, std::vector<Publication>> at_address;
    std::vector<Learnt> learnt;  // by the running block
    size_t last_learnt = 0;      // that answered a question
    uint64_t version = 0;        // grows when somebody may have more to publish
    size_t count = 0;            // of publications in this launch
};
EMULATOR_EARLY State state;

constexpr size_t kPublications = 1 << 16;  // in a launch; after that many, everything counts as published

void next_interval() {
    ++now.interval;
    ++state.version;
}

void fresh_clock(WarpClock& clock) {
    std::memset(clock.known, 0, sizeof clock.known);
    for (uint16_t& epoch : clock.epoch) epoch = 1;
    clock.moved = false;
}

void count_up(uint16_t& epoch) {
    if (epoch != 0xffff) ++epoch;  // from then on a lane seems to know more than it does: nothing is reported
}

unsigned rank(const Thread& thread) { return thread.warp * unsigned{kWarpSize} + thread.lane; }

void note_fence(Fences& fences, const Thread& thread) {
    fences.of_thread.resize(block.threads.size());
    const WarpClock& clock = warp_clocks[thread.warp];
    Fence& fence = fences.of_thread[rank(thread)];
    fence.interval = now.interval;
    std::copy_n(clock.known[thread.lane], kWarpSize, fence.known.begin());
    fence.known[thread.lane] = clock.epoch[thread.lane];
    ++state.version;
    if (fences.last != now.interval) {
        fences.before_last = fences.last;
        fences.last = now.interval;
    }
}

void add_fence(std::vector<uint16_t>& epochs, unsigned thread, const Fence& fence) {
    const unsigned first = thread / kWarpSize * kWarpSize;
    for (unsigned lane = 0; lane < kWarpSize; ++lane) {
        epochs[first + lane] = std::max(epochs[first + lane], fence.known[lane]);
    }
}

// What `thread` publishes now: by its own fence, by fences of lanes that its warp synchronised with, or by
// fences before a barrier.
Publication new_publication(const Thread& thread, const Fences& fences, bool device) {
    const unsigned mine = rank(thread);
    const unsigned first = mine - thread.lane;
    auto published = std::make_shared<Published>();
    published->block = now.block;
    published->device = device;
    published->epochs.assign(block.threads.size(), 0);
    const WarpClock& clock = warp_clocks[thread.warp];
    bool here = false;
    for (unsigned lane = 0; lane < kWarpSize && fences.last == now.interval; ++lane) {
        const Fence& fence = fences.of_thread[first + lane];
        const bool seen = lane == thread.lane || clock.known[thread.lane][lane] >= fence.known[lane];
        if (fence.interval != now.interval || !seen) continue;
        add_fence(published->epochs, first + lane, fence);
        here = true;
    }
    published->interval = here || fences.last != now.interval ? fences.last : fences.before_last;
    if (published->interval < now.block) return nullptr;
    if (!here) {
        for (unsigned other = 0; other < fences.of_thread.size(); ++other) {
            const Fence& fence = fences.of_thread[other];
            if (fence.interval == published->interval) add_fence(published->epochs, other, fence);
        }
    }
    for (const Learnt& learnt : state.learnt) {
        if (learnt.interval < now.interval || learnt.thread == mine) published->learnt.push_back(learnt.what);
    }
    return published;
}

Publication published_by(const Thread& thread, Fences& fences, bool device) {
    if (fences.of_thread.empty()) return nullptr;
    Fence& mine = fences.of_thread[rank(thread)];
    if (mine.version != state.version) {
        mine.published = new_publication(thread, fences, device);
        mine.version = state.version;
    }
    return mine.published;
}

bool is_known(const Learnt& learnt, const Thread& thread) {
    if (learnt.interval < now.interval) return true;
    const unsigned lane = learnt.thread % kWarpSize;
    if (learnt.thread / kWarpSize != thread.warp) return false;
    return lane == thread.lane || warp_clocks[thread.warp].known[thread.lane][lane] != 0;
}

bool covers(const Published& published, Stamp access) {
    const bool same_block = published.block == now.block;
    if ((published.device || same_block) && published.covers(access)) return true;
    if (!published.device) return false;
    for (const Publication& earlier : published.learnt) {
        if (earlier->device && earlier->covers(access)) return true;
    }
    return false;
}

// Looks at the last few only: a thread that waits in a loop asks again and again.
bool has_learnt(const Thread& thread, const Publication& publication) {
    const size_t count = state.learnt.size();
    for (size_t i = count; i-- > 0 && count - i <= 8;) {
        const Learnt& learnt = state.learnt[i];
        const bool by_thread = learnt.thread == rank(thread) || learnt.interval < now.interval;
        if (by_thread && learnt.what == publication) return true;
    }
    return false;
}

}  // namespace

void start_launch() {
    next_interval();
    now.launch = now.block = now.interval;
    state.starts.clear();
    state.blocks.clear();
    state.at_address.clear();
    state.count = 0;
}

void start_block() {
    next_interval();
    now.block = now.interval;
    state.starts.push_back(now.interval);
    state.blocks.push_back((uint64_t{blockIdx.z} * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x);
    state.clocks.resize(block.warps.size());
    warp_clocks = state.clocks.data();
    for (WarpClock& clock : state.clocks) fresh_clock(clock);
    if (state.fenced) state.reach_block = state.reach_device = {};
    state.fenced = false;
    state.learnt.clear();
    state.last_learnt = 0;
    anything_learnt = false;
}

void pass_barrier() {
    next_interval();
    for (WarpClock& clock : state.clocks) {
        if (clock.moved) fresh_clock(clock);
    }
}

void synchronise_warp(int warp, uint32_t lanes) {
    WarpClock& clock = state.clocks[static_cast<size_t>(warp)];
    Row all{};
    for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
        const int lane = __builtin_ctz(rest);
        clock.known[lane][lane] = clock.epoch[lane];
        for (size_t i = 0; i < kWarpSize; ++i) all[i] = std::max(all[i], clock.known[lane][i]);
    }
    for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
        const int lane = __builtin_ctz(rest);
        std::copy(all.begin(), all.end(), clock.known[lane]);
        count_up(clock.epoch[lane]);
    }
    clock.moved = true;
    ++state.version;
}

void pass_fence(const Thread& thread, int scope) {
    WarpClock& clock = warp_clocks[thread.warp];
    state.fenced = true;
    note_fence(state.reach_block, thread);
    if (scope >= 2) note_fence(state.reach_device, thread);
    count_up(clock.epoch[thread.lane]);
    clock.moved = true;
}

bool has_fenced(const Thread& thread) {
    if (!state.fenced) return false;
    const auto& fences = state.reach_block.of_thread;
    return rank(thread) < fences.size() && fences[rank(thread)].interval >= now.block;
}

void publish(const Thread& thread, const char* address, bool replaces) {
    if (replaces) state.at_address.erase(address);
    if (!state.fenced) return;
    for (const bool device : {false, true}) {
        Publication published = published_by(thread, device ? state.reach_device : state.reach_block, device);
        if (published == nullptr) continue;
        std::vector<Publication>& here = state.at_address[address];
        const size_t count = here.size();
        const bool known = (count > 0 && here[count - 1] == published) || (count > 1 && here[count - 2] == published);
        if (known) continue;
        here.push_back(std::move(published));
        ++state.count;
    }
}

void learn(const Thread& thread, const char* address) {
    if (state.at_address.empty()) return;
    const auto at = state.at_address.find(address);
    if (at == state.at_address.end()) return;
    for (const Publication& publication : at->second) {
        const bool reaches = publication->device || publication->block == now.block;
        if (!reaches || has_learnt(thread, publication)) continue;
        state.learnt.push_back({publication, now.interval, rank(thread)});
        anything_learnt = true;
        ++state.version;
    }
}

bool was_published(const Thread& thread, Stamp access) {
    if (state.count > kPublications) return true;
    const size_t count = state.learnt.size();
    // The next access is often of the block that the last one was of, or of the one after it.
    for (size_t i = 0; i < count; ++i) {
        const size_t at = (state.last_learnt + i) % count;
        if (!is_known(state.learnt[at], thread) || !covers(*state.learnt[at].what, access)) continue;
        state.last_learnt = at;
        return true;
    }
    return false;
}

uint64_t block_of(uint32_t interval) {
    const auto after = std::upper_bound(state.starts.begin(), state.starts.end(), interval);
    return after == state.starts.begin() ? 0 : state.blocks[static_cast<size_t>(after - state.starts.begin()) - 1];
}

}  // namespace emulator::checker
