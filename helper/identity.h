// SPDX-License-Identifier: Apache-2.0
//
// The identity with which CRIU runs: that of the caller, with the capabilities that CRIU needs and
// no others.
#pragma once

#include <linux/capability.h>
#include <sys/types.h>

#include <string>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/result.h"

namespace ckpt::helper {

struct Identity {
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups;
  u64 bounding = ~u64{0};  // the set of capabilities that its programs may ever get
};

constexpr u64 bit(int capability) { return u64{1} << capability; }

// The identity of the process at the other end, as the kernel recorded it when it connected.
Result<Identity> identity_of_peer(int socket);
// "1000:1000:4:24:1000", for a command line.
std::string to_text(const Identity &identity);
Result<Identity> identity_from(const std::string &text);

// The capabilities of this process that are in force.
u64 own_capabilities();
// Gives up all but these. A later exec as root would bring them back.
bool keep_only(u64 capabilities);
// Makes the next exec keep these capabilities, which this process has.
bool pass_on(u64 capabilities);
// Becomes `identity`, which has these capabilities after the next exec too. False: this process
// must end. For a process without threads: after a fork, or one that has none.
bool become(const Identity &identity, u64 capabilities);

// "CAP_CHECKPOINT_RESTORE, CAP_SYS_PTRACE", of the capabilities that ckpt names.
std::string names_of(u64 capabilities);

// What CRIU needs to dump and restore programs of its own user. Where Yama restricts ptrace(2) to
// descendants, it needs SYS_PTRACE too.
u64 criu_capabilities();
bool yama_restricts_ptrace();

}  // namespace ckpt::helper
