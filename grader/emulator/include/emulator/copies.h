// Copies of memory in device code are accesses like others: calls of these functions, also those that
// the compiler makes of a structure's assignment, go to runtime/hooks.cpp. Before any other header.
#pragma once

#ifdef __cplusplus
extern "C" {
void* memcpy(void*, const void*, decltype(sizeof 0)) noexcept __asm__("__emulator_copy");
void* memmove(void*, const void*, decltype(sizeof 0)) noexcept __asm__("__emulator_move");
void* memset(void*, int, decltype(sizeof 0)) noexcept __asm__("__emulator_fill");
}
#endif
