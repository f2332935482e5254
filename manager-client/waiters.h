// SPDX-License-Identifier: Apache-2.0
//
// The threads of the program that wait for an answer of the Manager. The client's mutex guards
// them; a thread that waits releases it.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>

#include "manager-client/connection.h"
#include "manager-client/eviction.h"
#include "manager-client/requests.h"

namespace ckpt::manager_client {

class Waiters {
 public:
  using Lock = std::unique_lock<std::mutex>;

  Waiters(Connection &connection, const Eviction &eviction)
      : connection_(connection), eviction_(eviction) {}

  // Until the answer is settled.
  void wait(Lock &lock, const Answer &answer);
  void settle(Answer &answer, Answer::Fate fate, std::string why = {});
  // For a moment, or until wake().
  void pause(Lock &lock) { changed_.wait_for(lock, Connection::kRetryPause); }
  void wake() { changed_.notify_all(); }
  // An evicted program waits, too.
  bool something_waits() const { return threads_ > 0 || eviction_.evicted(); }

 private:
  Connection &connection_;
  const Eviction &eviction_;
  std::condition_variable changed_;
  unsigned threads_ = 0;  // in wait()
};

}  // namespace ckpt::manager_client
