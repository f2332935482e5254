// SPDX-License-Identifier: Apache-2.0
#include "remote/transport/munge_exchange.h"

#include <openssl/crypto.h>
#include <unistd.h>

#include "remote/transport/account.h"
#include "remote/transport/error_body.h"

namespace ckpt::remote {
namespace {

Failure malformed() {
  return fail_with_hint("the peer sent no credential of munge",
                        "use the same version of ckpt on both nodes");
}

Result<Reader> receive_body(Connection &c, Frame type) {
  CKPT_TRY(Connection::Received frame, c.receive(kMaxCredential));
  if (frame.type == Frame::Refused) return Failure(read_error(Reader(frame.body)));
  if (frame.type != type) return malformed();
  return Reader(frame.body);
}

// The uid that the peer has proved to have.
Result<uid_t> receive_credential(Connection &c, Frame type, const CredentialService &service,
                                 const Binding::Value &expected,
                                 CredentialService::Deadline deadline) {
  CKPT_TRY(Reader r, receive_body(c, type));
  std::string text(r.str());
  // For libmunge it ends at the first zero.
  if (!r.done() || text.empty() || text.find('\0') != std::string::npos) return malformed();
  CKPT_TRY(CredentialService::Content content, service.decode(text, deadline));
  if (content.payload.size() == expected.size() &&
      ::CRYPTO_memcmp(content.payload.data(), expected.data(), expected.size()) == 0)
    return content.uid;
  return fail_with_hint("the peer's munge credential was made for another connection",
                        "a proxy between the two nodes terminates TLS: connect without it");
}

Result<> send_credential(Connection &c, Frame type, const CredentialService &service,
                         const Binding::Value &value, uid_t reader,
                         CredentialService::Deadline deadline) {
  CKPT_TRY(std::string credential, service.encode(value, reader, deadline));
  return c.send(type, Writer().str(credential).bytes());
}

Failure wrong_server(uid_t uid) {
  return fail_with_hint(
      fmt::format("it runs as the user \"{}\", which is neither root nor the program's user",
                  identity_of(uid).user),
      "start it as root, or name its user in CKPT_DEVD_USER if you trust that user");
}

}  // namespace

Result<> show_credential(Connection &c, const CredentialService &service, const Binding &binding,
                         const std::set<uid_t> &servers, CredentialService::Deadline deadline) {
  CKPT_TRY(Reader r, receive_body(c, Frame::ServerUser));
  uid_t server = r.get<u32>();
  if (!r.done()) return malformed();
  if (!servers.contains(server)) return wrong_server(server);
  CKPT_CHECK(send_credential(c, Frame::Credential, service, binding.client, server, deadline));
  CKPT_TRY(uid_t proved,
           receive_credential(c, Frame::ServerCredential, service, binding.server, deadline));
  return proved == server ? Result<>() : wrong_server(proved);
}

Result<uid_t> check_credential(Connection &c, const CredentialService &service,
                               const Binding &binding, CredentialService::Deadline deadline) {
  CKPT_CHECK(c.send(Frame::ServerUser, Writer().put(u32{::geteuid()}).bytes()));
  CKPT_TRY(uid_t client,
           receive_credential(c, Frame::Credential, service, binding.client, deadline));
  CKPT_CHECK(
      send_credential(c, Frame::ServerCredential, service, binding.server, client, deadline));
  return client;
}

}  // namespace ckpt::remote
