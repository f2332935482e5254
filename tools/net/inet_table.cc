// SPDX-License-Identifier: Apache-2.0
#include "tools/net/inet_table.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "common/base/words.h"
#include "common/proc/file.h"

namespace ckpt::tools {
namespace {

constexpr size_t kWordDigits = 8;
constexpr std::array<u8, 12> kMappedPrefix{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

// "0100007F:0016": the address as 32-bit words in the byte order of the host, and the port.
Endpoint parse_endpoint(std::string_view field) {
  Endpoint e;
  size_t colon = std::min(field.find(':'), field.size());
  for (size_t i = 0; i < colon / kWordDigits && i < 4; i++) {
    u32 word = leading_number(field.substr(i * kWordDigits, kWordDigits), u32{0}, 16);
    std::memcpy(&e.address[i * sizeof word], &word, sizeof word);
  }
  e.v6 = colon > kWordDigits;
  if (colon < field.size()) e.port = leading_number(field.substr(colon + 1), u16{0}, 16);
  if (!e.v6 || !std::equal(kMappedPrefix.begin(), kMappedPrefix.end(), e.address.begin())) return e;
  e.v6 = false;
  std::rotate(e.address.begin(), e.address.begin() + kMappedPrefix.size(), e.address.end());
  std::fill(e.address.begin() + 4, e.address.end(), u8{0});
  return e;
}

// "0: 0100007F:0016 00000000:0000 0A 00000000:00000003 00:00000000 00000000 0 0 INODE …"
bool parse_line(std::string_view line, InetSocket &s) {
  enum { kLocal = 1, kRemote, kState, kQueues, kInode = 9 };
  std::vector<std::string_view> fields = words_of(line);
  if (fields.size() <= kInode || !parse_number(fields[kState], s.state, 16) ||
      !parse_number(fields[kInode], s.inode))
    return false;
  s.local = parse_endpoint(fields[kLocal]);
  s.remote = parse_endpoint(fields[kRemote]);
  std::string_view queues = fields[kQueues];
  if (size_t colon = queues.find(':'); s.state == InetSocket::Listen && colon != queues.npos)
    s.unaccepted = leading_number(queues.substr(colon + 1), u64{0}, 16);
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
  for (std::string_view line : lines_of(text))
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
    std::string table = proc::text(pid, fmt::format("net/{}{}", name, v6 ? "6" : ""));
    std::vector<InetSocket> more = parse_inet_table(table, v6);
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

}  // namespace ckpt::tools
