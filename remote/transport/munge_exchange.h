// SPDX-License-Identifier: Apache-2.0
//
// How the two ends of a TLS connection without certificates prove to each other which users they
// are.
//
//   server  ServerUser: the uid under which ckpt-devd runs
//   client  Credential: by munge, for that uid only
//   server  ServerCredential: by munge, for the client's uid only
//
// The payload of a credential is a value that only the two ends of this connection can compute, and
// which differs between the directions (Binding). An attacker between the two ends has two
// connections with two values, so a credential that is passed on proves nothing; nor does one that
// is sent back.
//
// The client presents its credential first, and only to a server of a user that it trusts: a peer
// that has proved nothing must not get a credential of root. Each credential has one reader, so
// that the other side cannot present it to a service of another user that does not check the
// payload.
#pragma once

#include <set>

#include "remote/transport/connection.h"
#include "remote/transport/munge.h"
#include "remote/transport/tls.h"

namespace ckpt::remote {

// Larger ones are refused before they are read. One of munge with our payload has about 250 bytes.
inline constexpr size_t kMaxCredential = 4096;

// The client's part. `servers`: the users that it trusts to run ckpt-devd.
Result<> show_credential(Connection &connection, const CredentialService &service,
                         const Binding &binding, const std::set<uid_t> &servers,
                         CredentialService::Deadline deadline);

// The server's part. Returns the uid of the client.
Result<uid_t> check_credential(Connection &connection, const CredentialService &service,
                               const Binding &binding, CredentialService::Deadline deadline);

}  // namespace ckpt::remote
