// SPDX-License-Identifier: Apache-2.0
#include "manager-client/claims.h"

namespace ckpt::manager_client {

void Claims::ask_again() {
  assignment.ask_again();
  memory.ask_again();
}

void Claims::deny(u32 ticket, const std::string &why) {
  memory.settle(ticket, Answer::Fate::Denied, why);
  if (ticket == 0) assignment.deny(why);
}

void Claims::grant_all() {
  assignment.grant();
  memory.grant_all();
}

}  // namespace ckpt::manager_client
