// SPDX-License-Identifier: Apache-2.0
//
// GET /metrics on a port of the loopback interface (GNU libmicrohttpd). It has no thread: the
// daemon's loop polls its one descriptor. Connections, requests and the time that they may take are
// bounded, and nothing of it waits for a client.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/base/bytes.h"
#include "common/base/result.h"

struct MHD_Daemon;

namespace ckpt::manager {

class MetricsServer {
 public:
  // `text` is asked for at each scrape.
  static Result<std::unique_ptr<MetricsServer>> open(u16 port, std::function<std::string()> text);
  ~MetricsServer();
  MetricsServer(const MetricsServer &) = delete;

  int fd() const;
  // Until turn() wants to be called although fd() cannot be read, in milliseconds; negative: never.
  int timeout() const;
  void turn();

  // Of its handler.
  std::string text() const { return text_(); }

 private:
  unsigned connections() const;
  explicit MetricsServer(std::function<std::string()> text) : text_(std::move(text)) {}

  std::function<std::string()> text_;
  MHD_Daemon *http_ = nullptr;
};

}  // namespace ckpt::manager
