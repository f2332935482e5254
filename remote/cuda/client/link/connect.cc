// SPDX-License-Identifier: Apache-2.0
//
// How the link finds a server and leaves it: through the session keeper. For devices of another
// node the keeper starts ckpt-remote-proxy, which connects to ckpt-devd. Without TLS that process
// passes its socket on; otherwise it stands between, so that neither TLS nor the user's key is in
// the program. For devices of this node the keeper starts a server here.
#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include "agent/protocol.h"
#include "common/base/fields.h"
#include "common/ipc/unix_socket.h"
#include "remote/cuda/client/link/link.h"

namespace ckpt::remote::cuda {
namespace {

using protocol::Type;

constexpr std::chrono::seconds kTimeout{60};

Result<Message> ask_keeper(UniqueFd &socket, const std::string &session, Type type,
                           const Writer &body, std::span<const int> files = {}) {
  if (session.empty()) return fail_with_hint("no session", "start the program with ckpt-run");
  CKPT_TRY(socket, connect_unix(session));
  CKPT_CHECK(set_receive_timeout(socket.get(), kTimeout));
  CKPT_CHECK(send_message(socket.get(), static_cast<u16>(type), body.bytes(), files));
  CKPT_TRY(std::optional<Message> answer, receive_message(socket.get()));
  if (!answer)
    return fail("the process that connects to the device has ended; its own message says why");
  if (answer->type != static_cast<u16>(Type::Ok)) return fail("{}", answer->reader().str());
  return std::move(*answer);
}

Writer with_version() {
  Writer w;
  w.put(protocol::kVersion);
  return w;
}

// A server of this node is not started before the first call comes, and the answer says what the
// program needs to use the devices itself (ckpt-cuda-proxy).
std::optional<OwnDriver::Offer> offer_in(const Message &answer) {
  Reader r = answer.reader();
  OwnDriver::Offer offer{std::string(r.str()), {}};
  offer.devices = read_texts(r);
  return r.done() && offer.path.starts_with('/') ? std::optional(offer) : std::nullopt;
}

// `devices`: only these of the chosen ones; "": all of them.
Result<UniqueFd> start_server(const std::string &session, const std::string &devices,
                              std::optional<OwnDriver::Offer> &offer) {
  UniqueFd null(::open("/dev/null", O_WRONLY | O_CLOEXEC)), socket;
  bool closed = ::fcntl(STDERR_FILENO, F_GETFD) < 0;
  int streams[] = {null.get(), closed ? null.get() : STDERR_FILENO};
  Writer w = with_version();
  w.str("cuda-server");
  if (!devices.empty()) w.str(devices);
  CKPT_TRY(Message answer,
           ask_keeper(socket, session, devices.empty() ? Type::ProxyWanted : Type::ProxyFor, w,
                      streams));
  offer = offer_in(answer);
  if (!answer.fds.empty()) return std::move(answer.fds[0]);
  CKPT_CHECK(set_receive_timeout(socket.get(), {}));
  return socket;
}

// The connection that was parked; the keeper no longer has it.
Result<UniqueFd> take_back(const std::string &session, u64 token) {
  UniqueFd socket;
  CKPT_TRY(Message answer,
           ask_keeper(socket, session, Type::ContentsWanted, with_version().put(token)));
  if (answer.fds.size() != 1) return fail("the session keeper has lost the connection");
  return std::move(answer.fds[0]);
}

}  // namespace

Result<> Link::open(const std::string &session, std::optional<OwnDriver::Offer> &offer) {
  CKPT_TRY(UniqueFd socket, start_server(session, "", offer));
  begin(std::move(socket), {});
  return {};
}

Result<> Link::open_for(const std::string &session, const std::string &devices,
                        const std::vector<CUdevice> &numbers) {
  std::optional<OwnDriver::Offer> none;
  CKPT_TRY(UniqueFd socket, start_server(session, devices, none));
  begin(std::move(socket), numbers);
  return {};
}

void Link::begin(UniqueFd socket, const std::vector<CUdevice> &numbers) {
  {
    std::lock_guard lock(why_mutex_);
    why_lost_.clear();
    lost_ = CUDA_SUCCESS;
  }
  parts_.clear();
  token_ = 0;  // of a restored copy's original
  set_socket(std::move(socket), numbers);
}

Result<OwnDriver::Offer> offer_for(const std::string &session, const std::string &devices) {
  std::optional<OwnDriver::Offer> offer;
  CKPT_TRY(UniqueFd unused, start_server(session, devices, offer));
  if (!offer) return fail("this node offers no CUDA driver for {}", devices);
  return std::move(*offer);
}

Result<std::vector<std::string>> chosen_devices(const std::string &session) {
  UniqueFd socket;
  CKPT_TRY(Message answer,
           ask_keeper(socket, session, Type::ChosenWanted, with_version().str("cuda")));
  Reader r = answer.reader();
  std::vector<std::string> all = read_texts(r);
  if (!r.done()) return fail("the session keeper sent a malformed list of devices");
  return all;
}

Result<> Link::park(const std::string &session) {
  if (lost() != CUDA_SUCCESS) return fail("the connection to the device is lost: {}", why_lost());
  {
    std::scoped_lock lock(mutex_, why_mutex_);
    parking_ = true;
    in_use_ = false;
  }
  // A thread that receives gets this reply, or that of another call, and is the last one.
  constexpr auto kIdle = static_cast<u16>(Op::Idle);
  Bytes reply;
  if (CUresult e = ask(kIdle, 0, {}, &reply); e != CUDA_SUCCESS)
    return fail("the connection to the device is lost: {}", why_lost());
  stop_receiving();
  u64 token = 0;
  if (::getrandom(&token, sizeof token, 0) < 0) return fail_errno("cannot get a random number");
  int socket = connection_->stream().descriptor();
  UniqueFd unused;
  CKPT_TRY(Message answer, ask_keeper(unused, session, Type::ContentsKept,
                                      with_version().put(token), std::span(&socket, 1)));
  token_ = token;
  set_socket({});
  return {};
}

Result<> Link::reopen(const std::string &session) {
  if (connected_) {  // it was not parked after all
    std::lock_guard lock(mutex_);
    parking_ = false;
    arrived_.notify_all();
    return {};
  }
  CKPT_TRY(UniqueFd socket, take_back(session, std::exchange(token_, 0)));
  set_socket(std::move(socket));
  return {};
}

Result<> Link::abandon(const std::string &session) {
  CKPT_TRY(UniqueFd socket, take_back(session, std::exchange(token_, 0)));
  return {};
}

void Link::close() {
  if (!connected_) return;
  {
    std::scoped_lock lock(mutex_, why_mutex_);
    closing_ = true;
    in_use_ = false;
  }
  connection_->stream().shut_down();
  stop_receiving();
  set_socket({});
  std::lock_guard lock(mutex_);
  closing_ = false;
}

}  // namespace ckpt::remote::cuda
