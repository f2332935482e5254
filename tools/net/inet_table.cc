// SPDX-License-Identifier: Apache-2.0
#include "tools/net/inet_table.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>
#include <sstream>

#include <fmt/format.h>

#include "common/base/file_text.h"

namespace ckpt::tools {
namespace {

constexpr size_t kWordDigits = 8;
constexpr std::array<u8, 12> kMappedPrefix{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

// "0100007F:0016": the address as 32-bit words in the byte order of the host, and the port.
Endpoint parse_endpoint(const std::string &field) {
  Endpoint e;
  size_t colon = std::min(field.find(':'), field.size());
  for (size_t i = 0; i < colon / kWordDigits && i < 4; i++) {
    auto word = static_cast<u32>(
        std::strtoul(field.substr(i * kWordDigits, kWordDigits).c_str(), nullptr, 16));
    std::memcpy(&e.address[i * sizeof word], &word, sizeof word);
  }
  e.v6 = colon > kWordDigits;
  if (colon < field.size())
    e.port = static_cast<u16>(std::strtoul(field.c_str() + colon + 1, nullptr, 16));
  if (!e.v6 || !std::equal(kMappedPrefix.begin(), kMappedPrefix.end(), e.address.begin())) return e;
  e.v6 = false;
  std::rotate(e.address.begin(), e.address.begin() + kMappedPrefix.size(), e.address.end());
  std::fill(e.address.begin() + 4, e.address.end(), u8{0});
  return e;
}

bool parse_line(const std::string &line, InetSocket &s) {
  std::istringstream fields(line);
  std::string number, local, remote, queues, timer, retransmits, uid, timeout;
  fields >> number >> local >> remote >> std::hex >> s.state >> std::dec >> queues >> timer >>
      retransmits >> uid >> timeout >> s.inode;
  if (!fields) return false;
  s.local = parse_endpoint(local);
  s.remote = parse_endpoint(remote);
  if (s.state == InetSocket::Listen && queues.find(':') != std::string::npos)
    s.unaccepted = std::strtoull(queues.c_str() + queues.find(':') + 1, nullptr, 16);
  return true;
}

}  // namespace

std::string Endpoint::address_text() const {
  char text[INET6_ADDRSTRLEN] = "?";
  ::inet_ntop(v6 ? AF_INET6 : AF_INET, address.data(), text, sizeof text);
  return text;
}

std::optional<Endpoint> Endpoint::parse(const std::string &address, u16 port) {
  Endpoint e;
  e.port = port;
  e.v6 = address.find(':') != std::string::npos;
  if (::inet_pton(e.v6 ? AF_INET6 : AF_INET, address.c_str(), e.address.data()) != 1) return {};
  return e;
}

std::string Endpoint::text() const { return fmt::format("{} port {}", address_text(), port); }

// The first line is a heading.
std::vector<InetSocket> parse_inet_table(std::string_view text, bool v6) {
  std::vector<InetSocket> all;
  std::istringstream lines{std::string(text)};
  std::string line;
  std::getline(lines, line);
  while (std::getline(lines, line))
    if (InetSocket s; parse_line(line, s)) {
      s.v6 = v6;
      all.push_back(s);
    }
  return all;
}

std::vector<InetSocket> inet_sockets(pid_t pid, InetProtocol protocol) {
  const char *name = protocol == InetProtocol::Tcp ? "tcp" : "udp";
  std::vector<InetSocket> all;
  for (bool v6 : {false, true}) {
    std::string path = fmt::format("/proc/{}/net/{}{}", pid, name, v6 ? "6" : "");
    std::vector<InetSocket> more = parse_inet_table(file_text(path).value_or(""), v6);
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

}  // namespace ckpt::tools
