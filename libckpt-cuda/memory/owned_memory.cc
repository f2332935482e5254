// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/memory/owned_memory.h"

#include <fcntl.h>

#include <algorithm>

#include "common/base/log.h"
#include "common/base/units.h"
#include "driver-checkpoint/uuid.h"
#include "libckpt-cuda/memory/contexts.h"
#include "libckpt-cuda/memory/copier.h"
#include "libckpt-cuda/memory/served.h"

namespace ckpt::cuda {
namespace {

Result<std::vector<std::string>> used_devices() {
  std::vector<std::string> uuids;
  for (const ContextInfo &c : live_contexts()) {
    CUuuid uuid{};
    CKPT_CHECK(as_result(driver().cuDeviceGetUuid_v2(&uuid, c.device), "name a device"));
    if (std::string text = uuid_text(uuid); std::ranges::find(uuids, text) == uuids.end())
      uuids.push_back(std::move(text));
  }
  return uuids;
}

// Some calls about physical memory need a current context.
CUcontext any_context() {
  std::vector<ContextInfo> all = live_contexts();
  return all.empty() ? nullptr : all.front().handle;
}

Result<SharedMemory> exported(const KeyedPhysical &p) {
  int handle = -1;
  CUresult e = driver().cuMemExportToShareableHandle(&handle, p.physical,
                                                     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
  CKPT_CHECK(as_result(e, "share device memory with its owner"));
  ::fcntl(handle, F_SETFD, FD_CLOEXEC);
  return SharedMemory{p.key, p.bytes, UniqueFd(handle)};
}

}  // namespace

Result<bool> OwnedMemory::start() {
  if (!is_shareable_wanted()) return false;
  end();
  CKPT_TRY(std::vector<std::string> uuids, used_devices());
  if (uuids.empty()) return false;
  Result<> started = owner_.start(uuids);
  if (started) state_ = State::Started;
  if (started) return true;
  owner_.hang_up();
  return Failure(std::move(started.error()).in("device memory can have no owner"));
}

bool OwnedMemory::give(agent::Sink &sink) {
  if (state_ != State::Started) return false;
  if (!sink.takes_later()) {
    end();  // no connection may be left when CRIU dumps this process
    return false;
  }
  Result<> given = give_all();
  if (given) given = offer_to_tool(sink);
  if (given) state_ = State::Given;
  if (given) return true;
  log::warn("device memory is copied while the program is paused: {}", given.error().what);
  end();
  return false;
}

// A program may have more pieces of memory than it may have descriptors.
Result<> OwnedMemory::give_all() {
  CurrentContext current(any_context());
  std::vector<KeyedPhysical> all = served_physical();
  for (size_t first = 0; first < all.size(); first += kMaxMessageFds) {
    std::vector<SharedMemory> some;
    for (size_t i = first; i < std::min(first + kMaxMessageFds, all.size()); i++) {
      CKPT_TRY(SharedMemory shared, exported(all[i]));
      given_[shared.key] = shared.bytes;
      some.push_back(std::move(shared));
    }
    CKPT_CHECK(owner_.give(some));
  }
  return {};
}

Result<> OwnedMemory::offer_to_tool(agent::Sink &sink) {
  CKPT_TRY(auto ends, socket_pair());
  owed_ = sink.takes_owed();
  CKPT_CHECK(sink.begin_later(ends.first.get(), owed_));
  tool_ = std::move(ends.second);
  return {};
}

Result<> OwnedMemory::drain(const agent::Sink &sink) {
  if (state_ != State::Given) return {};
  agent::Sink::File file = sink.later_file();
  Result<u64> without =
      owner_.drain(file.fd, file.bytes, tool_.get(), std::exchange(copies_, {}), owed_);
  tool_.reset();
  if (!without)
    return Failure(std::move(without.error()).in("the owner of device memory does not copy it"));
  if (owed_ && *without > 0)
    log::warn(
        "there is no room for a copy of {} of device memory on the device, so the program waits "
        "until it is in host memory",
        mebibytes_needed(*without));
  return {};
}

Result<> OwnedMemory::leave() {
  if (state_ != State::Given) return {};
  Result<> left = owner_.leave();
  if (left) {
    state_ = State::Left;
    return {};
  }
  owner_.drop();
  return Failure(std::move(left.error()).in("the owner of device memory does not keep it"));
}

void OwnedMemory::take_back() {
  if (state_ != State::Left) return;
  Result<> back = owner_.come_back();
  if (back) back = import_all();
  if (back) {
    state_ = State::Back;
    return;
  }
  log::warn("device memory does not come back from its owner: {}", back.error().what);
  drop_returned();
  abandon();
}

// All of it or none: new memory in the place of a part would hold anything.
Result<> OwnedMemory::import_all() {
  CurrentContext current(any_context());
  for (;;) {
    CKPT_TRY(std::vector<SharedMemory> some, owner_.take_some());
    for (const SharedMemory &s : some) CKPT_CHECK(import(s));
    if (!some.empty()) continue;
    if (given_.empty()) return {};
    return fail("{} pieces of it are missing", given_.size());
  }
}

Result<> OwnedMemory::import(const SharedMemory &s) {
  auto given = given_.find(s.key);
  if (given == given_.end() || given->second != s.bytes)
    return fail("the owner sends memory that it was not given");
  given_.erase(given);
  Physical physical = 0;
  void *handle = reinterpret_cast<void *>(static_cast<intptr_t>(s.handle.get()));
  CUresult e = driver().cuMemImportFromShareableHandle(&physical, handle,
                                                       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  CKPT_CHECK(as_result(e, "import device memory from its owner"));
  put_returned(s.key, physical);
  return {};
}

void OwnedMemory::abandon() {
  if (state_ == State::Left) owner_.drop();
  forget();
}

// In a copy that could not be restored, an owner that was left is the original's.
void OwnedMemory::end() {
  if (state_ == State::Back && owed_) set_copier(owner_.release_connection());
  owner_.hang_up();
  forget();
}

void OwnedMemory::forget() {
  state_ = State::None;
  tool_.reset();
  given_.clear();
  copies_.clear();
}

}  // namespace ckpt::cuda
