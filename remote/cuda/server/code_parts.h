// SPDX-License-Identifier: Apache-2.0
//
// Device code that the program has sent. It sends each part once (Op::Code), and names it whenever
// it loads it. The parts take memory of this node, which counts as device memory does.
#pragma once

#include <functional>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "common/base/result.h"
#include "remote/cuda/handles.h"
#include "remote/cuda/loadable.h"

namespace ckpt::remote::cuda {

class CodeParts {
 public:
  // As in DeviceMemory: for so many bytes more. False: the user's limit is reached.
  using Ask = std::function<bool(i64 change)>;
  explicit CodeParts(Ask ask) : ask_(std::move(ask)) {}

  // Fails if the program goes on sending what does not fit. What does not fit is not kept:
  // is_short() from then on.
  Result<> add(u64 number, ByteView bytes);
  bool is_short() const;
  // The code of these parts in the form that the driver reads. Its headers are checked, because the
  // driver knows no other end of it than what they say.
  Result<Loadable> find(fatbin::Form form, std::span<const u64> numbers) const;
  // A part as an input of the linker. Of a text, the NUL at its end belongs to it.
  Result<ByteView> input(CUjitInputType type, u64 number) const;
  // Code that was loaded: a driver may read its wrapper later.
  void keep(Loadable code);

 private:
  const Bytes *part(u64 number) const;

  Ask ask_;
  mutable std::mutex mutex_;
  u64 bytes_ = 0, refused_ = 0;
  std::unordered_map<u64, Bytes> parts_;  // never erased: a driver may read code later
  std::vector<Loadable> loaded_;
};

}  // namespace ckpt::remote::cuda
