#include "checker.h"

#include "../include/emulator/control.h"
#include "../include/emulator/operations.h"
#include "../include/emulator/shared.h"
#include "check_memory.h"
#include "check_order.h"
#include "check_race.h"
#include "check_shadow.h"
#include "check_streams.h"
#include "shared.h"

#undef __shared__

namespace emulator::checker {

void begin() {
    forget_unwritten();
    forget_order();
}

void access(const Access& access) {
    if (__builtin_expect(write_is_pending, 0)) settle_write();
    if (access.size != 0) check_access(access, *current);
}

void launch(const Grid& grid) {
    start_launch();
    order_launch(grid.stream, grid.site);
    prepare_dynamic_shared(__emulator_dynamic_shared(), grid.dynamic_shared);
}
void end_of_launch() {
    if (write_is_pending) settle_write();
    settle_looks();  // a fault may have ended the last block
}
void block() {
    start_block();
    enter_dynamic_shared();
    enter_global_shared();
}
void end_of_block() {
    if (write_is_pending) settle_write();
    settle_looks();
}
void end_of_thread() {
    if (write_is_pending) settle_write();
}
void barrier() {
    if (write_is_pending) settle_write();
    settle_looks();
    pass_barrier();
}
void warp_operation(const Warp& warp, uint32_t lanes, int, bool ordered) {
    if (write_is_pending) settle_write();
    if (ordered) synchronise_warp(warp.threads[0].warp, lanes);
}
void fence(int scope) {
    if (write_is_pending) settle_write();
    pass_fence(*current, scope);
}

void copied_by_device(char* to, const char* from, size_t size) {
    if (heap.contains(to) && heap.contains(from)) copy_written(to, from, size);
}

void allocated(const Allocation& allocation) {
    // Managed memory may be written by host code, of which nothing is told.
    if (!allocation.managed) mark_global(allocation.begin, allocation.size, false);
}

void copied(void* to, const void* from, size_t size, const void* stream, const Site& site) {
    auto* target = static_cast<char*>(to);
    auto* source = static_cast<char*>(const_cast<void*>(from));
    if (heap.contains(source)) order_transfer(stream, site, source, size, false);
    if (!heap.contains(target)) return;
    order_transfer(stream, site, target, size, true);
    mark_global(target, size, true);
    if (heap.contains(source)) copy_written(target, source, size);
}

void filled(void* to, size_t size, const void* stream, const Site& site) {
    if (!heap.contains(to)) return;
    order_transfer(stream, site, static_cast<char*>(to), size, true);
    mark_global(static_cast<char*>(to), size, true);
}

}  // namespace emulator::checker

extern "C" void emu_uninitialised(void* begin, size_t size) {
    if ((emulator::watchers & emulator::kChecks) != 0) {
        emulator::checker::mark_global(static_cast<char*>(begin), size, false);
    }
}
