// SPDX-License-Identifier: Apache-2.0
#include "remote/cuda/server/code_parts.h"

#include <algorithm>

#include "remote/cuda/protocol.h"

namespace ckpt::remote::cuda {
namespace {

constexpr u64 kMostCodeBytes = 4ull << 30;  // of all parts, if the user has no limit
constexpr u64 kPartBytes = 256;             // what a part takes besides its code
// An honest program stops when it cannot load its code.
constexpr u64 kMostRefused = 128u << 20;

bool is_sound(fatbin::Form form, ByteView bytes) {
  Result<fatbin::Image> image = fatbin::Image::from_bytes(bytes);
  if (!image) return false;
  if (form == fatbin::Form::Ptx || form == fatbin::Form::Cubin) return image->form() == form;
  return image->form() == fatbin::Form::FatBinary && image->containers().size() == 1 &&
         image->containers()[0].at == 0;
}

}  // namespace

Result<> CodeParts::add(u64 number, ByteView bytes) {
  std::lock_guard lock(mutex_);
  if (bytes.size() > kMaxCodeBytes || parts_.contains(number))
    return fail("the program sent a malformed part of device code");
  u64 all = bytes.size() + kPartBytes;
  if (bytes_ + all > kMostCodeBytes || !ask_(static_cast<i64>(all))) {
    refused_ += all;
    return refused_ > kMostRefused ? Result<>(fail("the program sent too much device code"))
                                   : Result<>();
  }
  bytes_ += all;
  Bytes &part = parts_[number];
  part.reserve(bytes.size() + 1);
  part.assign(bytes.begin(), bytes.end());
  part.push_back(std::byte{0});  // PTX is a text for the driver
  return {};
}

bool CodeParts::is_short() const {
  std::lock_guard lock(mutex_);
  return refused_ > 0;
}

void CodeParts::keep(Loadable code) {
  std::lock_guard lock(mutex_);
  loaded_.push_back(std::move(code));
}

const Bytes *CodeParts::part(u64 number) const {
  std::lock_guard lock(mutex_);
  auto found = parts_.find(number);
  return found == parts_.end() ? nullptr : &found->second;
}

// Objects and archives are checked by the driver, which is told their sizes. What the software
// device's linker returns as a cubin is PTX.
Result<ByteView> CodeParts::input(CUjitInputType type, u64 number) const {
  const Bytes *p = part(number);
  if (!p) return fail("the program names device code that it has not sent");
  ByteView all(*p), bytes = all.first(all.size() - 1);
  using fatbin::Form;
  if (type == CU_JIT_INPUT_PTX) return all;
  if (type == CU_JIT_INPUT_CUBIN && !is_sound(Form::Cubin, bytes))
    return is_sound(Form::Ptx, bytes) ? Result<ByteView>(all)
                                      : fail("the program sent a damaged cubin");
  if (type == CU_JIT_INPUT_FATBINARY && !is_sound(Form::FatBinary, bytes))
    return fail("the program sent a damaged fat binary");
  return bytes;
}

Result<Loadable> CodeParts::find(fatbin::Form form, std::span<const u64> numbers) const {
  std::vector<const void *> pointers;
  for (u64 number : numbers) {
    const Bytes *p = part(number);
    if (!p || !is_sound(form, ByteView(*p).first(p->size() - 1)))
      return fail("the program sent damaged device code");
    pointers.push_back(p->data());
  }
  if (pointers.empty()) return fail("the program sent no device code");
  return make_loadable(form, std::move(pointers));
}

}  // namespace ckpt::remote::cuda
