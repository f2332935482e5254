// SPDX-License-Identifier: Apache-2.0
//
// The identity with which CRIU runs: that of the caller, with the capabilities that CRIU needs and
// no others.
#pragma once

#include <sys/types.h>

#include <string>

#include "common/base/as_user.h"
#include "common/base/bytes.h"
#include "common/base/result.h"
#include "common/proc/capabilities.h"

namespace ckpt::helper {

struct Identity : Credentials {
  u64 bounding = ~u64{0};  // the set of capabilities that its programs may ever get
};

// The identity of the process at the other end, as the kernel recorded it when it connected.
Result<Identity> identity_of_peer(int socket);
// "1000:1000:4:24:1000", for a command line.
std::string to_text(const Identity &identity);
Result<Identity> identity_from(const std::string &text);

// The capabilities of this process that are in force.
u64 own_capabilities();
// Gives up all but these, of which `at_hand` are not in force (WithCapability). A later exec as
// root would bring all back.
bool keep_only(u64 capabilities, u64 at_hand = 0);
// Makes the next exec keep these capabilities, which this process has, and no others.
bool pass_on_only(u64 capabilities);
// Becomes `identity`, which has these capabilities after the next exec too. False: this process
// must end. For a process without threads: after a fork, or one that has none.
bool become(const Identity &identity, u64 capabilities);

// While it exists, this capability is in force, if it is at hand. It does not nest.
class WithCapability {
 public:
  explicit WithCapability(int capability);
  WithCapability(const WithCapability &) = delete;
  ~WithCapability();

 private:
  u64 raised_;
};

// What CRIU needs to dump and restore programs of its own user. Where Yama restricts ptrace(2) to
// descendants, it needs SYS_PTRACE too.
u64 criu_capabilities();
bool yama_restricts_ptrace();

}  // namespace ckpt::helper
