#include "launch.h"

#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "../include/emulator/launch.h"
#include "early.h"
#include "error.h"
#include "fault.h"
#include "memory.h"
#include "meter.h"
#include "sampling.h"
#include "scheduler.h"
#include "shared.h"
#include "signals.h"
#include "steps.h"
#include "watch.h"

namespace emulator {
namespace {

struct Configuration {
    dim3 grid;
    dim3 block;
    size_t shared_bytes;
    void* stream;
    Site site;
    bool used;
};
// A stack: the arguments of a launch may launch another kernel.
EMULATOR_EARLY std::vector<Configuration> configurations;
// Held from `configure` to `launched`: host threads take turns.
EMULATOR_EARLY std::recursive_mutex turn;

EMULATOR_EARLY std::string name_of_kernel;
std::thread::id runner;  // of the kernel
Site site_of_launch;
size_t dynamic_shared_limit = kStaticSharedLimit;

std::string dimensions(const dim3& d) {
    return "(" + std::to_string(d.x) + "," + std::to_string(d.y) + "," + std::to_string(d.z) + ")";
}

// Why the device cannot run this launch, or "".
std::string invalid(const Configuration& launch) {
    const dim3& grid = launch.grid;
    const dim3& shape = launch.block;
    const uint64_t threads = uint64_t{shape.x} * shape.y * shape.z;
    if (threads == 0) return "the block " + dimensions(shape) + " has no threads";
    if (uint64_t{grid.x} * grid.y == 0 || grid.z == 0) return "the grid " + dimensions(grid) + " has no blocks";
    if (shape.x > 1024 || shape.y > 1024 || shape.z > 64 || threads > 1024) {
        return "the block " + dimensions(shape) + " has more threads than the 1024 (at most 64 in z) that are possible";
    }
    if (grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535) {
        return "the grid " + dimensions(grid) + " is larger than (2147483647,65535,65535)";
    }
    if (launch.shared_bytes > kSharedLimit) {
        return std::to_string(launch.shared_bytes) + " bytes of dynamic shared memory are more than a block can have (" +
               std::to_string(kSharedLimit) + ")";
    }
    if (launch.shared_bytes > dynamic_shared_limit) {
        return std::to_string(launch.shared_bytes) + " bytes of dynamic shared memory need"
               " cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) first";
    }
    return "";
}

// Names allocations after the parameters they are passed for; false if one is a host pointer.
bool check_pointers(const __emulator_pointer* pointers, int count) {
    for (int i = 0; i < count; ++i) {
        void* address = const_cast<void*>(pointers[i].__address);
        Allocation* allocation = heap.find(address);
        if (allocation != nullptr && allocation->name.empty()) allocation->name = pointers[i].__name;
        if (allocation == nullptr && !is_device_pointer(address)) {
            record(Kind::illegal_address, site_of_launch,
                   "launch of " + name_of_kernel + ": argument `" + pointers[i].__name +
                       "` is not a device pointer but memory of the host");
            return false;
        }
    }
    return true;
}

// The block to run in this position; false if there is none left. While all blocks are run, the schedule
// orders them.
bool choose_block(uint64_t position, uint64_t blocks, bool sampled, uint64_t* number) {
    if (sampled) return sampling.next(position, number);
    if (position < blocks) *number = schedule.block(position, blocks);
    return position < blocks;
}

void run_grid(const Configuration& launch, void (*entry)(const void*), const void* body) {
    const dim3& grid = launch.grid;
    const uint64_t blocks = uint64_t{grid.x} * grid.y * grid.z;
    const DeviceAccess access;
    runner = std::this_thread::get_id();
    schedule.restart();
    catch_signals();
    prepare_block(launch.block, entry, body);
    prepare_shared(launch.shared_bytes);
    blockDim = launch.block;
    gridDim = launch.grid;
    if (watchers != 0) watch_launch({launch.grid, launch.block, launch.shared_bytes, launch.site, launch.stream});
    const bool sampled = (watchers & kCounts) != 0 && sampling.on();
    sampling.start(blocks);
    uint64_t number = 0;
    for (uint64_t position = 0; choose_block(position, blocks, sampled, &number); ++position) {
        blockIdx = {static_cast<unsigned>(number % grid.x), static_cast<unsigned>(number / grid.x % grid.y),
                    static_cast<unsigned>(number / (uint64_t{grid.x} * grid.y))};
        if (!take_steps(block.size)) {
            record(Kind::endless_loop, launch.site,
                   "launch of " + name_of_kernel + ": the steps are spent after " + std::to_string(position) + " of " +
                       std::to_string(blocks) + " blocks");
            break;
        }
        start_shared();
        if (sampled) meter::set_weight(sampling.weight(position));
        if (watchers != 0) watch_block();
        run_block();
        if (block.abandoned) break;
        if (watchers != 0) watch_end_of_block();
        if (sampled && position == 0) sampling.learn(meter::accesses_of_block(), meter::resident_blocks());
    }
    if (sampled) meter::set_weight(1);
    if (watchers != 0) watch_end_of_launch();
    threadIdx = blockIdx = {0, 0, 0};
    blockDim = gridDim = {0, 0, 0};
}

}  // namespace

bool runs_kernel() { return current != nullptr && std::this_thread::get_id() == runner; }
Turn::Turn() { turn.lock(); }
Turn::~Turn() { turn.unlock(); }

std::string kernel_name() { return name_of_kernel; }
std::string launch_site() { return site_of_launch.text(); }
void allow_dynamic_shared(size_t bytes) {
    if (bytes > dynamic_shared_limit) dynamic_shared_limit = bytes;
}

}  // namespace emulator

using namespace emulator;

extern "C" void __emulator_configure(dim3 grid, dim3 shape, size_t shared_bytes, void* stream, int line,
                                     const char* file) {
    if (runs_kernel()) {
        fault(Kind::unsupported, Site{file, line},
              "a kernel launch inside a kernel (dynamic parallelism) is not supported: launch every kernel from the host");
    }
    turn.lock();
    configurations.push_back({grid, shape, shared_bytes, stream, Site{file, line}, false});
}

extern "C" void __emulator_launched(void) {
    const Configuration launch = configurations.back();
    configurations.pop_back();
    if (!launch.used) {
        record(Kind::unsupported, launch.site,
               "this launch reached no kernel: write __global__ itself in front of the kernel, not inside a macro");
    }
    turn.unlock();
}

extern "C" void __emulator_run(const char* name, const __emulator_pointer* pointers, int count,
                               void (*entry)(const void*), const void* body, size_t size) {
    if (current != nullptr) {
        fault(Kind::unsupported, Site{}, std::string("kernel ") + name + " was called by device code");
    }
    if (configurations.empty() || configurations.back().used) {
        record(Kind::launch, Site{}, std::string("kernel ") + name + " was called like a function, without <<<...>>>");
        return;
    }
    Configuration& launch = configurations.back();
    launch.used = true;
    if (sticky_error() != cudaSuccess) return;
    name_of_kernel = name;
    site_of_launch = launch.site;
    const std::string reason = invalid(launch);
    if (!reason.empty()) {
        record_error(Kind::launch, launch.site, "launch of " + name_of_kernel + " fails: " + reason);
        finish(cudaErrorInvalidConfiguration);
        return;
    }
    block.body_size = size;
    if (check_pointers(pointers, count)) run_grid(launch, entry, body);
}

extern "C" void __emulator_grid_sync(int line, const char* file) {
    fault(Kind::unsupported, Site{file, line},
          "grid.sync() over more than one block is not supported: end the kernel and launch another one");
}
