// SPDX-License-Identifier: Apache-2.0
#include "manager/daemon/io/metrics_server.h"

#include <errno.h>
#include <microhttpd.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <string_view>

#include "manager/daemon/report/metrics.h"

namespace ckpt::manager {
namespace {

constexpr unsigned kMostConnections = 16;
constexpr unsigned kIdleSeconds = 5;
constexpr size_t kConnectionBytes = 16u << 10;  // a longer request is refused

MHD_Result answer(MHD_Connection *connection, unsigned status, std::string body, const char *type) {
  MHD_Response *response =
      MHD_create_response_from_buffer(body.size(), body.data(), MHD_RESPMEM_MUST_COPY);
  if (response == nullptr) return MHD_NO;
  MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
  if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
    MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
  MHD_Result queued = MHD_queue_response(connection, status, response);
  MHD_destroy_response(response);
  return queued;
}

// Answered at the head of the request, without waiting for a body.
MHD_Result handle(void *server, MHD_Connection *connection, const char *path, const char *method,
                  const char *, const char *, size_t *, void **) {
  std::string_view verb = method;
  if (verb != MHD_HTTP_METHOD_GET && verb != MHD_HTTP_METHOD_HEAD)
    return answer(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET is supported\n", "text/plain");
  if (std::string_view(path) != "/metrics")
    return answer(connection, MHD_HTTP_NOT_FOUND, "not found: the only page is /metrics\n",
                  "text/plain");
  return answer(connection, MHD_HTTP_OK, static_cast<MetricsServer *>(server)->text(),
                kMetricsType);
}

}  // namespace

Result<std::unique_ptr<MetricsServer>> MetricsServer::open(const MetricsAddress &address,
                                                           std::function<std::string()> text) {
  std::unique_ptr<MetricsServer> s(new MetricsServer(std::move(text)));
  const unsigned flags =
      MHD_USE_EPOLL | (address.address.ss_family == AF_INET6 ? MHD_USE_IPv6 : MHD_NO_FLAG);
  errno = 0;
  s->http_ = MHD_start_daemon(flags, 0, nullptr, nullptr, handle, s.get(), MHD_OPTION_SOCK_ADDR,
                              reinterpret_cast<const sockaddr *>(&address.address),
                              MHD_OPTION_CONNECTION_LIMIT, kMostConnections,
                              MHD_OPTION_CONNECTION_TIMEOUT, kIdleSeconds,
                              MHD_OPTION_CONNECTION_MEMORY_LIMIT, kConnectionBytes, MHD_OPTION_END);
  if (s->http_ == nullptr)
    return fail_with_hint(
        fmt::format("cannot serve metrics on {}: {}", address.text, std::strerror(errno)),
        "choose a free port and an address of this machine with --metrics");
  return s;
}

MetricsServer::~MetricsServer() {
  if (http_ != nullptr) MHD_stop_daemon(http_);
}

int MetricsServer::fd() const {
  return MHD_get_daemon_info(http_, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
}

int MetricsServer::timeout() const {
  MHD_UNSIGNED_LONG_LONG ms = 0;
  if (MHD_get_timeout(http_, &ms) != MHD_YES) return -1;
  return static_cast<int>(std::min<MHD_UNSIGNED_LONG_LONG>(ms, INT_MAX));
}

// After a connection has ended while the limit was reached, the library accepts new ones only at
// the start of its next turn.
void MetricsServer::turn() {
  unsigned before = 0;
  do {
    before = connections();
    MHD_run(http_);
  } while (connections() < before);
}

unsigned MetricsServer::connections() const {
  return MHD_get_daemon_info(http_, MHD_DAEMON_INFO_CURRENT_CONNECTIONS)->num_connections;
}

}  // namespace ckpt::manager
