// SPDX-License-Identifier: Apache-2.0
#include "softcuda/vm/kernel.h"

#include <algorithm>

#include "common/base/rounded_up.h"
#include "softcuda/vm/decoder.h"
#include "softcuda/vm/warp.h"

namespace ckpt::softcuda::vm {
namespace {

std::vector<Slot> parameter_slots(const ptx::Function &kernel) {
  std::vector<Slot> slots;
  ptx::Layout layout = ptx::layout_of(kernel.params);
  for (size_t i = 0; i < kernel.params.size(); ++i)
    slots.push_back(
        {static_cast<u32>(layout.offsets[i]), static_cast<u32>(kernel.params[i].bytes)});
  return slots;
}

}  // namespace

u64 parameter_bytes(const ptx::Function &kernel) { return ptx::layout_of(kernel.params).end; }

Result<std::unique_ptr<Kernel>> Kernel::link(const Image &image, const Symbol &entry) {
  std::unique_ptr<Kernel> kernel(new Kernel(image, entry));
  kernel->entry_ = kernel->code_of(entry);
  kernel->lay_out_parameters();
  CKPT_CHECK(kernel->decode_all());
  kernel->linked_ = true;
  u32 dynamic = static_cast<u32>(rounded_up(kernel->static_shared_, 16));
  for (const Patch &p : kernel->patches_) p.code->constants[p.constant].value = dynamic + p.addend;
  return kernel;
}

Code *Kernel::code_of(const Symbol &function) {
  auto [it, fresh] = by_symbol_.try_emplace(&function, nullptr);
  if (fresh) {
    it->second = &codes_.emplace_back();
    it->second->index = static_cast<u32>(codes_.size() - 1);
    it->second->name = function.function->name;
    it->second->entry = function.function->entry;
    symbols_.push_back(&function);
  }
  return it->second;
}

Result<> Kernel::decode_all() {
  for (; decoded_ < codes_.size(); ++decoded_)
    CKPT_CHECK(decode(*this, *symbols_[decoded_], codes_[decoded_]));
  return {};
}

void Kernel::lay_out_parameters() {
  entry_->params = parameter_slots(function());
  parameter_bytes_ = vm::parameter_bytes(function());
}

u32 Kernel::local_bytes() const {
  u64 sum = 0;
  for (const Code &c : codes_) sum += c.local_bytes;
  return static_cast<u32>(std::min<u64>(sum, 1u << 30));
}

Result<u32> Kernel::shared_offset(const ptx::Variable &v) {
  auto [it, fresh] = shared_.try_emplace(&v, 0);
  if (!fresh) return it->second;
  u32 &end = linked_ ? late_shared_ : static_shared_;
  u64 at = rounded_up(end, v.align);
  if (at + v.bytes > (linked_ ? kSharedBytes - kLateShared : kLateShared))
    return fail("{}: its shared variables are too large", name());
  end = static_cast<u32>(at + v.bytes);
  return it->second = static_cast<u32>(at) + (linked_ ? kLateShared : 0);
}

void Kernel::patch_later(Code &code, size_t constant, u64 addend) {
  if (linked_)
    code.constants[constant].value = rounded_up(static_shared_, 16) + addend;
  else
    patches_.push_back({&code, constant, addend});
}

Result<Code *> Kernel::at_address(u64 address) const {
  u64 ordinal = (address - kCodeWindow) / 16 - 1;
  const Symbol *s = ordinal < ~0u ? image_.function_at(static_cast<u32>(ordinal)) : nullptr;
  if (s == nullptr || address % 16 != 0 || s->function->entry)
    return fail("a call through the pointer {:#x}, which is not the address of a function",
                address);
  std::lock_guard lock(mutex_);
  // Adding a function does not change those that other threads use.
  Kernel &self = const_cast<Kernel &>(*this);
  Code *code = self.code_of(*s);
  CKPT_CHECK(self.decode_all());
  return code;
}

}  // namespace ckpt::softcuda::vm
