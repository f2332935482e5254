// SPDX-License-Identifier: Apache-2.0
#include "driver-checkpoint/owner/owner_process.h"

#include <sys/resource.h>
#include <unistd.h>

#include "agent/protocol.h"
#include "common/base/fields.h"
#include "common/base/log.h"
#include "common/base/shortage.h"
#include "common/base/test_points.h"
#include "driver-checkpoint/owner/drain.h"

namespace ckpt::cuda {
namespace {

using agent::DirectMemory;
using protocol::Type;

// More than a machine has.
constexpr u32 kMostDevices = 1024;

class Owner {
 public:
  explicit Owner(OwnerPlace place)
      : place_(std::move(place)), held_(driver_), drain_(driver_, held_) {}

  // The tool may want the copies although the program has ended, at whatever moment.
  Result<> run() {
    Result<> served = serve_all();
    drain_.wait();
    return served;
  }

 private:
  // Serves one program until it hangs up; then, if it has left its memory here, its next
  // connection.
  Result<> serve_all() {
    for (;;) {
      left_ = false;
      CKPT_CHECK(send(Type::Ok, Writer().put(place_.token)));
      CKPT_CHECK(serve());
      if (!left_ || returned_) return {};
      CKPT_TRY(place_.connection, next_connection());
    }
  }

  Result<> send(Type type, const Writer &body = {}, std::span<const int> fds = {}) const {
    return send_message(place_.connection.get(), static_cast<u16>(type), body.bytes(), fds);
  }

  // What fails is said, and the program decides what follows. The connection stays open, so that
  // the program notices when the copies have ended.
  Result<> serve() {
    while (!returned_) {
      CKPT_TRY(std::optional<Message> m, receive_message(place_.connection.get()));
      if (!m) return {};
      test_point("owner-request");
      Result<> done = guarded([&] { return handle(*m); });
      if (!done) CKPT_CHECK(refuse(done.error()));
    }
    held_.let_go();
    return {};
  }

  Result<> refuse(const Error &why) const {
    Writer body;
    body.str(why.what);
    body.str(why.hint);
    return send(Type::Failed, body);
  }

  Result<> handle(Message &m) {
    switch (static_cast<Type>(m.type)) {
      case Type::OwnerBegin: CKPT_CHECK(begin(m)); break;
      case Type::MemoryGiven: CKPT_CHECK(accept(m)); break;
      case Type::DrainWanted: return drain(m);
      case Type::OwnerLeave: left_ = true; break;
      case Type::MemoryWanted: return give_back();
      default: return fail("the owner of device memory does not know request {}", m.type);
    }
    return send(Type::Ok);
  }

  Result<> begin(Message &m) {
    Reader in = m.reader();
    std::vector<std::string> uuids = read_texts(in, kMostDevices);
    if (!in.done()) return fail("malformed request for an owner of device memory");
    CKPT_CHECK(driver_.load(place_.driver));
    for (const std::string &uuid : uuids) {
      CKPT_TRY(CUdevice device, driver_.device_with(uuid));
      CKPT_TRY(CUcontext context, driver_.context_on(device));
      (void)context;
    }
    return {};
  }

  Result<> accept(Message &m) {
    Reader in = m.reader();
    if (in.get<u32>() != m.fds.size()) return fail("malformed message about device memory");
    for (UniqueFd &handle : m.fds) {
      SharedMemory memory{in.get<u64>(), in.get<u64>(), std::move(handle)};
      if (!in.ok()) return fail("malformed message about device memory");
      CKPT_CHECK(held_.add(std::move(memory)));
    }
    return {};
  }

  Result<> drain(Message &m) {
    Reader in = m.reader();
    u64 bytes = in.get<u64>(), n = in.get<u64>();
    if (m.fds.size() != 2 || !in.ok() || n > m.body.size() / sizeof(OwnerCopy))
      return fail("malformed request to copy device memory");
    std::vector<OwnerCopy> copies(n);
    for (OwnerCopy &c : copies) c = {in.get<u64>(), in.get<u64>(), in.get<u64>(), in.get<u64>()};
    bool device_copies =
        in.left() > 0 && in.get<u8>() == 1;  // programs of an earlier version end here
    if (!in.done()) return fail("malformed request to copy device memory");
    CKPT_TRY(auto file, DirectMemory::of_empty_file(m.fds[0].get(), bytes));
    CKPT_TRY(u64 without,
             drain_.begin(std::move(file), std::move(m.fds[1]), copies, device_copies));
    return send(Type::Ok, Writer().put(without));
  }

  Result<> give_back() {
    drain_.wait_for_held();
    std::vector<SharedMemory> some = held_.take(kMaxMessageFds);
    Writer body;
    std::vector<int> handles;
    body.put(static_cast<u32>(some.size()));
    for (const SharedMemory &s : some) {
      body.put(s.key).put(s.bytes);
      handles.push_back(s.handle.get());
    }
    CKPT_CHECK(send(Type::MemoryGiven, body, handles));
    returned_ = some.empty();
    return {};
  }

  // An error: the keeper has ended, or ends this process.
  Result<UniqueFd> next_connection() {
    CKPT_TRY(std::optional<Message> m, receive_message(place_.control.get()));
    if (m && m->type == static_cast<u16>(Type::Adopt) && m->fds.size() == 1)
      return std::move(m->fds.front());
    return fail("the session has ended");
  }

  OwnerPlace place_;
  bool left_ = false;      // the program comes back
  bool returned_ = false;  // it has all its memory again
  OwnerDriver driver_;
  HeldMemory held_;
  Drain drain_;
};

// One descriptor for each piece of physical memory.
void raise_file_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

// A thread may be copying when the program has ended, so nothing is destroyed.
int own_memory(OwnerPlace place) {
  raise_file_limit();
  auto *owner = new Owner(std::move(place));
  Result<> done = guarded([owner] { return owner->run(); });
  if (!done) log::debug("the owner of device memory ends: {}", done.error().what);
  ::_exit(done ? 0 : 1);
}

}  // namespace ckpt::cuda
