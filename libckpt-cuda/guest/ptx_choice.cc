// SPDX-License-Identifier: Apache-2.0
//
// The driver takes machine code for the device's own architecture where there is some, else it
// compiles PTX. PTX may differ from the machine code beside it (__CUDA_ARCH__), so it replaces the
// machine code only if both are for the same architecture.
#include "libckpt-cuda/guest/ptx_choice.h"

namespace ckpt::cuda::guest {
namespace {

using fatbin::Container;
using fatbin::Entry;
using fatbin::Kind;

Result<const Container *> only_container(const fatbin::Image &image) {
  const Container *loaded = nullptr;
  for (const Container &c : image.containers()) {
    if (c.role != fatbin::Role::Loaded || loaded != nullptr)
      return fail("it was linked from several translation units (-rdc=true)");
    loaded = &c;
  }
  if (loaded == nullptr) return fail("it holds no device code");
  return loaded;
}

// Code for sm_90a and sm_100f runs on that architecture, or family, alone.
bool is_specific(const Entry &e) {
  return e.flags & (fatbin::kFlagArchSpecific | fatbin::kFlagFamilySpecific);
}

// Machine code runs on later devices of the same major version, PTX on all later ones.
bool runs_on(const Entry &e, unsigned sm) {
  if (is_specific(e)) return e.arch == sm;
  return e.arch <= sm && (e.kind == Kind::Ptx || e.arch / 10 == sm / 10);
}

const Entry *best(const Container &c, Kind kind, unsigned sm) {
  const Entry *found = nullptr;
  for (const Entry &e : c.entries)
    if (e.kind == kind && runs_on(e, sm) && (found == nullptr || e.arch > found->arch)) found = &e;
  return found;
}

}  // namespace

Result<std::string> choose_ptx(const fatbin::Image &image, unsigned sm) {
  CKPT_TRY(const Container *container, only_container(image));
  const Entry *ptx = best(*container, Kind::Ptx, sm);
  const Entry *machine = best(*container, Kind::Elf, sm);
  if (ptx == nullptr) return fail("it holds no PTX for sm_{}", sm);
  if (machine != nullptr && machine->arch != ptx->arch)
    return fail("its machine code for {} has no PTX of the same architecture", machine->target());
  if (ptx->options.find("maxrregcount") != std::string::npos)
    return fail("it was compiled with -maxrregcount");
  CKPT_TRY(fatbin::Payload payload, image.payload(*ptx));
  return std::string(payload.text());
}

}  // namespace ckpt::cuda::guest
