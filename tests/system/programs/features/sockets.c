// SPDX-License-Identifier: Apache-2.0
// Sockets.
#include "feature.h"

#include <arpa/inet.h>
#include <linux/netlink.h>
#include <linux/vm_sockets.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>

static char text[64];

static void pair_of(int kind) {
  int ends[2];
  CHECK(socketpair(AF_UNIX, kind, 0, ends) == 0 && write(ends[0], "queued", 6) == 6);
  checkpoint_here();
  CHECK(read(ends[1], text, sizeof text) == 6 && write(ends[1], "back", 4) == 4);
  CHECK(read(ends[0], text, sizeof text) == 4 && memcmp(text, "back", 4) == 0);
}
static void unix_pair(void) { pair_of(SOCK_STREAM); }
static void unix_datagram_pair(void) { pair_of(SOCK_DGRAM); }
static void unix_packet_pair(void) { pair_of(SOCK_SEQPACKET); }

static struct sockaddr_un address_of(const char *name) {
  struct sockaddr_un a = {.sun_family = AF_UNIX};
  snprintf(a.sun_path, sizeof a.sun_path, "%s", name);
  return a;
}
static int listener_at(const char *name) {
  struct sockaddr_un a = address_of(name);
  int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  NEED(bind(fd, (struct sockaddr *)&a, sizeof a) == 0 && listen(fd, 5) == 0);
  return fd;
}
static int connected_to(const char *name) {
  struct sockaddr_un a = address_of(name);
  int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  CHECK(connect(fd, (struct sockaddr *)&a, sizeof a) == 0);
  return fd;
}
static void unix_listener(void) {
  int listener = listener_at("socket");
  checkpoint_here();
  int client = connected_to("socket"), server = accept(listener, NULL, NULL);
  CHECK(server >= 0 && write(client, "x", 1) == 1 && read(server, text, 1) == 1);
}
static void unix_connected(void) {
  int listener = listener_at("socket"), client = connected_to("socket"),
      server = accept(listener, NULL, NULL);
  checkpoint_here();
  CHECK(write(client, "x", 1) == 1 && read(server, text, 1) == 1);
}
static void unix_not_accepted(void) {
  int listener = listener_at("socket"), client = connected_to("socket");
  CHECK(write(client, "early", 5) == 5);
  checkpoint_here();
  int server = accept(listener, NULL, NULL);
  CHECK(server >= 0 && read(server, text, 5) == 5 && memcmp(text, "early", 5) == 0);
}
static void send_descriptor(int socket, int fd) {
  char byte = 'x', control[CMSG_SPACE(sizeof fd)] = {0};
  struct iovec data = {&byte, 1};
  struct msghdr m = {
      .msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  struct cmsghdr *c = CMSG_FIRSTHDR(&m);
  *c = (struct cmsghdr){
      .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof fd)};
  memcpy(CMSG_DATA(c), &fd, sizeof fd);
  CHECK(sendmsg(socket, &m, 0) == 1);
}
static int receive_descriptor(int socket) {
  char byte, control[CMSG_SPACE(sizeof(int))];
  struct iovec data = {&byte, 1};
  struct msghdr m = {
      .msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  int fd = -1;
  CHECK(recvmsg(socket, &m, 0) == 1 && CMSG_FIRSTHDR(&m));
  memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof fd);
  return fd;
}
static void pipe_in_flight(void) {
  int sockets[2], ends[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0 && pipe(ends) == 0);
  send_descriptor(sockets[0], ends[0]);
  CHECK(close(ends[0]) == 0);
  checkpoint_here();
  int reader = receive_descriptor(sockets[1]);
  CHECK(write(ends[1], "through", 7) == 7 && read(reader, text, 7) == 7);
}
static void write_end_in_flight(void) {
  int sockets[2], ends[2];
  CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, sockets) == 0 && pipe(ends) == 0);
  CHECK(write(ends[1], "before", 6) == 6);
  CHECK(write(sockets[0], "first", 5) == 5);
  send_descriptor(sockets[0], ends[1]);
  CHECK(close(ends[1]) == 0);
  checkpoint_here();
  CHECK(read(sockets[1], text, sizeof text) == 5);
  int writer = receive_descriptor(sockets[1]);
  CHECK(read(ends[0], text, sizeof text) == 6 && write(writer, "after", 5) == 5 &&
        read(ends[0], text, sizeof text) == 5);
}
static void file_in_flight(void) {
  int sockets[2], fd = open("data", O_RDWR | O_CREAT, 0600);
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0 && write(fd, "contents", 8) == 8);
  send_descriptor(sockets[0], fd);
  close(fd);
  checkpoint_here();
  CHECK(pread(receive_descriptor(sockets[1]), text, 8, 0) == 8 && memcmp(text, "contents", 8) == 0);
}
static void abstract_listener(void) {
  struct sockaddr_un a = {.sun_family = AF_UNIX};
  snprintf(a.sun_path + 1, sizeof a.sun_path - 1, "ckpt-feature-%d", (int)getpid());
  int fd = socket(AF_UNIX, SOCK_STREAM, 0), client = socket(AF_UNIX, SOCK_STREAM, 0);
  CHECK(bind(fd, (struct sockaddr *)&a, sizeof a) == 0 && listen(fd, 5) == 0);
  checkpoint_here();
  CHECK(connect(client, (struct sockaddr *)&a, sizeof a) == 0);
}
static void netlink(void) {
  int fd = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
  NEED(fd >= 0);
  struct sockaddr_nl a = {.nl_family = AF_NETLINK};
  CHECK(bind(fd, (struct sockaddr *)&a, sizeof a) == 0);
  checkpoint_here();
  socklen_t size = sizeof a;
  CHECK(getsockname(fd, (struct sockaddr *)&a, &size) == 0 && a.nl_family == AF_NETLINK);
}
static void packet(void) {
  int fd = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL));
  NEED(fd >= 0);
  checkpoint_here();
  int type = 0;
  socklen_t size = sizeof type;
  CHECK(getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_RAW);
}
static void vsock(void) {
  NEED(socket(AF_VSOCK, SOCK_STREAM, 0) >= 0);
  checkpoint_here();
}
static struct sockaddr_in bound(int fd) {
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t size = sizeof a;
  NEED(bind(fd, (struct sockaddr *)&a, sizeof a) == 0 &&
       getsockname(fd, (struct sockaddr *)&a, &size) == 0);
  return a;
}
static void tcp_listener(void) {
  int fd = socket(AF_INET, SOCK_STREAM, 0), client = -1;
  struct sockaddr_in a = bound(fd);
  CHECK(listen(fd, 5) == 0);
  checkpoint_here();
  client = socket(AF_INET, SOCK_STREAM, 0);
  CHECK(connect(client, (struct sockaddr *)&a, sizeof a) == 0 && accept(fd, NULL, NULL) >= 0);
}
static void udp(void) {
  int fd = socket(AF_INET, SOCK_DGRAM, 0);
  struct sockaddr_in a = bound(fd);
  checkpoint_here();
  CHECK(sendto(fd, "self", 4, 0, (struct sockaddr *)&a, sizeof a) == 4 &&
        read(fd, text, sizeof text) == 4);
}
static void raw(void) {
  int fd = socket(AF_INET, SOCK_RAW, IPPROTO_ICMP);
  NEED(fd >= 0);
  checkpoint_here();
  int type = 0;
  socklen_t size = sizeof type;
  CHECK(getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_RAW);
}

static void renamed_after_bind(const char *name) {
  int listener = socket(AF_UNIX, SOCK_STREAM, 0);
  struct sockaddr_un a = {.sun_family = AF_UNIX};
  strcpy(a.sun_path, name);
  CHECK(bind(listener, (struct sockaddr *)&a, sizeof a) == 0 && listen(listener, 5) == 0);
  CHECK(rename(name, "socket") == 0);
  checkpoint_here();
  int client = connected_to("socket"), server = accept(listener, NULL, NULL);
  CHECK(server >= 0 && write(client, "x", 1) == 1 && read(server, text, 1) == 1);
  CHECK(access(name, F_OK) != 0);
}
static void unix_renamed(void) {
  char path[100];
  CHECK(getcwd(path, 80) != NULL);
  renamed_after_bind(strcat(path, "/early"));
}
static void unix_renamed_relative(void) { renamed_after_bind("early"); }

typedef struct {
  int *fd, level, option, value;
} Option;
static void socket_options(void) {
  static int datagram, datagram6, listener, client, server;
  datagram = socket(AF_INET, SOCK_DGRAM, 0);
  datagram6 = socket(AF_INET6, SOCK_DGRAM, 0);
  listener = socket(AF_INET, SOCK_STREAM, 0);
  client = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in a = bound(listener);
  CHECK(listen(listener, 5) == 0 && connect(client, (struct sockaddr *)&a, sizeof a) == 0);
  CHECK((server = accept(listener, NULL, NULL)) >= 0);
  Option all[] = {{&datagram, SOL_SOCKET, SO_TIMESTAMP, 1},
                  {&datagram, IPPROTO_IP, IP_RECVTTL, 1},
                  {&datagram, IPPROTO_IP, IP_RECVERR, 1},
                  {&datagram, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO},
                  {&datagram, IPPROTO_IP, IP_MULTICAST_TTL, 3},
                  {&datagram, IPPROTO_IP, IP_MULTICAST_LOOP, 0},
                  {&datagram6, IPPROTO_IPV6, IPV6_UNICAST_HOPS, 9},
                  {&datagram6, IPPROTO_IPV6, IPV6_RECVTCLASS, 1},
                  {&client, IPPROTO_TCP, TCP_USER_TIMEOUT, 12345},
                  {&client, IPPROTO_TCP, TCP_NOTSENT_LOWAT, 16384},
                  {&client, IPPROTO_TCP, TCP_SYNCNT, 3},
                  {&listener, IPPROTO_TCP, TCP_DEFER_ACCEPT, 7},
                  {&listener, IPPROTO_TCP, TCP_FASTOPEN, 16},
                  {&listener, IPPROTO_TCP, TCP_USER_TIMEOUT, 999}};
  const int count = (int)(sizeof all / sizeof *all);
  for (int i = 0; i < count; i++)
    NEED(*all[i].fd >= 0 &&
         setsockopt(*all[i].fd, all[i].level, all[i].option, &all[i].value, sizeof(int)) == 0);
  NEED(setsockopt(client, IPPROTO_TCP, TCP_CONGESTION, "reno", 4) == 0);
  checkpoint_here();
  for (int i = 0; i < count; i++) {
    int value = -1;
    socklen_t size = sizeof value;
    if (getsockopt(*all[i].fd, all[i].level, all[i].option, &value, &size) != 0 ||
        value != all[i].value)
      fail("option %d of level %d is %d instead of %d", all[i].option, all[i].level, value,
           all[i].value);
  }
  char name[16] = "";
  socklen_t size = sizeof name;
  CHECK(getsockopt(client, IPPROTO_TCP, TCP_CONGESTION, name, &size) == 0 &&
        strcmp(name, "reno") == 0);
}
static int is_member(int fd, const char *group) {
  struct group_filter filter = {.gf_interface = if_nametoindex("lo"), .gf_numsrc = 1};
  struct sockaddr_in *a = (struct sockaddr_in *)&filter.gf_group;
  a->sin_family = AF_INET;
  inet_pton(AF_INET, group, &a->sin_addr);
  socklen_t size = sizeof filter;
  return getsockopt(fd, IPPROTO_IP, MCAST_MSFILTER, &filter, &size) == 0 ? (int)filter.gf_numsrc
                                                                         : -1;
}
static void multicast(void) {
  int fd = socket(AF_INET, SOCK_DGRAM, 0);
  bound(fd);
  struct ip_mreqn any = {.imr_ifindex = (int)if_nametoindex("lo")};
  inet_pton(AF_INET, "239.3.2.1", &any.imr_multiaddr);
  NEED(setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &any, sizeof any) == 0);
  struct ip_mreq_source one = {.imr_interface = {htonl(INADDR_LOOPBACK)}};
  inet_pton(AF_INET, "239.3.2.2", &one.imr_multiaddr);
  inet_pton(AF_INET, "127.0.0.9", &one.imr_sourceaddr);
  NEED(setsockopt(fd, IPPROTO_IP, IP_ADD_SOURCE_MEMBERSHIP, &one, sizeof one) == 0);
  checkpoint_here();
  CHECK(is_member(fd, "239.3.2.1") == 0 && is_member(fd, "239.3.2.2") == 1 &&
        is_member(fd, "239.3.2.3") == -1);
}
static void peer_credentials(void) {
  int listener = listener_at("socket");
  pid_t child = fork();
  if (child == 0) {
    connected_to("socket");
    pause();
  }
  int server = accept(listener, NULL, NULL);
  checkpoint_here();
  struct ucred peer;
  socklen_t size = sizeof peer;
  CHECK(getsockopt(server, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == getuid());
  CHECK(peer.pid == child);
}

// Datagrams that were not read yet, and their senders.
static void unix_datagram_sender(void) {
  struct sockaddr_un to = address_of("to"), from = address_of("from"), sender = {0};
  int receiver = socket(AF_UNIX, SOCK_DGRAM, 0), fd = socket(AF_UNIX, SOCK_DGRAM, 0);
  NEED(bind(receiver, (struct sockaddr *)&to, sizeof to) == 0 &&
       bind(fd, (struct sockaddr *)&from, sizeof from) == 0);
  for (int i = 0; i < 3; i++)
    CHECK(sendto(fd, "queued", 4 + i, 0, (struct sockaddr *)&to, sizeof to) == 4 + i);
  checkpoint_here();
  for (int i = 0; i < 3; i++) {
    socklen_t size = sizeof sender;
    CHECK(recvfrom(receiver, text, sizeof text, MSG_DONTWAIT, (struct sockaddr *)&sender, &size) ==
          4 + i);
    CHECK(strcmp(sender.sun_path, "from") == 0);
  }
}
static void unix_packets(void) {
  int ends[2];
  CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0);
  for (int i = 0; i < 3; i++) CHECK(write(ends[0], "queued", 4 + i) == 4 + i);
  checkpoint_here();
  for (int i = 0; i < 3; i++) CHECK(recv(ends[1], text, sizeof text, MSG_DONTWAIT) == 4 + i);
}
static void udp_unread(void) {
  int fd = socket(AF_INET, SOCK_DGRAM, 0);
  struct sockaddr_in a = bound(fd);
  CHECK(sendto(fd, "queued", 6, 0, (struct sockaddr *)&a, sizeof a) == 6);
  checkpoint_here();
  CHECK(recv(fd, text, sizeof text, MSG_DONTWAIT) == 6);
}
static void raw_unread(void) {
  int fd = socket(AF_INET, SOCK_RAW, 253);  // a number for experiments (RFC 3692)
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  NEED(fd >= 0 && sendto(fd, "queued", 6, 0, (struct sockaddr *)&a, sizeof a) == 6);
  checkpoint_here();
  CHECK(recv(fd, text, sizeof text, MSG_DONTWAIT) == 26);
}
static void packet_unread(void) {
  int fd = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL)), sender = socket(AF_INET, SOCK_DGRAM, 0);
  struct sockaddr_in a = {
      .sin_family = AF_INET, .sin_port = htons(9), .sin_addr = {htonl(INADDR_LOOPBACK)}};
  NEED(fd >= 0 && sendto(sender, "queued", 6, 0, (struct sockaddr *)&a, sizeof a) == 6);
  checkpoint_here();
  CHECK(recv(fd, text, sizeof text, MSG_DONTWAIT) > 0);
}
FEATURES({"unix_pair", unix_pair}, {"unix_datagram_pair", unix_datagram_pair},
         {"unix_packet_pair", unix_packet_pair}, {"unix_listener", unix_listener},
         {"unix_connected", unix_connected}, {"unix_not_accepted", unix_not_accepted},
         {"pipe_in_flight", pipe_in_flight}, {"write_end_in_flight", write_end_in_flight},
         {"file_in_flight", file_in_flight}, {"abstract_listener", abstract_listener},
         {"netlink", netlink}, {"packet", packet}, {"vsock", vsock}, {"tcp_listener", tcp_listener},
         {"udp", udp}, {"raw", raw}, {"unix_renamed", unix_renamed},
         {"unix_renamed_relative", unix_renamed_relative}, {"socket_options", socket_options},
         {"multicast", multicast}, {"peer_credentials", peer_credentials},
         {"unix_datagram_sender", unix_datagram_sender}, {"unix_packets", unix_packets},
         {"udp_unread", udp_unread}, {"raw_unread", raw_unread}, {"packet_unread", packet_unread})
