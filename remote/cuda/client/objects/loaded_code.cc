// SPDX-License-Identifier: Apache-2.0
#include "remote/cuda/client/objects/loaded_code.h"

#include <unordered_map>

#include "common/base/fnv.h"
#include "fatbin/summary.h"
#include "remote/cuda/loadable.h"

namespace ckpt::remote::cuda {
namespace {

// `s`: of the code as it was loaded, so that its variables are those that the driver has placed.
std::string obstacle_in(const fatbin::Summary &s, const std::string &why_not_placed,
                        const std::string &taken_function) {
  if (s.heap.use != fatbin::HeapUse::No)
    return "its kernels use the device's heap, which only the driver can keep: " + s.heap.reason;
  for (const auto &[name, v] : s.variables)
    if (v.variable.space == fatbin::Space::Managed)
      return "it has the managed variable \"" + name + "\"";
  if (!s.variables.empty())
    return fmt::format(
        "the driver chooses the address of its variable \"{}\", and another driver chooses another "
        "one{}{}",
        s.variables.begin()->first, why_not_placed.empty() ? "" : ": ", why_not_placed);
  if (!taken_function.empty())
    return fmt::format(
        "a kernel takes the address of the function \"{}\", which is another one on another driver",
        taken_function);
  return {};
}

CodeNeeds read_needs(const fatbin::Summary &s) {
  CodeNeeds n;
  for (const auto &[name, k] : s.kernels) n.targets.insert(k.targets.begin(), k.targets.end());
  if (!s.kernels.empty()) n.kernel = s.kernels.begin()->first;
  return n;
}

}  // namespace

void LoadedCode::read() const {
  if (needs_) return;
  std::vector<const void *> pointers;
  for (const CodePart &p : parts_) pointers.push_back(p.bytes->data());
  Loadable code = make_loadable(form_, std::move(pointers));
  Result<fatbin::Image> image = fatbin::Image::in_memory(code.code);
  Result<fatbin::Summary> s = fail("");
  if (image) s = fatbin::summarize(*image, {.threads = 1});
  needs_ = s ? read_needs(*s) : CodeNeeds{};
  needs_->obstacle = s ? obstacle_in(*s, why_not_placed_, taken_function_)
                       : "its code cannot be read: " + (image ? s.error() : image.error()).what;
  if (!s) return;
  for (const auto &[name, k] : s->kernels)
    if (!k.differs) parameters_[name] = k.kernel.parameters;
}

const CodeNeeds &LoadedCode::needs() const {
  std::lock_guard lock(mutex_);
  read();
  return *needs_;
}

const std::vector<fatbin::Parameter> *LoadedCode::parameters_of(const std::string &kernel) const {
  std::lock_guard lock(mutex_);
  read();
  auto found = parameters_.find(kernel);
  return found == parameters_.end() ? nullptr : &found->second;
}

CodePart keep_part(ByteView bytes) {
  static std::mutex mutex;
  static auto *const kKept = new std::unordered_map<u64, std::weak_ptr<const Bytes>>;
  u64 number = fnv1a(text(bytes), fnv1a("part") ^ bytes.size());
  std::lock_guard lock(mutex);
  std::weak_ptr<const Bytes> &kept = (*kKept)[number];
  std::shared_ptr<const Bytes> all = kept.lock();
  if (!all) {
    auto copy = std::make_shared<Bytes>();
    copy->reserve(bytes.size() + 1);
    copy->assign(bytes.begin(), bytes.end());
    copy->push_back(std::byte{0});  // PTX is a text for its reader
    kept = all = std::move(copy);
  }
  return {number, all};
}

}  // namespace ckpt::remote::cuda
