// SPDX-License-Identifier: Apache-2.0
#include "softcuda/vm/image.h"

#include <algorithm>
#include <charconv>

#include "ptx/initializer.h"
#include "softcuda/vm/memory_view.h"

namespace ckpt::softcuda::vm {
namespace {

constexpr u64 kMaxImageBytes = 1ull << 40;

bool in_memory(const ptx::Variable &v) {
  return v.space == ptx::Space::Global || v.space == ptx::Space::Const;
}

bool defined(const Symbol &s) { return s.function ? s.function->defined : !s.variable->external; }

}  // namespace

u64 code_address(const Symbol &function) { return kCodeWindow + 16 * (u64{function.ordinal} + 1); }

Result<std::unique_ptr<Image>> Image::link(
    std::vector<std::unique_ptr<ptx::LoadedModule>> modules) {
  auto image = std::make_unique<Image>();
  image->modules_ = std::move(modules);
  CKPT_CHECK(image->collect());
  return image;
}

Result<> Image::collect() {
  local_.resize(modules_.size());
  for (u32 m = 0; m < modules_.size(); ++m) {
    for (const ptx::Variable &v : modules_[m]->variables) CKPT_CHECK(add_variable(m, v));
    for (const ptx::Function &f : modules_[m]->functions) {
      Symbol s;
      s.function = &f;
      add_symbol(m, f.name, s);
    }
    add_aliases(m);
  }
  return {};
}

void Image::add_symbol(u32 module, std::string_view name, Symbol s) {
  s.module = module;
  s.ordinal = static_cast<u32>(symbols_.size());
  symbols_.push_back(s);
  auto set = [&](Names &names) {
    auto [it, fresh] = names.try_emplace(name, s.ordinal);
    if (!fresh && !defined(symbols_[it->second])) it->second = s.ordinal;
  };
  set(local_[module]);
  if (defined(s)) set(global_);
}

Result<> Image::add_variable(u32 module, const ptx::Variable &v) {
  Symbol s;
  s.variable = &v;
  if (in_memory(v) && !v.external) {
    u64 &end = v.managed ? managed_bytes_ : bytes_;
    s.offset = (end + v.align - 1) & ~(u64{v.align} - 1);
    end = s.offset + v.bytes;
    if (end > kMaxImageBytes) return fail("the module's variables are too large");
  }
  add_symbol(module, v.name, s);
  return {};
}

void Image::add_aliases(u32 module) {
  for (auto [name, old] : modules_[module]->aliases)
    if (auto it = local_[module].find(old); it != local_[module].end()) {
      local_[module][name] = it->second;
      global_.try_emplace(name, it->second);
    }
}

const Symbol *Image::find(u32 module, std::string_view name) const {
  if (auto it = local_[module].find(name);
      it != local_[module].end() && defined(symbols_[it->second]))
    return &symbols_[it->second];
  if (const Symbol *s = find(name)) return s;
  auto it = local_[module].find(name);
  return it == local_[module].end() ? nullptr : &symbols_[it->second];
}

const Symbol *Image::find(std::string_view name) const {
  auto it = global_.find(name);
  return it == global_.end() ? nullptr : &symbols_[it->second];
}

const Symbol *Image::function_at(u32 ordinal) const {
  if (ordinal >= symbols_.size() || symbols_[ordinal].function == nullptr) return nullptr;
  const Symbol &s = symbols_[ordinal];
  return s.function->defined ? &s : nullptr;
}

u32 Image::architecture(u32 module) const {
  std::string_view target = modules_[module]->target;
  u32 n = 0;
  size_t digits = std::min(target.find_first_of("0123456789"), target.size());
  std::from_chars(target.data() + digits, target.data() + target.size(), n);
  return n;
}

std::vector<const Symbol *> Image::kernels() const {
  std::vector<const Symbol *> found;
  for (const Symbol &s : symbols_)
    if (s.function != nullptr && s.function->entry && s.function->defined &&
        find(s.function->name) == &s)
      found.push_back(&s);
  return found;
}

std::vector<const Symbol *> Image::variables() const {
  std::vector<const Symbol *> found;
  for (const Symbol &s : symbols_)
    if (s.variable != nullptr && in_memory(*s.variable) && !s.variable->external)
      found.push_back(&s);
  return found;
}

u64 Image::constant_bytes() const {
  u64 end = 0;
  for (const Symbol *s : variables())
    if (const ptx::Variable &v = *s->variable; v.space == ptx::Space::Const)
      end = ((end + v.align - 1) & ~(u64{v.align} - 1)) + v.bytes;
  return end;
}

Result<std::vector<std::byte>> Image::initial(bool managed) const {
  std::vector<std::byte> out(managed ? managed_bytes_ : bytes_);
  for (const Symbol *s : variables())
    if (s->variable->managed == managed) CKPT_CHECK(write(*s, out));
  return out;
}

Result<> Image::write(const Symbol &s, std::vector<std::byte> &out) const {
  auto address_of = [&](std::string_view name) -> std::optional<u64> {
    const Symbol *to = find(s.module, name);
    if (to == nullptr) return {};
    return to->function ? code_address(*to) : address(*to);
  };
  CKPT_TRY(Bytes value, ptx::initial_value(*s.variable, address_of));
  std::ranges::copy(value, out.begin() + static_cast<long>(s.offset));
  return {};
}

}  // namespace ckpt::softcuda::vm
