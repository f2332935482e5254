// SPDX-License-Identifier: Apache-2.0
#include "tools/net/multicast.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "common/base/words.h"
#include "common/proc/file.h"

namespace ckpt::tools {
namespace {

struct Membership {  // of an interface
  unsigned index = 0;
  std::string interface;
  sockaddr_storage group{};
};

sockaddr_storage address4(u32 network_order) {
  sockaddr_storage s{};
  auto *a = reinterpret_cast<sockaddr_in *>(&s);
  a->sin_family = AF_INET;
  a->sin_addr.s_addr = network_order;
  return s;
}

// Two lines: "4  eth0  :  1  V3" and then, for each group, "  010000E0  1 0:00000000  0".
std::vector<Membership> memberships4(int pid) {
  std::vector<Membership> all;
  std::string table = proc::text(pid, "net/igmp");
  Membership m;
  for (std::string_view line : lines_of(table)) {
    bool is_group = line.starts_with('\t');
    std::string_view first = next_word(line);
    if (is_group) {
      m.group = address4(leading_number(first, u32{0}, 16));
      all.push_back(m);
    } else {
      m.index = leading_number(first, 0U);
      m.interface = next_word(line);
    }
  }
  return all;
}

// "4    eth0            ff0200000000000000000001ff000001     1 00000004 0"
std::vector<Membership> memberships6(int pid) {
  std::vector<Membership> all;
  std::string table = proc::text(pid, "net/igmp6");
  for (std::string_view line : lines_of(table)) {
    Membership m;
    m.index = leading_number(next_word(line), 0U);
    m.interface = next_word(line);
    std::string_view digits = next_word(line);
    auto *a = reinterpret_cast<sockaddr_in6 *>(&m.group);
    a->sin6_family = AF_INET6;
    if (digits.size() != 2 * sizeof a->sin6_addr.s6_addr) continue;
    for (size_t i = 0; i < sizeof a->sin6_addr.s6_addr; i++)
      a->sin6_addr.s6_addr[i] = leading_number(digits.substr(2 * i, 2), u8{0}, 16);
    all.push_back(m);
  }
  return all;
}

std::string text_of(const sockaddr_storage &s) {
  char text[INET6_ADDRSTRLEN] = "";
  if (s.ss_family == AF_INET)
    ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in *>(&s)->sin_addr, text, sizeof text);
  else
    ::inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6 *>(&s)->sin6_addr, text,
                sizeof text);
  return text;
}

std::optional<sockaddr_storage> address_of(const std::string &text) {
  sockaddr_storage s{};
  auto *four = reinterpret_cast<sockaddr_in *>(&s);
  auto *six = reinterpret_cast<sockaddr_in6 *>(&s);
  if (::inet_pton(AF_INET, text.c_str(), &four->sin_addr) == 1) {
    s.ss_family = AF_INET;
    return s;
  }
  if (::inet_pton(AF_INET6, text.c_str(), &six->sin6_addr) != 1) return std::nullopt;
  s.ss_family = AF_INET6;
  return s;
}

int level_of(const sockaddr_storage &group) {
  return group.ss_family == AF_INET ? IPPROTO_IP : IPPROTO_IPV6;
}

constexpr size_t kMostSources = 128;

// group_filter ends in an array of sources.
class Filter {
 public:
  Filter(unsigned index, const sockaddr_storage &group, size_t sources)
      : bytes_(GROUP_FILTER_SIZE(sources)) {
    get()->gf_interface = index;
    std::memcpy(&get()->gf_group, &group, sizeof group);
    get()->gf_numsrc = static_cast<u32>(sources);
  }
  group_filter *get() { return reinterpret_cast<group_filter *>(bytes_.data()); }
  socklen_t size() const { return static_cast<socklen_t>(bytes_.size()); }

 private:
  Bytes bytes_;
};

std::optional<SocketGroup> joined(int socket, const Membership &m) {
  Filter filter(m.index, m.group, kMostSources);
  socklen_t size = filter.size();
  if (::getsockopt(socket, level_of(m.group), MCAST_MSFILTER, filter.get(), &size) < 0)
    return std::nullopt;
  SocketGroup g{m.interface, text_of(m.group), filter.get()->gf_fmode == MCAST_INCLUDE, {}};
  for (u32 i = 0; i < std::min<u32>(filter.get()->gf_numsrc, kMostSources); i++)
    g.sources.push_back(text_of(filter.get()->gf_slist[i]));
  return g;
}

unsigned index_of(int socket, const std::string &interface) {
  ifreq request{};
  if (interface.size() >= sizeof request.ifr_name) return 0;
  std::memcpy(request.ifr_name, interface.data(), interface.size());
  return ::ioctl(socket, SIOCGIFINDEX, &request) == 0 ? static_cast<unsigned>(request.ifr_ifindex)
                                                      : 0;
}

bool set_sources(int socket, unsigned index, const sockaddr_storage &group, const SocketGroup &g) {
  Filter filter(index, group, g.sources.size());
  filter.get()->gf_fmode = g.only_sources ? MCAST_INCLUDE : MCAST_EXCLUDE;
  for (size_t i = 0; i < g.sources.size(); i++) {
    std::optional<sockaddr_storage> source = address_of(g.sources[i]);
    if (!source) return false;
    std::memcpy(&filter.get()->gf_slist[i], &*source, sizeof *source);
  }
  return ::setsockopt(socket, level_of(group), MCAST_MSFILTER, filter.get(), filter.size()) == 0;
}

}  // namespace

std::vector<SocketGroup> groups_of(int socket, int pid) {
  int family = 0;
  socklen_t size = sizeof family;
  ::getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &family, &size);
  std::vector<Membership> all;
  if (family == AF_INET || family == AF_INET6) all = memberships4(pid);
  if (family == AF_INET6)
    for (Membership &m : memberships6(pid)) all.push_back(m);
  std::vector<SocketGroup> groups;
  for (const Membership &m : all)
    if (std::optional<SocketGroup> g = joined(socket, m)) groups.push_back(std::move(*g));
  return groups;
}

bool join_group(int socket, const SocketGroup &g) {
  std::optional<sockaddr_storage> group = address_of(g.group);
  unsigned index = index_of(socket, g.interface);
  if (!group || index == 0 || g.sources.size() > kMostSources) return false;
  group_req request{};
  request.gr_interface = index;
  std::memcpy(&request.gr_group, &*group, sizeof *group);
  bool done =
      ::setsockopt(socket, level_of(*group), MCAST_JOIN_GROUP, &request, sizeof request) == 0 ||
      errno == EADDRINUSE;
  bool all_sources = !g.only_sources && g.sources.empty();
  return done && (all_sources || set_sources(socket, index, *group, g));
}

}  // namespace ckpt::tools
