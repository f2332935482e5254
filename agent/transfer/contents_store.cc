// SPDX-License-Identifier: Apache-2.0
#include "agent/transfer/contents_store.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "agent/ipc/session.h"
#include "common/base/available_memory.h"
#include "common/base/io.h"
#include "common/base/log.h"
#include "common/base/rounded_up.h"
#include "common/base/units.h"
#include "common/ipc/unix_socket.h"

namespace ckpt::agent {

using protocol::Type;

namespace {

// All files travel to the session keeper in one message, and back in one.
static_assert(ContentsStore::kFiles <= kMaxMessageFds);

// The contents are striped over the files. A stripe is as large as a slot of staging memory, so
// that a piece is usually one write.
constexpr u64 kStripe = 1 << 20;
// The share of the free space that a store may use. The rest is left for other programs.
constexpr u64 kMaxSharePercent = 90;
// In one place: a load's pieces give its size as a u32.
constexpr u64 kMostZerosInPlace = u64{1} << 30;

u64 available_in(const std::string &folder) {
  struct statvfs disk {};
  return ::statvfs(folder.c_str(), &disk) == 0 ? disk.f_bavail * disk.f_frsize : 0;
}

u64 room_in(const std::string &folder) {
  return (folder.empty() ? available_memory() : available_in(folder)) / 100 * kMaxSharePercent;
}

Result<UniqueFd> open_file(const std::string &folder) {
  UniqueFd fd(folder.empty() ? ::memfd_create("ckpt-contents", MFD_CLOEXEC)
                             : ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (fd) return fd;
  if (folder.empty()) return fail_errno("cannot create a file in memory");
  return fail_errno("cannot create a file in {}", folder);
}

bool all_zero(ByteView bytes) {
  return bytes.empty() || (bytes[0] == std::byte{} &&
                           std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

// Which file it is, and how long: memory is mapped from it.
ContentsStore::Identity identity(int fd) {
  struct stat file {};
  if (::fstat(fd, &file) < 0) return {};
  return {file.st_dev, file.st_ino, static_cast<u64>(file.st_size)};
}

constexpr size_t kStriped = ContentsStore::kFiles - 1;

// Calls step(file, offset in the file, begin, length) for each stripe of `size` bytes at `at`.
template <class Step>
Result<> for_each_stripe(u64 at, size_t size, Step step) {
  for (size_t done = 0; done < size;) {
    u64 stripe = (at + done) / kStripe, inside = (at + done) % kStripe;
    size_t n = std::min<size_t>(size - done, kStripe - inside);
    off_t offset = static_cast<off_t>(stripe / kStriped * kStripe + inside);
    CKPT_CHECK(step(1 + stripe % kStriped, offset, done, n));
    done += n;
  }
  return {};
}

}  // namespace

// ---- the files

Result<ContentsStore> ContentsStore::create(const std::string &folder, u64 direct_bytes) {
  Files files;
  for (OwnFd &file : files) {
    CKPT_TRY(file, OwnFd::make([&] { return open_file(folder); }));
  }
  ContentsStore store(std::move(files), room_in(folder), folder);
  if (folder.empty() && direct_bytes > 0) store.add_direct(direct_bytes);
  return store;
}

// Without it, contents are copied once more.
void ContentsStore::add_direct(u64 bytes) {
  if (bytes > capacity_) return;
  auto direct = std::make_unique<DirectMemory>(bytes);
  Result<OwnFd> file = direct->make_file();
  if (!file) return log::info("device memory is copied in small pieces: {}", file.error().what);
  files_[0] = std::move(*file);
  direct_ = std::move(direct);
}

Result<std::string> ContentsStore::place_for(u64 bytes) {
  const char *set = std::getenv("TMPDIR");
  std::string folder = set && *set == '/' ? set : "/var/tmp";
  u64 memory = room_in(""), disk = room_in(folder);
  if (bytes <= memory) return std::string();
  if (bytes <= disk) return folder;
  return fail_with_hint(
      fmt::format("{} of device memory must be kept during the checkpoint, but there is room for "
                  "only {} in host memory and {} in {}",
                  mebibytes_needed(bytes), mebibytes(memory), mebibytes(disk), folder),
      "free memory, or start the program with TMPDIR in a folder with enough space");
}

Result<> ContentsStore::region(const std::string &name, u64 bytes) {
  if (bytes > capacity_ || bytes_ > capacity_ - bytes)
    return fail_with_hint(
        fmt::format("the contents of device memory do not fit: {} or more are needed, {} "
                    "can be taken in {}",
                    mebibytes_needed(bytes_ + bytes), mebibytes(capacity_),
                    folder_.empty() ? "host memory" : folder_),
        folder_.empty()
            ? "free host memory, or suspend the program to a disk (ckpt-dump --suspend --to)"
            : "make room there, or choose a folder with more (ckpt-dump --suspend --to)");
  if (!regions_.emplace(name, Region{name, bytes, bytes_, {}}).second)
    return fail("the region name \"{}\" is taken", name);
  bytes_ += rounded_up(bytes, kRegionAlign);
  return {};
}

Result<ContentsStore::Region *> ContentsStore::region_with(const std::string &name, u64 offset,
                                                           u64 bytes) {
  CKPT_CHECK(place_of(name, offset, bytes));
  return &regions_.find(name)->second;
}

// Most contents differ from zero at their first bytes, so the search costs nothing.
Result<u64> ContentsStore::placed(const std::string &name, u64 offset, DirectMemory::Place place) {
  CKPT_TRY(Region * region, region_with(name, offset, place.bytes));
  if (all_zero({direct_->at(place.at), place.bytes})) {
    direct_->give(place);
    place.at = kZeros;
  }
  region->places.emplace(offset, place);
  return place.at;
}

Result<> ContentsStore::due(const std::string &name, u64 offset, DirectMemory::Place place) {
  CKPT_TRY(Region * region, region_with(name, offset, place.bytes));
  region->places.emplace(offset, place);
  has_due_ = true;
  return {};
}

Result<> ContentsStore::zeros(const std::string &name, u64 offset, u64 bytes) {
  CKPT_TRY(Region * region, region_with(name, offset, bytes));
  for (u64 done = 0; done < bytes; done += kMostZerosInPlace)
    region->places.emplace(offset + done,
                           DirectMemory::Place{kZeros, std::min(kMostZerosInPlace, bytes - done)});
  return {};
}

Result<> ContentsStore::same_chunk(const std::string &name, u64 offset, u32 bytes,
                                   const ChunkAddress &address) {
  CKPT_TRY(u64 at, place_of(name, offset, bytes));
  from_parent_[at] = {bytes, address};
  return {};
}

std::vector<ContentsStore::Region> ContentsStore::regions(const std::string &prefix) const {
  std::vector<Region> all;
  for (auto &[name, region] : regions_)
    if (name.starts_with(prefix)) all.push_back(region);
  return all;
}

Result<u64> ContentsStore::place_of(const std::string &name, u64 offset, u64 bytes) const {
  auto it = regions_.find(name);
  if (it == regions_.end() || offset > it->second.bytes || bytes > it->second.bytes - offset)
    return fail("{} bytes at offset {} exceed the region {}", bytes, offset, name);
  return it->second.at + offset;
}

Result<> ContentsStore::write(u64 at, ByteView bytes) const {
  if (all_zero(bytes)) return {};
  return for_each_stripe(at, bytes.size(), [&](size_t file, off_t offset, size_t begin, size_t n) {
    Result<> written = write_all_at(files_[file].get(), bytes.subspan(begin, n), offset);
    if (written) return written;
    return Result<>(Failure(std::move(written.error()).in("cannot keep device memory")));
  });
}

// write() leaves zeros out, so the part after the end of a file reads as zero.
Result<> ContentsStore::read(u64 at, std::span<std::byte> into) const {
  if (auto chunk = from_parent_.find(at); chunk != from_parent_.end()) {
    if (chunk->second.bytes != into.size()) return fail("a chunk is read in parts");
    return parent_->read(chunk->second.address, into);
  }
  return for_each_stripe(at, into.size(), [&](size_t file, off_t offset, size_t begin, size_t n) {
    std::span<std::byte> part = into.subspan(begin, n);
    Result<size_t> done = read_at(files_[file].get(), part, offset);
    if (!done) return Result<>(Failure(std::move(done.error()).in("cannot read kept memory")));
    std::ranges::fill(part.subspan(*done), std::byte{});
    return Result<>();
  });
}

// ---- with the keeper

namespace {

Result<u64> new_token() {
  u64 token = 0;
  if (::getrandom(&token, sizeof token, 0) < 0) return fail_errno("cannot get a random number");
  return token;
}

// The token under which the keeper holds `fds`.
Result<u64> keep_at_keeper(std::span<const int> fds) {
  CKPT_TRY(u64 token, new_token());
  CKPT_TRY(Channel keeper, connect_to_session());
  CKPT_CHECK(keeper.send(Type::ContentsKept, Writer().put(protocol::kVersion).put(token), fds));
  CKPT_TRY(Incoming answer, keeper.answer());
  return token;
}

Result<std::vector<OwnFd>> take_from_keeper(u64 token, size_t count) {
  CKPT_TRY(Channel keeper, connect_to_session());
  CKPT_CHECK(keeper.send(Type::ContentsWanted, Writer().put(protocol::kVersion).put(token)));
  CKPT_TRY(Incoming answer, keeper.answer());
  if (answer.fds.size() != count)
    return fail("the session keeper returned {} files instead of {}", answer.fds.size(), count);
  return std::move(answer.fds);
}

}  // namespace

Result<> ContentsStore::hand_to_keeper() {
  std::array<int, kFiles> fds{};
  std::ranges::transform(files_, fds.begin(), &OwnFd::get);
  std::ranges::transform(fds, identities_.begin(), identity);
  CKPT_TRY(u64 token, keep_at_keeper(fds));
  if (direct_) direct_->unmap();
  for (OwnFd &file : files_) file.close();
  token_ = token;
  return hand_parent_to_keeper();
}

Result<> ContentsStore::hand_parent_to_keeper() {
  if (!parent_) return {};
  if (!from_parent_.empty()) {
    int socket = parent_->reader().fd();
    CKPT_TRY(parent_token_, keep_at_keeper({&socket, 1}));
  }
  parent_->hang_up();
  return {};
}

Result<> ContentsStore::fetch_from_keeper() {
  CKPT_TRY(std::vector<OwnFd> files, take_from_keeper(token_, kFiles));
  for (size_t i = 0; i < kFiles; i++)
    if (identity(files[i].get()) != identities_[i])
      return fail("the session keeper returned another file than it was given");
  std::ranges::move(files, files_.begin());
  token_ = 0;
  CKPT_CHECK(fetch_parent_from_keeper());
  return direct_ ? direct_->map(direct_fd()) : Result<>{};
}

Result<> ContentsStore::fetch_parent_from_keeper() {
  if (parent_token_ == 0) return {};
  CKPT_TRY(std::vector<OwnFd> socket, take_from_keeper(std::exchange(parent_token_, 0), 1));
  parent_->connect(std::move(socket.front()));
  return {};
}

}  // namespace ckpt::agent
