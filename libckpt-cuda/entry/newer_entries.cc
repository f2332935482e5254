// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/entry/newer_entries.h"

#include <cstring>
#include <mutex>

#include "common/base/log.h"
#include "libckpt-cuda/entry/noted_blockers.h"
#include "libckpt-cuda/entry/pass.h"

// More than any release of CUDA has added. Stands in the assembly below, too.
#define NEWER_ENTRIES 256
#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

extern "C" {
__attribute__((visibility("hidden"))) void *newer_targets[NEWER_ENTRIES];
__attribute__((visibility("hidden"))) extern char newer_thunks[];
__attribute__((visibility("hidden"))) extern char first_newer_call[];
__attribute__((visibility("hidden"))) void *note_first_newer_call(unsigned place);
}

constexpr size_t kThunkBytes = 16;
asm(".pushsection .text\n"
    ".balign 16\n.hidden newer_thunks\n.globl newer_thunks\nnewer_thunks:\n"
    ".set newer_place, 0\n"
    ".rept " TEXT(NEWER_ENTRIES) "\n"
    "  endbr64\n"
    "  movl $newer_place, %r11d\n"
    "  jmp *newer_targets + 8 * newer_place(%rip)\n"
    "  .balign 16\n"
    "  .set newer_place, newer_place + 1\n"
    ".endr\n"
    ".hidden first_newer_call\n.globl first_newer_call\n"
    ".type first_newer_call, @function\nfirst_newer_call:\n"
    "  endbr64\n"
    "  pushq %rdi\n  pushq %rsi\n  pushq %rdx\n  pushq %rcx\n"
    "  pushq %r8\n  pushq %r9\n  pushq %rax\n  pushq %r10\n"
    "  subq $136, %rsp\n"  // eight vector registers, and 8 bytes that align the stack
    "  movups %xmm0, (%rsp)\n  movups %xmm1, 16(%rsp)\n"
    "  movups %xmm2, 32(%rsp)\n  movups %xmm3, 48(%rsp)\n"
    "  movups %xmm4, 64(%rsp)\n  movups %xmm5, 80(%rsp)\n"
    "  movups %xmm6, 96(%rsp)\n  movups %xmm7, 112(%rsp)\n"
    "  movl %r11d, %edi\n"
    "  call note_first_newer_call\n"
    "  movq %rax, %r11\n"
    "  movups (%rsp), %xmm0\n  movups 16(%rsp), %xmm1\n"
    "  movups 32(%rsp), %xmm2\n  movups 48(%rsp), %xmm3\n"
    "  movups 64(%rsp), %xmm4\n  movups 80(%rsp), %xmm5\n"
    "  movups 96(%rsp), %xmm6\n  movups 112(%rsp), %xmm7\n"
    "  addq $136, %rsp\n"
    "  popq %r10\n  popq %rax\n  popq %r9\n  popq %r8\n"
    "  popq %rcx\n  popq %rdx\n  popq %rsi\n  popq %rdi\n"
    "  jmp *%r11\n"
    ".size first_newer_call, . - first_newer_call\n"
    ".popsection\n");

namespace ckpt::cuda {
namespace {

struct NewerEntry {
  const char *name = nullptr;  // never freed
  void *real = nullptr;
};

std::mutex g_newer_mutex;
NewerEntry g_newer[NEWER_ENTRIES];
unsigned g_newer_count = 0;

CUresult newer_unavailable() { return CUDA_ERROR_DEVICE_UNAVAILABLE; }
CUresult newer_not_initialized() { return CUDA_ERROR_NOT_INITIALIZED; }

void set_newer_target(unsigned place, void *target) {
  __atomic_store_n(&newer_targets[place], target, __ATOMIC_RELEASE);
}

void *thunk(unsigned place) { return newer_thunks + place * kThunkBytes; }

}  // namespace

void *newer_entry(const char *name, void *real) {
  std::lock_guard lock(g_newer_mutex);
  for (unsigned i = 0; i < g_newer_count; i++)
    if (g_newer[i].real == real) return thunk(i);
  if (g_newer_count == NEWER_ENTRIES) {
    log::warn("the program cannot use {}: this CUDA driver is much newer than ckpt", name);
    return nullptr;
  }
  g_newer[g_newer_count] = {::strdup(name), real};
  set_newer_target(g_newer_count, first_newer_call);
  return thunk(g_newer_count++);
}

void lose_newer_entries() {
  std::lock_guard lock(g_newer_mutex);
  for (unsigned i = 0; i < g_newer_count; i++)
    set_newer_target(i, reinterpret_cast<void *>(&newer_unavailable));
}

void forget_newer_entries() {
  for (unsigned i = 0; i < NEWER_ENTRIES; i++)
    set_newer_target(i, reinterpret_cast<void *>(&newer_not_initialized));
}

}  // namespace ckpt::cuda

// Several threads may be in here for one entry.
void *note_first_newer_call(unsigned place) {
  using namespace ckpt::cuda;
  Pass pass;
  if (pass.refusal() != CUDA_SUCCESS) return reinterpret_cast<void *>(&newer_unavailable);
  note_newer_call(g_newer[place].name);
  set_newer_target(place, g_newer[place].real);
  return g_newer[place].real;
}
