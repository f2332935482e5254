// SPDX-License-Identifier: Apache-2.0
#include "manager/daemon/io/metrics_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <charconv>
#include <cstring>
#include <optional>

#include "common/base/bytes.h"

namespace ckpt::manager {
namespace {

std::optional<u16> port_in(const std::string &text) {
  u16 port = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  bool sound = error == std::errc{} && end == text.data() + text.size() && port != 0;
  return sound ? std::optional(port) : std::nullopt;
}

bool set_address(const std::string &host, u16 port, sockaddr_storage &out) {
  sockaddr_in four{.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {}, .sin_zero = {}};
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_port = htons(port);
  if (::inet_pton(AF_INET, host.c_str(), &four.sin_addr) == 1)
    std::memcpy(&out, &four, sizeof four);
  else if (host.starts_with('[') && host.ends_with(']') &&
           ::inet_pton(AF_INET6, host.substr(1, host.size() - 2).c_str(), &six.sin6_addr) == 1)
    std::memcpy(&out, &six, sizeof six);
  else
    return false;
  return true;
}

}  // namespace

Result<MetricsAddress> MetricsAddress::parse(const std::string &text) {
  size_t colon = text.rfind(':');
  bool only_port = colon == std::string::npos;
  const std::string host = only_port ? "127.0.0.1" : text.substr(0, colon);
  std::optional<u16> port = port_in(only_port ? text : text.substr(colon + 1));
  MetricsAddress out;
  if (port && set_address(host, *port, out.address)) {
    out.text = fmt::format("{}:{}", host, *port);
    return out;
  }
  return fail_with_hint(fmt::format("\"{}\" is not an address for metrics", text),
                        "write PORT, IPV4:PORT or [IPV6]:PORT; names are not looked up");
}

}  // namespace ckpt::manager
