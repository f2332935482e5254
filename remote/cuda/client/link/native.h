// SPDX-License-Identifier: Apache-2.0
//
// Calls of a program that has moved to a device of its own node: the driver is in the program's
// process (own_driver.h), and the functions of the server (server/) are called where a message
// would be sent otherwise. Handles stay the program's numbers, which the server's tables translate.
#pragma once

#include <mutex>
#include <set>

#include "remote/cuda/client/link/link.h"
#include "remote/cuda/server/server.h"

namespace ckpt::remote::cuda {

class Native {
 public:
  Native(DeviceNumbers devices, Arena arena, Server::HostCall host_call)
      : server_(std::move(devices), arena, std::move(host_call)) {}

  // As those of Link.
  void send(u16 op, u64 context, Link::Parts arguments);
  CUresult ask(u16 op, u64 context, Link::Parts arguments, Bytes *results,
               std::span<std::byte> data);
  CUresult ask(u16 op, u64 context, Link::Parts arguments, const Link::TakeData &take);
  // A function of the program has returned. False: no stream here waits for it.
  bool host_call_done(u64 token) { return server_.host_calls.done(token); }

  // The program's own call, with the driver's handles: neither packed nor copied.
  CUresult launch(u64 context, const CUlaunchConfig &config, u64 function, void **parameters,
                  void **extra);

  // A copy to the program's memory that is not waited for.
  CUresult read_later(u64 context, void *to, u64 from, u64 bytes, u64 stream);
  // The program's page-locked memory, which is that for the driver, too: copies are faster then.
  void lock_pages(u64 context, u64 base, u64 bytes);
  void unlock_pages(u64 base);
  void unlock_all_pages();
  // The device reaches these pages of the program at their own addresses; and no longer.
  CUresult share_pages(u64 context, u64 base, u64 bytes);
  void end_shared_pages(u64 base);

  // The physical memory behind the arena is given back. The devices are idle.
  void unmap_all() { server_.memory.unmap_all(); }

 private:
  CUresult perform(Call &call, u16 op, u64 context, Link::Parts arguments);

  Server server_;
  std::mutex mutex_;
  std::set<u64> locked_;  // memory that the driver has page-locked
};

}  // namespace ckpt::remote::cuda
