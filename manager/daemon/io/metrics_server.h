// SPDX-License-Identifier: Apache-2.0
//
// GET /metrics at one address (GNU libmicrohttpd). It has no thread: the loop
// of the daemon polls its one descriptor. The number of connections, the size of requests and their
// duration are bounded, and no call blocks for a client.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/base/result.h"
#include "manager/daemon/io/metrics_address.h"

struct MHD_Daemon;

namespace ckpt::manager {

class MetricsServer {
 public:
  // `text` is called for each scrape.
  static Result<std::unique_ptr<MetricsServer>> open(const MetricsAddress &address,
                                                     std::function<std::string()> text);
  ~MetricsServer();
  MetricsServer(const MetricsServer &) = delete;

  int fd() const;
  // In milliseconds: until turn() has to be called although fd() is not readable; negative: never.
  int timeout() const;
  void turn();

  // For its handler.
  std::string text() const { return text_(); }

 private:
  unsigned connections() const;
  explicit MetricsServer(std::function<std::string()> text) : text_(std::move(text)) {}

  std::function<std::string()> text_;
  MHD_Daemon *http_ = nullptr;
};

}  // namespace ckpt::manager
