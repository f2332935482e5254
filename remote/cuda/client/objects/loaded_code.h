// SPDX-License-Identifier: Apache-2.0
//
// Device code that the program has loaded, kept for a replay: its parts are copied once, however
// often they are loaded. And what it says of itself.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/base/bytes.h"
#include "fatbin/facts.h"
#include "fatbin/image.h"

namespace ckpt::remote::cuda {

// A container of a fat binary, a cubin, or a text of PTX that ends with 0.
struct CodePart {
  u64 number = 0;  // its hash
  std::shared_ptr<const Bytes> bytes;
};

// What a move depends on.
struct CodeNeeds {
  std::set<std::string> targets;  // of its kernels: "sm_90a", "compute_90"
  std::string kernel;             // the name of one; empty: there is none
  std::string obstacle;           // why it cannot be moved at all; empty: it can
};

class LoadedCode {
 public:
  // `why_not_placed`: why the driver places variables of this code, if it does. `taken_function`: a
  // function of which a kernel takes the address; "" if there is none.
  LoadedCode(fatbin::Form form, std::vector<CodePart> parts, std::string why_not_placed,
             std::string taken_function)
      : form_(form),
        parts_(std::move(parts)),
        why_not_placed_(std::move(why_not_placed)),
        taken_function_(std::move(taken_function)) {}

  fatbin::Form form() const { return form_; }
  const std::vector<CodePart> &parts() const { return parts_; }
  const std::string &why_not_placed() const { return why_not_placed_; }
  // Read from the code the first time, which may take most of a second for large libraries.
  const CodeNeeds &needs() const;
  // Of the kernel, as the code declares them; null: the code cannot be read, or its versions
  // differ.
  const std::vector<fatbin::Parameter> *parameters_of(const std::string &kernel) const;

 private:
  fatbin::Form form_;
  std::vector<CodePart> parts_;
  std::string why_not_placed_, taken_function_;
  void read() const;  // with mutex_ held

  mutable std::mutex mutex_;
  mutable std::optional<CodeNeeds> needs_;
  mutable std::map<std::string, std::vector<fatbin::Parameter>> parameters_;  // filled with needs_
};

// The bytes as a part; a copy that exists already is used again.
CodePart keep_part(ByteView bytes);

}  // namespace ckpt::remote::cuda
