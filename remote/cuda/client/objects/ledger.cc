// SPDX-License-Identifier: Apache-2.0
#include "remote/cuda/client/objects/ledger.h"

#include <algorithm>

namespace ckpt::remote::cuda {
namespace {

template <class Map>
void forget_settings_of(Map &settings, u64 number) {
  std::erase_if(settings, [&](const auto &s) { return s.second.number == number; });
}

// Libraries and their kernels are of no context, and pools are of a device.
bool is_of_context(u64 number) {
  Kind kind = kind_of(number);
  return kind != Kind::Context && kind != Kind::Library && kind != Kind::Kernel &&
         kind != Kind::Pool;
}

std::vector<Ledger::Object> in_order(std::vector<Ledger::Object> all) {
  std::ranges::sort(all, {}, &Ledger::Object::when);
  return all;
}

}  // namespace

Ledger &ledger() {
  static Ledger *const kLedger = new Ledger;
  return *kLedger;
}

u64 Ledger::new_number(Kind kind) {
  std::lock_guard lock(mutex_);
  return make_number(kind, ++last_serial_);
}

void Ledger::add(u64 number, u64 owner, LedgerCall call, std::shared_ptr<const LoadedCode> code) {
  std::lock_guard lock(mutex_);
  auto [at, fresh] = objects_.try_emplace(number);
  if (fresh) at->second = {number, owner, ++last_when_, 1, std::move(call), std::move(code)};
}

void Ledger::set(u64 of, std::string key, LedgerCall call) {
  std::lock_guard lock(mutex_);
  settings_[std::move(key)] = {of, 0, ++last_when_, 1, std::move(call), {}};
}

std::vector<u64> Ledger::end_locked(std::vector<u64> numbers) {
  for (size_t i = 0; i < numbers.size(); i++) {
    u64 number = numbers[i];
    objects_.erase(number);
    devices_.erase(number);
    std::erase_if(primary_, [&](const auto &p) { return p.second == number; });
    // Nothing belongs to one of these, and programs make and end many.
    if (Kind kind = kind_of(number); kind == Kind::Stream || kind == Kind::Event) continue;
    forget_settings_of(settings_, number);
    for (const auto &[other, o] : objects_)
      if (o.owner == number) numbers.push_back(other);
  }
  return numbers;
}

std::vector<u64> Ledger::end(u64 number) {
  std::lock_guard lock(mutex_);
  return end_locked({number});
}

std::vector<u64> Ledger::end_all_of(u64 context) {
  std::lock_guard lock(mutex_);
  std::vector<u64> numbers;
  for (const auto &[number, o] : objects_)
    if (o.call.context == context && is_of_context(number)) numbers.push_back(number);
  forget_settings_of(settings_, context);
  return end_locked(std::move(numbers));
}

bool Ledger::lives(u64 number) const {
  std::lock_guard lock(mutex_);
  return objects_.contains(number);
}

bool Ledger::was_numbered(u64 number) const {
  std::lock_guard lock(mutex_);
  return number <= make_number(kind_of(number), last_serial_);
}

u64 Ledger::owner_of(u64 number) const {
  std::lock_guard lock(mutex_);
  auto found = objects_.find(number);
  return found == objects_.end() ? 0 : found->second.owner;
}

std::shared_ptr<const LoadedCode> Ledger::code_of(u64 number) const {
  std::lock_guard lock(mutex_);
  for (auto found = objects_.find(number); found != objects_.end();
       found = objects_.find(found->second.owner))
    if (found->second.code) return found->second.code;
  return nullptr;
}

std::optional<u64> Ledger::context_of(u64 number) const {
  std::lock_guard lock(mutex_);
  auto found = objects_.find(number);
  return found == objects_.end() ? std::nullopt : std::optional(found->second.call.context);
}

Site Ledger::site_of(u64 number) const {
  std::lock_guard lock(mutex_);
  auto found = objects_.find(number);
  return found == objects_.end() ? Site(0) : found->second.call.site();
}

void Ledger::set_device(u64 context, CUdevice device) {
  std::lock_guard lock(mutex_);
  devices_[context] = device;
}

std::optional<CUdevice> Ledger::device_of(u64 context) const {
  std::lock_guard lock(mutex_);
  auto found = devices_.find(context);
  return found == devices_.end() ? std::nullopt : std::optional(found->second);
}

bool Ledger::has_several_contexts() const {
  std::lock_guard lock(mutex_);
  return devices_.size() > 1;
}

u64 Ledger::primary_of(CUdevice device) const {
  std::lock_guard lock(mutex_);
  auto found = primary_.find(device);
  return found == primary_.end() ? 0 : found->second;
}

void Ledger::retain(u64 context, CUdevice device) {
  std::lock_guard lock(mutex_);
  auto found = objects_.find(context);
  if (found == objects_.end()) return;
  devices_[context] = device;
  bool used = std::exchange(primary_[device], context) == context;
  if (used) found->second.times++;
}

bool Ledger::release(u64 context) {
  std::lock_guard lock(mutex_);
  auto found = objects_.find(context);
  return found != objects_.end() && --found->second.times > 0;
}

bool Ledger::knows_shape(u64 shape, u64 function) const {
  std::lock_guard lock(mutex_);
  return shapes_.contains(shape) && objects_.contains(function);
}

void Ledger::add_shape(u64 shape) {
  std::lock_guard lock(mutex_);
  shapes_.insert(shape);
}

void Ledger::forget_shapes() {
  std::lock_guard lock(mutex_);
  shapes_.clear();
}

std::vector<Ledger::Object> Ledger::objects(Kind kind) const {
  std::lock_guard lock(mutex_);
  std::vector<Object> all;
  for (const auto &[number, o] : objects_)
    if (kind == Kind::None || kind_of(number) == kind) all.push_back(o);
  return in_order(std::move(all));
}

std::vector<Ledger::Object> Ledger::settings() const {
  std::lock_guard lock(mutex_);
  std::vector<Object> all;
  for (const auto &[key, s] : settings_) all.push_back(s);
  return in_order(std::move(all));
}

}  // namespace ckpt::remote::cuda
