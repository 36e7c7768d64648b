/* What a program around the emulator may set and ask. Plain C; not for students. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Order in which blocks, warps and lanes run: 0 ascending, 1 descending, any other a seed of shuffles. */
void emu_set_schedule(uint64_t seed);
/* Steps (iterations of loops, threads started, waits) before a program is ended; 0: no limit. Restarts the count. */
void emu_set_step_budget(uint64_t steps);
/* Steps taken since the budget was last set. */
uint64_t emu_steps(void);
/* Bytes of device memory; what cudaMemGetInfo calls total. */
void emu_set_device_memory(size_t bytes);
size_t emu_device_memory_used(void);
/* OS threads that run blocks. Kept for later: device code runs on one thread whatever is asked. */
void emu_set_workers(int workers);
/* Call the allocation that holds `device_pointer` by this name in messages. */
void emu_name(void* device_pointer, const char* name);
/* The same for an array that lies inside an allocation, between guards: messages count from its start and end. */
void emu_name_array(void* begin, size_t size, const char* name);
/* The first fault, as a sentence with file and line, and its kind; "" if there is none. Kinds: deadlock,
   divergent_barrier, shuffle, endless_loop, illegal_address, misaligned, stack_overflow, assert, launch, trap,
   api, unsupported. */
const char* emu_fault(void);
const char* emu_fault_kind(void);
/* Something doubtful that CUDA leaves undefined but that need not be wrong; "" if there is nothing. */
const char* emu_note(void);
/* Who watches device code from now on: 1 the checkers, 2 the counters, 3 both, 0 nobody. */
void emu_watch(unsigned who);
/* What the checkers have found since emu_clear_findings(), one a line, errors first, at most 64:
     severity TAB kind TAB file TAB line TAB count TAB sentence
   The severity is error, warning or advice; the line is 0 where it is not known. Faults are among them. */
const char* emu_findings(void);
void emu_clear_findings(void);
/* The program itself has filled this device memory, in a way that does not count as writing it: it is an output. */
void emu_uninitialised(void* begin, size_t size);
/* Around a call whose inputs are produced by work on a stream, and whose outputs are taken away by work on it:
   what the call launches must come between the two. For arrays named by emu_name_array. Calls that each leave
   memory behind are found by these as well. */
void emu_inputs_ready_on(void* stream);
void emu_outputs_taken_on(void* stream);
/* What was counted since emu_reset_counters() as JSON; "" if there was no launch. Valid until the next call. */
const char* emu_counters(void);
/* Start from nothing, with cold caches. */
void emu_reset_counters(void);
/* While counting, run only about so many blocks of a launch, or as many as make about so many accesses to memory.
   The others are not run, so results are wrong. 0 blocks: run all. */
void emu_sample(unsigned blocks, uint64_t accesses);
/* The machine whose caches and limits are counted with, as "sms=132 l2_bytes=52428800 registers:kernel=40 ...";
   the keys, and an H200's numbers for those that are not given, are in runtime/machine.h. */
void emu_set_machine(const char* values);
/* Device memory that holds zeros and takes memory of the host only where it is written; null if there is none. */
void* emu_allocate_zeros(size_t bytes);
/* Lay pieces of a file, each of `piece` bytes and from its own offset on, one after another into an allocation; whole
   pages, all of them. shared: what is written there is written to the file. 0 if that cannot be done. */
int emu_map(void* begin, size_t bytes, int file, const uint64_t* offsets, size_t piece, int shared);
/* Forget fault, note and sticky error, as a new process would. */
void emu_clear_fault(void);

#ifdef __cplusplus
}
#endif
