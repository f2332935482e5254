// SPDX-License-Identifier: Apache-2.0
//
// The relay on the program's node (frames.h). To the program it is the proxy: it takes commands off
// the ring and sends them over the connection, and what comes back goes into the ring.
//
//   serving thread   ring → frames    all that the ring holds goes out with one call
//   receiver         frames → ring
//   watcher          ends the process when the program is gone
//
// Parking (ring/wire.h) stays here: the proxy at the other end does not learn of it.
//
// If the connection is lost, the process ends; then every call of the program fails.
#pragma once

#include <mutex>
#include <unordered_map>

#include "remote/opencl/transfers.h"
#include "remote/transport/connection.h"
#include "ring/channel.h"

namespace ckpt::remote {

class NearRelay {
 public:
  struct Session {
    std::string node;  // for messages
    u64 token = 0;     // the keeper's name for this process
    UniqueFd control;  // the keeper's descriptor
    Bytes platforms;   // Frame::Greeting
  };
  NearRelay(ocl::Channel channel, std::unique_ptr<Connection> connection, Session session);

  // Serves until the client is gone and will not return.
  Result<> run(UniqueFd client);

  // What run() calls, in one thread each. A command of the program; and one frame of the other
  // node: an error says why the connection is of no use any more.
  void carry_out(const ocl::Channel::Incoming &c);
  Result<> receive_one();

 private:
  Result<> greet(UniqueFd client);
  void serve();
  bool wait_for_return();
  void carry_over(const ocl::Channel::Incoming &c);
  std::optional<Transfer> note(const ocl::Channel::Incoming &c);
  bool take_tool_staging(ByteView payload);
  std::byte *place_of(const Transfer &t);
  void flush(ByteView bulk = {});

  void receive();
  Result<> receive_reply(Reader r);
  Result<> receive_completion(Reader r);
  Result<> receive_bulk(const std::optional<Transfer> &t, u64 bytes);
  [[noreturn]] void lost(const std::string &why);

  ocl::Channel channel_;
  std::unique_ptr<Connection> connection_;
  Session session_;
  Connection::Batch batch_;
  bool parked_ = false;
  Mapping tool_staging_;

  struct RoundTrip {
    u16 op = 0;
    u64 made = 0;
    std::optional<Transfer> reads;
    bool waits = false;  // for its reply
  };
  std::mutex mutex_;  // guards what follows
  RoundTrip round_trip_;
  Transfers transfers_;
  std::unordered_map<u64, Transfer> reads_;  // by the number of their event
};

}  // namespace ckpt::remote
