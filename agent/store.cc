// SPDX-License-Identifier: Apache-2.0
#include "agent/store.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "agent/session.h"

namespace ckpt {

using protocol::Type;

namespace {

constexpr u64 kPage = 4096;
// Of what is free now; the rest is for everybody else, and for what grows meanwhile.
constexpr u64 kOurShareInPercent = 90;

u64 available_memory() {
  FILE *in = std::fopen("/proc/meminfo", "re");
  if (!in) return 0;
  char line[128];
  unsigned long long kib = 0;
  while (std::fgets(line, sizeof line, in) &&
         std::sscanf(line, "MemAvailable: %llu kB", &kib) != 1) {
  }
  std::fclose(in);
  return kib * 1024;
}

u64 available_in(const std::string &folder) {
  struct statvfs disk {};
  return ::statvfs(folder.c_str(), &disk) == 0 ? disk.f_bavail * disk.f_frsize : 0;
}

u64 room_in(const std::string &folder) {
  return (folder.empty() ? available_memory() : available_in(folder)) / 100 * kOurShareInPercent;
}

Result<UniqueFd> open_file(const std::string &folder) {
  UniqueFd fd(folder.empty() ? ::memfd_create("ckpt-contents", MFD_CLOEXEC)
                             : ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (fd) return fd;
  if (folder.empty()) return fail_errno("cannot make a file in memory");
  return fail_errno("cannot make a file in {}", folder);
}

bool all_zero(ByteView bytes) {
  return bytes.empty() || (bytes[0] == std::byte{} &&
                           std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

std::vector<u32> all_slots(const Staging &staging) {
  std::vector<u32> slots;
  for (u32 i = staging.slots(); i-- > 0;) slots.push_back(i);
  return slots;
}

}  // namespace

// ---- the file

Result<Store> Store::create(const std::string &folder) {
  CKPT_TRY(OwnFd file, OwnFd::make([&] { return open_file(folder); }));
  return Store(std::move(file), room_in(folder));
}

Result<std::string> Store::place_for(u64 bytes) {
  const char *set = std::getenv("TMPDIR");
  std::string folder = set && *set == '/' ? set : "/var/tmp";
  u64 memory = room_in(""), disk = room_in(folder);
  if (bytes <= memory) return std::string();
  if (bytes <= disk) return folder;
  return fail_with_hint(
      fmt::format("{} MiB of device memory must be kept while the checkpoint lasts, and there is "
                  "room for {} MiB in host memory and for {} MiB in {}",
                  bytes >> 20, memory >> 20, disk >> 20, folder),
      "free memory, or start the program with TMPDIR on a disk with room");
}

Result<> Store::region(const std::string &name, u64 bytes) {
  if (bytes > most_ || bytes_ > most_ - bytes)
    return fail_with_hint(
        fmt::format("the contents of device memory do not fit: {} MiB and more, {} MiB are free",
                    (bytes_ + bytes) >> 20, most_ >> 20),
        "free host memory; what a suspended program has can go to a disk (ckpt-dump --suspend "
        "--to)");
  if (!regions_.emplace(name, Region{name, bytes, bytes_}).second)
    return fail("the region name \"{}\" is taken", name);
  bytes_ += (bytes + kPage - 1) / kPage * kPage;
  if (::ftruncate(file_.get(), static_cast<off_t>(bytes_)) < 0)
    return fail_errno("cannot keep {} bytes of device memory", bytes_);
  return {};
}

Result<> Store::write(const std::string &name, u64 offset, ByteView bytes) {
  auto it = regions_.find(name);
  if (it == regions_.end() || offset > it->second.bytes || bytes.size() > it->second.bytes - offset)
    return fail("{} bytes at {} do not fit the region {}", bytes.size(), offset, name);
  if (all_zero(bytes)) return {};
  off_t at = static_cast<off_t>(it->second.at + offset);
  while (!bytes.empty()) {
    ssize_t n = ::pwrite(file_.get(), bytes.data(), bytes.size(), at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return fail_errno("cannot keep the contents of device memory");
    bytes = bytes.subspan(static_cast<size_t>(n));
    at += n;
  }
  return {};
}

std::vector<Store::Region> Store::regions(const std::string &prefix) const {
  std::vector<Region> all;
  for (auto &[name, region] : regions_)
    if (name.starts_with(prefix)) all.push_back(region);
  return all;
}

Result<> Store::read(u64 at, std::span<std::byte> into) const {
  while (!into.empty()) {
    ssize_t n = ::pread(file_.get(), into.data(), into.size(), static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return fail_errno("cannot read kept device memory");
    into = into.subspan(static_cast<size_t>(n));
    at += static_cast<u64>(n);
  }
  return {};
}

// ---- with the keeper

Result<> Store::hand_to_keeper() {
  u64 token = 0;
  if (::getrandom(&token, sizeof token, 0) < 0) return fail_errno("cannot get a random number");
  CKPT_TRY(Channel keeper, connect_to_session());
  int fd = file_.get();
  CKPT_CHECK(keeper.send(Type::ContentsKept, Writer().put(protocol::kVersion).put(token),
                         std::span(&fd, 1)));
  CKPT_TRY(Incoming answer, keeper.answer());
  file_.close();
  token_ = token;
  return {};
}

Result<> Store::fetch_from_keeper() {
  CKPT_TRY(Channel keeper, connect_to_session());
  CKPT_CHECK(keeper.send(Type::ContentsWanted, Writer().put(protocol::kVersion).put(token_)));
  CKPT_TRY(Incoming answer, keeper.answer());
  if (answer.fds.size() != 1) return fail("the session keeper gave no file");
  file_ = std::move(answer.fds[0]);
  token_ = 0;
  return {};
}

// ---- saves

Result<u32> CopyingSink::region(const std::string &name, u64 bytes) {
  CKPT_TRY(u32 number, next_.region(name, bytes));
  CKPT_CHECK(store_.region(prefix_ + name, bytes));
  names_[number] = prefix_ + name;
  return number;
}

Result<> CopyingSink::put(u32 region, u64 offset, Slot slot, u32 bytes) {
  CKPT_CHECK(store_.write(names_[region], offset, {slot.data, bytes}));
  return next_.put(region, offset, slot, bytes);
}

StoreSink::StoreSink(Store &store, Staging &staging, std::string prefix)
    : store_(store), staging_(staging), prefix_(std::move(prefix)), free_(all_slots(staging)) {}

Result<u32> StoreSink::region(const std::string &name, u64 bytes) {
  names_.push_back(prefix_ + name);
  CKPT_CHECK(store_.region(names_.back(), bytes));
  return static_cast<u32>(names_.size() - 1);
}

Result<Slot> StoreSink::acquire() {
  if (free_.empty()) return fail("every slot of staging memory is in use");
  Slot slot = staging_.slot(free_.back());
  free_.pop_back();
  return slot;
}

Result<> StoreSink::put(u32 region, u64 offset, Slot slot, u32 bytes) {
  if (region >= names_.size()) return fail("region {} was never named", region);
  free_.push_back(slot.index);
  return store_.write(names_[region], offset, {slot.data, bytes});
}

// ---- loads

StoreSource::StoreSource(const Store &store, Staging &staging, const std::string &prefix)
    : store_(store),
      staging_(staging),
      prefix_bytes_(prefix.size()),
      regions_(store.regions(prefix)),
      free_(all_slots(staging)) {}

Result<bool> StoreSource::next(Piece &piece) {
  while (at_ < regions_.size() && offset_ == regions_[at_].bytes) at_++, offset_ = 0;
  if (at_ == regions_.size()) return false;
  if (free_.empty()) return fail("every slot of staging memory is in use");
  const Store::Region &r = regions_[at_];
  piece.region = r.name.substr(prefix_bytes_);
  piece.offset = offset_;
  piece.bytes = static_cast<u32>(std::min<u64>(slot_bytes(), r.bytes - offset_));
  piece.slot = staging_.slot(free_.back());
  CKPT_CHECK(store_.read(r.at + offset_, {piece.slot.data, piece.bytes}));
  free_.pop_back();
  offset_ += piece.bytes;
  return true;
}

Result<> StoreSource::release(Slot slot) {
  free_.push_back(slot.index);
  return {};
}

}  // namespace ckpt
