// SPDX-License-Identifier: Apache-2.0
//
// How a link finds a proxy and leaves it: through the session keeper's socket, with the messages of
// agent/protocol.h.
#include <fcntl.h>

#include "agent/protocol.h"
#include "common/ipc/unix_socket.h"
#include "libckpt-ocl/client/link/link.h"

namespace ckpt::ocl {
namespace {

Result<Greeting> read_greeting(Reader r) {
  Greeting g;
  u32 platforms = r.get<u32>();
  for (u32 i = 0; i < platforms && r.ok(); i++) {
    Greeting::Plat &p = g.platforms.emplace_back();
    p.name = r.str();
    u32 devices = r.get<u32>();
    // A proxy leaves out platforms without devices, and every platform is asked through a device.
    if (devices == 0)
      return fail("the greeting of the OpenCL proxy has a platform without devices");
    for (u32 k = 0; k < devices && r.ok(); k++) {
      u64 type = r.get<u64>();
      p.devices.push_back({type, std::string(r.str())});
    }
  }
  if (!r.ok()) return fail("the greeting of the OpenCL proxy is malformed");
  if (r.done()) return g;
  g.pid = r.get<u32>();
  if (!r.ok()) return fail("the greeting of the OpenCL proxy is malformed");
  g.remote = !r.done() && r.get<u8>() != 0;
  return g;
}

// The proxy writes to the program's standard output and error; /dev/null for a stream that the
// program has closed.
class OutputStreams {
 public:
  OutputStreams() {
    for (int &fd : fds_) {
      if (::fcntl(fd, F_GETFD) >= 0) continue;
      if (!null_) null_.reset(::open("/dev/null", O_WRONLY | O_CLOEXEC));
      fd = null_.get();
    }
  }
  std::span<const int> fds() const { return fds_; }

 private:
  int fds_[2] = {STDOUT_FILENO, STDERR_FILENO};
  UniqueFd null_;
};

}  // namespace

Result<Greeting> Link::open(const std::string &session, const std::string &device) {
  CKPT_TRY(UniqueFd socket, connect_unix(session));
  CKPT_TRY(UniqueFd environment, first_environment(session));
  proxy_folder_ = {};
  traffic.new_way();
  CKPT_TRY(UniqueFd folder, working_folder());
  Writer w;
  w.put(protocol::kVersion).str("ocl").put(u8{!device.empty()}).str(device);
  OutputStreams streams;
  std::vector<int> files(streams.fds().begin(), streams.fds().end());
  files.push_back(folder.get());
  if (environment) files.push_back(environment.get());
  CKPT_CHECK(
      send_message(socket.get(), static_cast<u16>(protocol::Type::ProxyIn), w.bytes(), files));
  return greet(std::move(socket));
}

// In the proxy a path means what it means in the program.
void Link::follow_folder() {
  if (!usable()) return;
  std::lock_guard lock(folder_mutex_);
  Result<UniqueFd> folder = proxy_folder_.to_follow();
  if (folder && *folder) send_with(Op::Folder, folder->get());
}

Result<> Link::reopen(const std::string &session) {
  CKPT_TRY(UniqueFd socket, connect_unix(session));
  Writer w;
  w.put(protocol::kVersion).put(token_);
  CKPT_CHECK(send_message(socket.get(), static_cast<u16>(protocol::Type::ProxyAgain), w.bytes()));
  CKPT_TRY(Greeting unused, greet(std::move(socket)));
  (void)unused;
  return {};
}

Result<> Link::abandon(const std::string &session) {
  CKPT_TRY(UniqueFd socket, connect_unix(session));
  Writer w;
  w.put(protocol::kVersion).put(token_);
  CKPT_CHECK(send_message(socket.get(), static_cast<u16>(protocol::Type::ProxyDrop), w.bytes()));
  CKPT_TRY(std::optional<Message> m, receive_message(socket.get()));
  if (m && m->type == static_cast<u16>(protocol::Type::Ok)) return {};
  return fail("the session keeper did not end the OpenCL proxy");
}

Result<Greeting> Link::greet(UniqueFd socket) {
  CKPT_TRY(std::optional<Message> m, receive_message(socket.get()));
  if (!m) return fail("the OpenCL proxy ended before its greeting; its own messages say why");
  Reader r = m->reader();
  if (m->type == static_cast<u16>(protocol::Type::Failed))
    return fail("the session keeper cannot start an OpenCL proxy: {}", r.str());
  u32 version = r.get<u32>();
  if (m->type != kGreeting || m->fds.size() != 1 || version != kWireVersion)
    return fail("the OpenCL proxy speaks version {} of the wire protocol, this program version {}",
                version, kWireVersion);
  token_ = r.get<u64>();
  CKPT_TRY(Greeting g, read_greeting(r));
  CKPT_TRY(memory_, Mapping::map(m->fds[0].get(), kRingBytes));
  if (header().magic != kWireMagic || header().version != kWireVersion) {
    memory_.reset();
    return fail("the ring of the OpenCL proxy has another version than this program");
  }
  socket_ = std::move(socket);
  remote_ = g.remote;
  header().takes_output.store(1, std::memory_order_seq_cst);
  usable_ = true;
  return g;
}

Result<> Link::park() {
  if (!usable()) return {};
  drain();
  flush_releases();
  header().takes_output.store(0, std::memory_order_seq_cst);
  if (round_trip(Op::Park, 0, {}) != CL_SUCCESS) return fail("the OpenCL proxy did not park");
  close();
  return {};
}

void Link::close() {
  usable_ = false;
  memory_.reset();
  socket_.reset();
}

void Link::forget() {
  usable_ = false;
  memory_.forget();
  socket_.reset();
}

}  // namespace ckpt::ocl
