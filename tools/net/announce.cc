// SPDX-License-Identifier: Apache-2.0
#include "tools/net/announce.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/if_ether.h>
#include <sys/socket.h>

#include <cstring>
#include <map>
#include <string>

#include "common/base/unique_fd.h"

namespace ckpt::tools {
namespace {

using Interfaces = std::map<std::string, sockaddr_ll>;

Interfaces ethernet_interfaces(const ifaddrs *list) {
  Interfaces all;
  for (const ifaddrs *i = list; i; i = i->ifa_next) {
    if (!i->ifa_addr || i->ifa_addr->sa_family != AF_PACKET || !(i->ifa_flags & IFF_UP)) continue;
    sockaddr_ll link{};
    std::memcpy(&link, i->ifa_addr, sizeof link);
    if (link.sll_hatype == ARPHRD_ETHER && link.sll_halen == ETH_ALEN) all[i->ifa_name] = link;
  }
  return all;
}

// A request for our own address, which every neighbour hears and none answers.
ether_arp announcement_of(const sockaddr_ll &link, const in_addr &address) {
  ether_arp arp{};
  arp.ea_hdr.ar_hrd = htons(ARPHRD_ETHER);
  arp.ea_hdr.ar_pro = htons(ETHERTYPE_IP);
  arp.ea_hdr.ar_hln = ETH_ALEN;
  arp.ea_hdr.ar_pln = sizeof address;
  arp.ea_hdr.ar_op = htons(ARPOP_REQUEST);
  std::memcpy(arp.arp_sha, link.sll_addr, ETH_ALEN);
  std::memcpy(arp.arp_spa, &address, sizeof address);
  std::memcpy(arp.arp_tpa, &address, sizeof address);
  return arp;
}

void announce(int socket, sockaddr_ll link, const in_addr &address) {
  ether_arp arp = announcement_of(link, address);
  link.sll_protocol = htons(ETH_P_ARP);
  std::memset(link.sll_addr, 0xff, ETH_ALEN);
  (void)::sendto(socket, &arp, sizeof arp, 0, reinterpret_cast<sockaddr *>(&link), sizeof link);
}

}  // namespace

void announce_addresses() {
  UniqueFd socket(::socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifaddrs *list = nullptr;
  if (!socket || ::getifaddrs(&list) != 0) return;
  Interfaces links = ethernet_interfaces(list);
  for (const ifaddrs *i = list; i; i = i->ifa_next) {
    auto link = links.find(i->ifa_name);
    if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET || link == links.end()) continue;
    sockaddr_in address{};
    std::memcpy(&address, i->ifa_addr, sizeof address);
    announce(socket.get(), link->second, address.sin_addr);
  }
  ::freeifaddrs(list);
}

}  // namespace ckpt::tools
