// SPDX-License-Identifier: Apache-2.0
#include "remote/transport/client.h"

#include "common/base/clock.h"
#include "remote/transport/authentication.h"
#include "remote/transport/error_body.h"
#include "remote/transport/munge_exchange.h"
#include "remote/transport/packed_stream.h"

namespace ckpt::remote {
namespace {

constexpr std::chrono::seconds kConnectTimeout{10};
// A server lists its devices, or starts a proxy, after the greeting; drivers take their time.
constexpr std::chrono::seconds kAnswerTimeout{30};
constexpr std::chrono::minutes kCheckTimeout{10};  // a check compiles the program

// Of munge on both sides, once TLS is there.
constexpr std::chrono::seconds kMungeTimeout{15};

using ConnectionPtr = std::unique_ptr<Connection>;

Result<ConnectionPtr> connect_in_plain(const Address &a) {
  CKPT_TRY(UniqueFd socket, connect_to(a, Clock::now() + kConnectTimeout));
  return std::make_unique<Connection>(std::make_unique<SocketStream>(std::move(socket)));
}

Result<ConnectionPtr> connect_over(const Tls &tls, const Address &a, Tls::Peer &peer) {
  auto deadline = Clock::now() + kConnectTimeout;
  CKPT_TRY(UniqueFd socket, connect_to(a, deadline));
  CKPT_TRY(auto stream, tls.handshake(std::move(socket), a.host, deadline, &peer));
  return std::make_unique<Connection>(std::move(stream));
}

Result<ConnectionPtr> connect_by_certificate(const Address &a) {
  CKPT_TRY(Tls tls, Tls::load(usual_certificates(Tls::Side::Client), Tls::Side::Client));
  Tls::Peer peer;
  return connect_over(tls, a, peer);
}

Result<ConnectionPtr> connect_by_munge(const Address &a) {
  CKPT_TRY(Munge munge, Munge::load(chosen_munge_socket()));
  CKPT_TRY(std::set<uid_t> servers, accepted_servers());
  CKPT_TRY(Tls tls, Tls::unidentified(Tls::Side::Client));
  Tls::Peer peer;
  CKPT_TRY(ConnectionPtr c, connect_over(tls, a, peer));
  auto deadline = Clock::now() + kMungeTimeout;
  c->stream().set_deadline(deadline);
  CKPT_CHECK(show_credential(*c, munge, peer.binding, servers, deadline));
  return c;
}

Result<ConnectionPtr> connect(const Address &a) {
  if (!a.path.empty()) return connect_in_plain(a);
  CKPT_TRY(Authentication by, chosen_authentication());
  return by == Authentication::Munge ? connect_by_munge(a) : connect_by_certificate(a);
}

Result<Admitted> converse(const Address &a, const Wanted &w) {
  CKPT_TRY(ConnectionPtr connection, connect(a));
  Admitted out{std::move(connection), 0, {}};
  Connection &c = *out.connection;
  bool check = is_check(w.purpose);
  c.stream().set_deadline(Clock::now() +
                          (check ? std::chrono::seconds(kCheckTimeout) : kAnswerTimeout));
  Writer hello;
  hello.put(kMagic).put(kVersion).put(w.purpose).str(w.devices).put(u8{w.portable});
  CKPT_CHECK(c.send(Frame::Hello, hello.bytes()));
  if (check) CKPT_CHECK(c.send(Frame::Question, Writer().str(w.question).bytes()));
  CKPT_TRY(Connection::Received frame, c.receive());
  Reader r(frame.body);
  if (frame.type == Frame::Refused) return Failure(read_error(r));
  bool serve = w.purpose == Purpose::Serve || w.purpose == Purpose::ServeCuda;
  if (frame.type != (serve ? Frame::Greeting : Frame::Answer))
    return fail("it speaks another protocol than ckpt-devd of this version");
  if (frame.type == Frame::Answer) out.exit_code = r.get<i32>();
  ByteView body = frame.type == Frame::Answer ? r.blob() : r.raw(r.left());
  out.body.assign(body.begin(), body.end());
  if (serve) pack(c);
  c.stream().set_deadline({});
  return out;
}

}  // namespace

Result<Admitted> ask_server(const Address &address, const Wanted &wanted) {
  Result<Admitted> r = converse(address, wanted);
  if (r) return r;
  return Failure(std::move(r.error()).in("ckpt-devd at " + address.text()));
}

}  // namespace ckpt::remote
