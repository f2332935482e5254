// SPDX-License-Identifier: Apache-2.0
#include "remote/client.h"

#include "remote/error_body.h"
#include "remote/tls.h"

namespace ckpt::remote {
namespace {

constexpr std::chrono::seconds kConnectTimeout{10};
// A server lists its devices, or starts a proxy, after the greeting; drivers take their time.
constexpr std::chrono::seconds kAnswerTimeout{30};
constexpr std::chrono::minutes kCheckTimeout{10};  // a check compiles the program

Result<std::unique_ptr<Stream>> open_stream(const Address &a) {
  auto deadline = Stream::Clock::now() + kConnectTimeout;
  if (!a.path.empty()) {
    CKPT_TRY(UniqueFd socket, connect_to(a, deadline));
    return std::make_unique<Stream>(std::move(socket));
  }
  CKPT_TRY(Tls tls, Tls::load(usual_certificates(Tls::Side::Client), Tls::Side::Client));
  CKPT_TRY(UniqueFd socket, connect_to(a, deadline));
  return tls.handshake(std::move(socket), a.host, deadline);
}

Result<Admitted> converse(const Address &a, const Wanted &w) {
  CKPT_TRY(std::unique_ptr<Stream> stream, open_stream(a));
  Admitted out{std::make_unique<Connection>(std::move(stream)), 0, {}};
  Connection &c = *out.connection;
  bool check = is_check(w.purpose);
  c.stream().set_deadline(Stream::Clock::now() +
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
