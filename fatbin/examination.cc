// SPDX-License-Identifier: Apache-2.0
//
// The problem
//
// Does a program use the device heap, the memory behind malloc() in kernels? The host cannot see
// that memory, so only the driver can save it, and ckptd runs such programs alone on a GPU. The
// answer must never be "no" by mistake, and a wrong "yes" keeps a program from sharing a GPU.
//
// A call leaves a trace: device code that calls malloc imports a function of that name. But a file
// has the same code many times over: as a cubin for each of several architectures, as PTX, and for
// -rdc=true once more as the translation units that were linked. Some of these versions contain
// functions that never reach the device. So which entries decide?
//
// An example
//
//   nvcc -rdc=true -arch=sm_75 caller.cu library.cu       caller.cu does not call allocate()
//
//   container 0   loaded   elf sm_75                        the linked program, without allocate()
//   container 1   unit     elf sm_75, ptx compute_75        caller.cu
//   container 2   unit     elf sm_75, ptx compute_75        library.cu: allocate() calls malloc
//
// The driver loads container 0, so the verdict is "no". Container 2 alone would say "yes".
//
// The rules
//
// 1. A unit decides only if the driver receives it: if there is no loaded container, since nothing
//    was linked yet, or if a loaded container is empty. The device linker leaves it empty if all
//    units are PTX, which the driver then links at run time.
// 2. PTX decides only if its container has no cubin for the same target. The driver prefers the
//    cubin, from which the compiler has removed unused functions. PTX for another target decides: a
//    newer GPU gets it.
// 3. An entry that decides and cannot be examined makes the verdict "assumed": LTO-IR, an unknown
//    kind, a damaged entry, one beyond a limit.
// 4. libcudadevrt.a is not part of the program: its units are recognised by a variable and ignored.
//
// "Yes" goes before "assumed", "assumed" before "no", and the earliest entry gives the reason. The
// result therefore does not depend on the order in which threads finish.
//
// The cost
//
// Each entry is decompressed at most once: 3.2 GB/s of decompressed code on two cores for
// libcublasLt.so.13. What a program compiles or loads at run time is not in its file;
// libckpt-cuda examines that when it is loaded.
//
// Source: the output of nvcc 13.0, which tests/system/test_fatbin.py examines again for each rule.
#include "fatbin/examination.h"

#include <set>

namespace ckpt::fatbin {
namespace {

bool units_are_loaded(const Image &image) {
  bool any_linked = false;
  for (const Container &c : image.containers()) {
    if (c.role != Role::Loaded) continue;
    if (c.entries.empty()) return true;
    any_linked = true;
  }
  return !any_linked;
}

// Of a unit that was linked, only the PTX reveals more than the linked cubin: its instructions.
Scope scope_before_linking(const Entry &e) {
  return e.kind == Kind::Ptx ? Scope::Instructions : Scope::Nothing;
}

// "90a" of sm_90a and of compute_90a.
std::pair<u32, u64> target_key(const Entry &e) {
  return {e.arch, e.flags & (kFlagArchSpecific | kFlagFamilySpecific)};
}

std::vector<Scope> scopes_in(const Container &c, bool before_linking) {
  std::set<std::pair<u32, u64>> cubins;
  for (const Entry &e : c.entries)
    if (e.kind == Kind::Elf) cubins.insert(target_key(e));
  std::vector<Scope> out;
  for (const Entry &e : c.entries) {
    bool has_cubin = e.kind != Kind::Elf && cubins.contains(target_key(e));
    out.push_back(before_linking ? scope_before_linking(e)
                  : has_cubin    ? Scope::AllButHeap
                                 : Scope::All);
  }
  return out;
}

}  // namespace

std::vector<std::vector<Scope>> scopes_of(const Image &image) {
  bool units_too = units_are_loaded(image);
  std::vector<std::vector<Scope>> out;
  for (const Container &c : image.containers())
    out.push_back(scopes_in(c, c.role == Role::Unit && !units_too));
  return out;
}

}  // namespace ckpt::fatbin
