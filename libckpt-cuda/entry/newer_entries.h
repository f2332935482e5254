// SPDX-License-Identifier: Apache-2.0
//
// Entries, and forms of entries, of a driver that is newer than cuda/entries.api.
//
// The problem. A runtime that is newer than this library asks the driver for entries that we do not
// know (23 above CUDA 13.0 for the runtime of 13.5), and calls few of them. We do not know what
// they do, so a process that has called one cannot be checkpointed. If we did not provide them, the
// runtime or the program might not work at all.
//
// How it works. The program is given a thunk for each. It jumps to the driver's entry and passes
// all arguments on, as in entries.h. Its first call notes the name, and the preflight of a
// checkpoint refuses the process by that name (lifecycle/blockers.h). The first call waits at the
// gate, so that it is noted before a checkpoint or begins after it:
//
//   thunk 7:       endbr64                   newer_targets[7]: first_newer_call, later the driver's
//                  mov  $7, %r11d                              entry
//                  jmp  *newer_targets[7]
//   first_newer_call:  saves all registers with arguments; newer_targets[7] = note_first_call(7);
//                      restores them; jumps there
//
// Cost. One move and one jump a call.
//
// Source. System V ABI for x86-64, section 3.2.1: r11 is free between functions, and arguments are
// in rdi, rsi, rdx, rcx, r8, r9, xmm0 to xmm7 and on the stack.
#pragma once

namespace ckpt::cuda {

// The thunk for the driver's entry `real`. Null: there are no more thunks.
void *newer_entry(const char *name, void *real);
// From now on all of them fail.
void lose_newer_entries();
// In a forked child: from now on all of them return CUDA_ERROR_NOT_INITIALIZED. Takes no lock.
void forget_newer_entries();

}  // namespace ckpt::cuda
