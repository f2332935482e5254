// SPDX-License-Identifier: Apache-2.0
//
// munge (https://dun.github.io/munge/): all nodes of a cluster have one key and a daemon, munged.
// It makes credentials, which say by which user they were asked for, and checks those of other
// nodes.
//
// libmunge is loaded when it is needed and is no dependency of the build, so that the same package
// runs on nodes with and without munge. What is used of it has not changed since libmunge.so.2
// exists (2004).
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>

#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "common/base/result.h"

namespace ckpt::remote {

// Makes and checks credentials. Tests have a service of their own.
class CredentialService {
 public:
  using Deadline = Clock::time_point;
  struct Content {
    Bytes payload;
    uid_t uid = 0;  // of the process that asked for the credential
  };

  virtual ~CredentialService() = default;
  // Only processes of `reader` can have the credential decoded, whatever key they hold.
  virtual Result<std::string> encode(ByteView payload, uid_t reader, Deadline deadline) const = 0;
  virtual Result<Content> decode(const std::string &credential, Deadline deadline) const = 0;
};

class Munge final : public CredentialService {
 public:
  // `socket`: munged's; empty: the usual one of this node's libmunge.
  static Result<Munge> load(const std::string &socket);
  const std::string &socket() const { return socket_; }

  Result<std::string> encode(ByteView payload, uid_t reader, Deadline deadline) const override;
  Result<Content> decode(const std::string &credential, Deadline deadline) const override;

 private:
  explicit Munge(std::string socket) : socket_(std::move(socket)) {}

  std::string socket_;
};

// A status of libmunge other than success. `detail`: its own words.
Error munge_error(int status, const std::string &step, const std::string &detail,
                  const std::string &node);

}  // namespace ckpt::remote
