// SPDX-License-Identifier: Apache-2.0
//
// PTX modules linked together: one for an ordinary program, one for each translation unit with
// -rdc=true. The image lays out all variables; the driver that loads it chooses the base address.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "softcuda/ptx/loaded_module.h"

namespace ckpt::softcuda::vm {

struct Symbol {
  // One of the two.
  const ptx::Variable *variable = nullptr;
  const ptx::Function *function = nullptr;
  u32 module = 0;
  u32 ordinal = 0;  // unique in the image
  u64 offset = 0;   // of a global or constant variable, from the image's base
};

class Image {
 public:
  // Links the modules. A definition takes precedence over declarations of the same name.
  static Result<std::unique_ptr<Image>> link(
      std::vector<std::unique_ptr<ptx::LoadedModule>> modules);

  // A name as a module sees it: its own symbols first. nullptr: unknown.
  const Symbol *find(u32 module, std::string_view name) const;
  // A name as the program on the host sees it.
  const Symbol *find(std::string_view name) const;
  const Symbol *function_at(u32 ordinal) const;
  std::vector<const Symbol *> kernels() const;
  std::vector<const Symbol *> variables() const;

  // The compute capability that a module was compiled for, times ten.
  u32 architecture(u32 module) const;

  // Total bytes of the global and constant variables, and of the managed ones.
  u64 bytes() const { return bytes_; }
  u64 managed_bytes() const { return managed_bytes_; }
  // Of all constant variables, in a space of their own as on hardware.
  u64 constant_bytes() const;
  // Sets the base addresses. initial() needs them, because variables may hold addresses.
  void place(u64 base, u64 managed_base) {
    base_ = base;
    managed_base_ = managed_base;
  }
  u64 address(const Symbol &s) const {
    return (s.variable->managed ? managed_base_ : base_) + s.offset;
  }
  // The initial contents of all variables, or of the managed ones.
  Result<std::vector<std::byte>> initial(bool managed) const;

 private:
  Result<> collect();
  void add_symbol(u32 module, std::string_view name, Symbol s);
  Result<> add_variable(u32 module, const ptx::Variable &v);
  void add_aliases(u32 module);
  Result<> write(const Symbol &s, std::vector<std::byte> &out) const;

  using Names = std::unordered_map<std::string_view, u32>;  // into symbols_
  std::vector<std::unique_ptr<ptx::LoadedModule>> modules_;
  std::vector<Symbol> symbols_;
  std::vector<Names> local_;
  Names global_;
  u64 bytes_ = 0;
  u64 base_ = 0;
  u64 managed_bytes_ = 0;
  u64 managed_base_ = 0;
};

// The device address that stands for a function.
u64 code_address(const Symbol &function);

}  // namespace ckpt::softcuda::vm
