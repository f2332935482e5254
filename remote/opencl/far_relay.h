// SPDX-License-Identifier: Apache-2.0
//
// The relay on the node that has the device (frames.h): it takes commands from a connection and
// puts them into the ring of an OpenCL proxy, and sends back replies, completions and printed text.
// The program at the other end is not trusted: whatever comes over the connection, nothing is
// read or written outside of the ring and of the staging memory, and what is kept is bounded.
//
//   receiver   frames → ring          the thread that calls run()
//   sender     ring → frames          sleeps on the ring's bell
//   watcher    printed text → frames  sees the end of the proxy
//
// What the devices print before a command finishes is sent before its completion.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <unordered_map>

#include "remote/opencl/memory_account.h"
#include "remote/opencl/questions.h"
#include "remote/opencl/ring_client.h"
#include "remote/opencl/transfers.h"
#include "remote/transport/connection.h"

namespace ckpt::remote {

// A frame for the answer to a round trip, without bulk.
void add_reply(Connection::Batch &batch, i32 status, ByteView bytes);

class FarRelay {
 public:
  struct Proxy {
    RingClient ring;
    UniqueFd output, errors;  // the read ends of its standard streams
  };
  // Takes the answers to the program's first questions.
  using Recorder = std::function<void(ByteView key, const RingClient::Reply &answer)>;
  FarRelay(Connection &connection, Proxy proxy, MemoryAccount account, Questions questions,
           Recorder recorder);

  // `first`: a command that was received already; empty: none. Until the program has hung up, the
  // proxy has ended, or a frame is malformed, which is an error.
  Result<> run(ByteView first);

 private:
  Result<> carry_out(ByteView body);
  Result<> begin_transfer(const ocl::CommandHeader &h, ByteView payload);
  Result<> make_tool_staging(ByteView payload);
  std::byte *place_of(const Transfer &t);
  Result<> refuse_memory();

  void send_from_ring();
  Result<bool> forward();
  Result<> forward_reply();
  Result<> forward_completion(const ocl::Completion &c);
  void watch_proxy();
  Result<> forward_output();
  void stop(const std::string &why);

  Connection &connection_;
  RingClient ring_;
  UniqueFd output_, errors_;
  std::mutex output_mutex_;
  Connection::Batch batch_;  // the sender's
  std::atomic<bool> stopping_{false};

  // Of the round trip that is under way.
  struct RoundTrip {
    u16 op = 0;
    u64 made = 0;
    std::optional<Transfer> reads;
    std::optional<Bytes> question;
  };
  std::mutex mutex_;  // guards what follows
  std::optional<RoundTrip> round_trip_;
  Transfers transfers_;
  std::unordered_map<u64, Transfer> reads_;  // by the number of their event
  MemoryAccount account_;
  Questions questions_;  // the receiver's
  Recorder recorder_;

  UniqueFd tool_fd_;
  Mapping tool_staging_;
};

}  // namespace ckpt::remote
