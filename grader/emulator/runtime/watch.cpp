#include "watch.h"

#include "../include/emulator/control.h"
#include "checker.h"
#include "meter.h"

namespace emulator {

unsigned watchers = 0;

namespace {

bool checking() { return (watchers & kChecks) != 0; }
bool counting() { return (watchers & kCounts) != 0; }

}  // namespace

void watch_access(const Access& access) {
    if (checking()) checker::access(access);
    if (counting()) meter::access(access);
}
void watch_launch(const Grid& grid) {
    if (checking()) checker::launch(grid);
    if (counting()) meter::launch(grid);
}
void watch_end_of_launch() {
    if (checking()) checker::end_of_launch();
    if (counting()) meter::end_of_launch();
}
void watch_block() {
    if (checking()) checker::block();
    if (counting()) meter::block();
}
void watch_end_of_block() {
    if (checking()) checker::end_of_block();
    if (counting()) meter::end_of_block();
}
void watch_end_of_thread() {
    if (checking()) checker::end_of_thread();
    if (counting()) meter::end_of_thread();
}
void watch_barrier() {
    if (checking()) checker::barrier();
    if (counting()) meter::barrier();
}
void watch_warp_operation(const Warp& warp, uint32_t lanes, int operation, bool ordered) {
    if (checking()) checker::warp_operation(warp, lanes, operation, ordered);
    if (counting()) meter::warp_operation(warp, lanes, operation, ordered);
}
void watch_fence(int scope) {
    if (checking()) checker::fence(scope);
    if (counting()) meter::fence(scope);
}
void watch_memory_call(const char* call, const void* to, const void* from, size_t bytes) {
    if (counting()) meter::memory_call(call, to, from, bytes);
}

void watch_copy(char* to, const char* from, size_t size) {
    if (checking()) checker::copied_by_device(to, from, size);
}

}  // namespace emulator

extern "C" void emu_watch(unsigned who) {
    if (!emulator::checking() && (who & emulator::kChecks) != 0) emulator::checker::begin();
    emulator::watchers = who;
}
