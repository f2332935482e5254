// SPDX-License-Identifier: Apache-2.0
//
// A kernel with all functions that it may call, decoded and linked. Functions are decoded once for
// each kernel, because the layout of shared memory depends on the kernel.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "common/base/result.h"
#include "softcuda/vm/image.h"
#include "softcuda/vm/op.h"

namespace ckpt::softcuda::vm {

class Kernel {
 public:
  // Errors name the first instruction that is not supported, and its line.
  static Result<std::unique_ptr<Kernel>> link(const Image &image, const Symbol &entry);

  const std::string &name() const { return entry_->name; }
  const Code &entry() const { return *entry_; }
  const ptx::Function &function() const { return *symbol_->function; }
  u32 static_shared() const { return static_shared_; }
  // Bytes of local memory that one thread needs if no function calls itself.
  u32 local_bytes() const;
  size_t parameter_bytes() const { return parameter_bytes_; }
  // The function behind a pointer, decoded on first use. Thread-safe.
  Result<Code *> at_address(u64 address) const;

  // The rest is for the decoder.
  const Image &image() const { return image_; }
  Code *code_of(const Symbol &function);
  Result<u32> shared_offset(const ptx::Variable &v);
  // The constant's value is the offset of the dynamic shared memory plus `addend`, which is known
  // when all functions are decoded.
  void patch_later(Code &code, size_t constant, u64 addend);

 private:
  Kernel(const Image &image, const Symbol &entry) : image_(image), symbol_(&entry) {}
  Result<> decode_all();
  void lay_out_parameters();

  struct Patch {
    Code *code;
    size_t constant;
    u64 addend;
  };
  const Image &image_;
  const Symbol *symbol_;
  Code *entry_ = nullptr;
  mutable std::mutex mutex_;  // guards what at_address() adds
  std::deque<Code> codes_;
  std::vector<const Symbol *> symbols_;  // of codes_, by index
  std::unordered_map<const Symbol *, Code *> by_symbol_;
  size_t decoded_ = 0;
  std::unordered_map<const ptx::Variable *, u32> shared_;
  std::vector<Patch> patches_;
  u32 static_shared_ = 0;
  u32 late_shared_ = 0;
  bool linked_ = false;
  size_t parameter_bytes_ = 0;
};

// Bytes of the parameters of a kernel in a launch.
u64 parameter_bytes(const ptx::Function &kernel);

}  // namespace ckpt::softcuda::vm
