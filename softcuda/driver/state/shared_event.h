// SPDX-License-Identifier: Apache-2.0
//
// The state of an event that several processes use: a page that all of them map.
//
// Every recording of the event, in whichever process, takes the next number (a ticket). Whoever
// waits for the event waits for the ticket that is the last one at that moment, as with an event of
// one process. Two streams may end in another order than they were submitted in, so it does not
// suffice to know the highest ticket that has ended: each has a slot of its own. A slot is used
// again after kSlots recordings; a recording waits until the slot is free.
//
// A process that ends cannot finish what it has recorded. A slot has the identity of its process's
// connection, so others can ask the broker whether that process still exists, and finish its
// recording if it does not.
#pragma once

#include <memory>

#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "softcuda/broker/client.h"

namespace ckpt::softcuda::driver {

class SharedEvent {
 public:
  // A page of its own, to be shared by fd().
  static Result<std::shared_ptr<SharedEvent>> make(broker::Client &client);
  // The page of another process.
  static Result<std::shared_ptr<SharedEvent>> open(broker::Client &client, UniqueFd fd);
  ~SharedEvent();
  SharedEvent(const SharedEvent &) = delete;

  int fd() const { return fd_.get(); }
  void close_fd() { fd_.reset(); }

  // A recording: its number when it is submitted, and its end.
  u64 begin();
  void finish(u64 ticket);
  // The last one that was begun; 0: none.
  u64 last() const;
  bool reached(u64 ticket);
  void wait(u64 ticket);

 private:
  struct Slot;
  struct Page;
  explicit SharedEvent(broker::Client &client) : client_(client) {}
  Result<> map(UniqueFd fd);
  Slot &slot_of(u64 ticket) const;
  bool is_done(u64 ticket) const;
  bool reached(u64 ticket, std::atomic<i64> &asked);

  broker::Client &client_;
  UniqueFd fd_;
  Page *page_ = nullptr;
  std::atomic<i64> asked_{0};  // when reached() asked the broker last; device_now()
};

}  // namespace ckpt::softcuda::driver
