// SPDX-License-Identifier: Apache-2.0
//
// A small certificate authority for a cluster. Its folder is kept where only an administrator reads
// it; a node or user gets a folder of its own:
//
//   FOLDER/ca.pem, ca.key               the authority
//   FOLDER/NAME/ca.pem                  a copy, by which the other side is checked
//   FOLDER/NAME/certificate.pem, key.pem
//
// A node's certificate serves as a server's only, a user's as a client's only (extended key usage,
// RFC 5280, 4.2.1.12), so no user can stand for a node. Keys are of P-256, and have the mode 0600.
#pragma once

#include <openssl/types.h>

#include <string>

#include "common/base/result.h"

namespace ckpt::remote {

enum class Holder { Node, User };

Result<> make_authority(const std::string &folder);
// `names` of a node: the names and addresses by which it is reached, separated by commas; the first
// one names the folder. Returns the folder, which did not exist before.
Result<std::string> make_certificate(const std::string &authority, Holder holder,
                                     const std::string &names, int days);

// A new key with a self-signed certificate. It only encrypts and authenticates nothing.
Result<> use_new_key(SSL_CTX &context);

}  // namespace ckpt::remote
