// SPDX-License-Identifier: Apache-2.0
#include "remote/cuda/server/objects.h"

namespace ckpt::remote::cuda {

void *Objects::real(Kind kind, u64 number) const {
  if (!fits(kind, number)) return nullptr;
  std::lock_guard lock(mutex_);
  auto found = all_.find(number);
  return found == all_.end() ? nullptr : found->second.real;
}

u64 Objects::number(u64 wanted, void *real, u64 owner, bool made, u64 context) {
  if (real == nullptr) return 0;
  std::lock_guard lock(mutex_);
  auto known = numbers_.find({kind_of(wanted), real});
  if (known != numbers_.end() && !made) return known->second;
  if (!all_.try_emplace(wanted, Object{real, owner, context}).second) return 0;
  numbers_[{kind_of(wanted), real}] = wanted;
  return wanted;
}

bool Objects::Object::ends_with(u64 number, Kind own_kind) const {
  bool of_context = own_kind == Kind::Function || own_kind == Kind::Module;
  return owner == number || (of_context && context == number);
}

std::vector<u64> Objects::end(u64 number) {
  std::lock_guard lock(mutex_);
  return end_locked({number});
}

std::vector<u64> Objects::end_owned_by(u64 number) {
  std::lock_guard lock(mutex_);
  std::vector<u64> owned;
  for (const auto &[other, o] : all_)
    if (o.ends_with(number, kind_of(other))) owned.push_back(other);
  return end_locked(std::move(owned));
}

std::vector<u64> Objects::end_locked(std::vector<u64> ended) {
  for (size_t i = 0; i < ended.size(); i++) {
    auto found = all_.find(ended[i]);
    if (found == all_.end()) continue;
    auto named = numbers_.find({kind_of(ended[i]), found->second.real});
    if (named != numbers_.end() && named->second == ended[i]) numbers_.erase(named);
    all_.erase(found);
    if (Kind kind = kind_of(ended[i]); kind == Kind::Stream || kind == Kind::Event) continue;
    for (const auto &[other, o] : all_)
      if (o.ends_with(ended[i], kind_of(other))) ended.push_back(other);
  }
  return ended;
}

std::vector<void *> Objects::all_of(Kind kind) const {
  std::lock_guard lock(mutex_);
  std::vector<void *> all;
  for (auto i = numbers_.lower_bound({kind, nullptr}); i != numbers_.end(); ++i) {
    if (i->first.first != kind) break;
    all.push_back(i->first.second);
  }
  return all;
}

size_t Objects::size() const {
  std::lock_guard lock(mutex_);
  return all_.size();
}

}  // namespace ckpt::remote::cuda
