// SPDX-License-Identifier: Apache-2.0
#include "manager-client/waiters.h"

namespace ckpt::manager_client {

// A waiting thread watches the Manager itself, because the agent's thread sleeps, or suspends the
// program.
void Waiters::wait(Lock &lock, const Answer &answer) {
  auto settled = [&answer] { return answer.fate != Answer::Fate::Pending; };
  threads_++;
  while (!changed_.wait_for(lock, Heartbeat::beat(connection_.patience()), settled))
    connection_.watch(true);
  threads_--;
  if (!something_waits()) connection_.stop_heartbeat();
}

void Waiters::settle(Answer &answer, Answer::Fate fate, std::string why) {
  answer.fate = fate;
  answer.why = std::move(why);
  wake();
}

}  // namespace ckpt::manager_client
