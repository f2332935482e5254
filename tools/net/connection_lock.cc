// SPDX-License-Identifier: Apache-2.0
#include "tools/net/connection_lock.h"

#include <arpa/inet.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <functional>
#include <span>
#include <vector>

namespace ckpt::tools {
namespace {

constexpr u32 kCriuMark = 0xC114;
constexpr const char *kChain = "in";
constexpr size_t kFlowsPerBatch = 100;  // a batch must fit into the socket's buffer of 208 KiB
// Offsets in the headers of IPv4 (RFC 791) and IPv6 (RFC 8200).
constexpr u32 kSource4 = 12, kDestination4 = 16, kSource6 = 8, kDestination6 = 24;

// Messages of nfnetlink between a begin and an end: the kernel executes all of them or none.
class Batch {
 public:
  explicit Batch(std::string table) : table_(std::move(table)) {
    begin(NFNL_MSG_BATCH_BEGIN, 0, AF_UNSPEC, htons(NFNL_SUBSYS_NFTABLES));
    end();
  }

  void add_table() {
    begin(type(NFT_MSG_NEWTABLE), NLM_F_CREATE | NLM_F_EXCL, NFPROTO_INET, 0);
    text(NFTA_TABLE_NAME, table_);
    number(NFTA_TABLE_FLAGS, NFT_TABLE_F_OWNER);
    end();
  }

  void add_chain() {
    begin(type(NFT_MSG_NEWCHAIN), NLM_F_CREATE, NFPROTO_INET, 0);
    text(NFTA_CHAIN_TABLE, table_);
    text(NFTA_CHAIN_NAME, kChain);
    nested(NFTA_CHAIN_HOOK, [&] {
      number(NFTA_HOOK_HOOKNUM, NF_INET_LOCAL_IN);
      number(NFTA_HOOK_PRIORITY, 0);
    });
    text(NFTA_CHAIN_TYPE, "filter");
    end();
  }

  void add_drop(const PacketFlow &f) {
    begin(type(NFT_MSG_NEWRULE), NLM_F_CREATE | NLM_F_APPEND, NFPROTO_INET, 0);
    text(NFTA_RULE_TABLE, table_);
    text(NFTA_RULE_CHAIN, kChain);
    nested(NFTA_RULE_EXPRESSIONS, [&] {
      u8 family = f.from.v6 ? NFPROTO_IPV6 : NFPROTO_IPV4, tcp = IPPROTO_TCP;
      meta(NFT_META_NFPROTO);
      compare(NFT_CMP_EQ, {&family, 1});
      meta(NFT_META_L4PROTO);
      compare(NFT_CMP_EQ, {&tcp, 1});
      meta(NFT_META_MARK);
      compare(NFT_CMP_NEQ, {reinterpret_cast<const u8 *>(&kCriuMark), sizeof kCriuMark});
      size_t length = f.from.v6 ? 16 : 4;
      header(NFT_PAYLOAD_NETWORK_HEADER, f.from.v6 ? kSource6 : kSource4,
             {f.from.address.data(), length});
      header(NFT_PAYLOAD_NETWORK_HEADER, f.from.v6 ? kDestination6 : kDestination4,
             {f.to.address.data(), length});
      u16 ports[]{htons(f.from.port), htons(f.to.port)};
      header(NFT_PAYLOAD_TRANSPORT_HEADER, 0, {reinterpret_cast<const u8 *>(ports), sizeof ports});
      drop();
    });
    end();
  }

  std::vector<u8> finish() {
    begin(NFNL_MSG_BATCH_END, 0, AF_UNSPEC, htons(NFNL_SUBSYS_NFTABLES));
    end();
    return std::move(bytes_);
  }

 private:
  static u16 type(int message) { return static_cast<u16>(NFNL_SUBSYS_NFTABLES << 8 | message); }

  void begin(u16 type, int flags, u8 family, u16 resource) {
    message_ = bytes_.size();
    nlmsghdr h{0, type, static_cast<u16>(NLM_F_REQUEST | flags), 0, 0};
    append(&h, sizeof h);
    nfgenmsg g{family, NFNETLINK_V0, resource};
    append(&g, sizeof g);
  }

  void end() {
    u32 length = static_cast<u32>(bytes_.size() - message_);
    std::memcpy(&bytes_[message_ + offsetof(nlmsghdr, nlmsg_len)], &length, sizeof length);
  }

  void nested(u16 type, const std::function<void()> &content) {
    size_t at = bytes_.size();
    nlattr a{0, static_cast<u16>(type | NLA_F_NESTED)};
    append(&a, sizeof a);
    content();
    u16 length = static_cast<u16>(bytes_.size() - at);
    std::memcpy(&bytes_[at], &length, sizeof length);
  }

  void attribute(u16 type, const void *data, size_t size) {
    nlattr a{static_cast<u16>(sizeof a + size), type};
    append(&a, sizeof a);
    append(data, size);
    bytes_.resize(NLMSG_ALIGN(bytes_.size()));
  }
  void text(u16 type, const std::string &s) { attribute(type, s.c_str(), s.size() + 1); }
  void number(u16 type, u32 n) {
    u32 big_endian = htonl(n);
    attribute(type, &big_endian, sizeof big_endian);
  }

  void expression(const char *name, const std::function<void()> &data) {
    nested(NFTA_LIST_ELEM, [&] {
      text(NFTA_EXPR_NAME, name);
      nested(NFTA_EXPR_DATA, data);
    });
  }

  // Loads what the next comparison looks at.
  void meta(u32 key) {
    expression("meta", [&] {
      number(NFTA_META_KEY, key);
      number(NFTA_META_DREG, NFT_REG_1);
    });
  }
  void compare(u32 operation, std::span<const u8> value) {
    expression("cmp", [&] {
      number(NFTA_CMP_SREG, NFT_REG_1);
      number(NFTA_CMP_OP, operation);
      nested(NFTA_CMP_DATA, [&] { attribute(NFTA_DATA_VALUE, value.data(), value.size()); });
    });
  }
  void header(u32 base, u32 offset, std::span<const u8> value) {
    expression("payload", [&] {
      number(NFTA_PAYLOAD_DREG, NFT_REG_1);
      number(NFTA_PAYLOAD_BASE, base);
      number(NFTA_PAYLOAD_OFFSET, offset);
      number(NFTA_PAYLOAD_LEN, static_cast<u32>(value.size()));
    });
    compare(NFT_CMP_EQ, value);
  }
  void drop() {
    expression("immediate", [&] {
      number(NFTA_IMMEDIATE_DREG, NFT_REG_VERDICT);
      nested(NFTA_IMMEDIATE_DATA,
             [&] { nested(NFTA_DATA_VERDICT, [&] { number(NFTA_VERDICT_CODE, NF_DROP); }); });
    });
  }

  void append(const void *data, size_t size) {
    const auto *p = static_cast<const u8 *>(data);
    bytes_.insert(bytes_.end(), p, p + size);
  }

  std::string table_;
  std::vector<u8> bytes_;
  size_t message_ = 0;
};

// The kernel executes a batch inside of send(2), so its errors are there when that returns.
Result<> execute(int netlink, const std::vector<u8> &batch) {
  if (::send(netlink, batch.data(), batch.size(), 0) < 0)
    return fail_errno("cannot send to nftables");
  alignas(nlmsghdr) char answer[16 << 10];
  for (ssize_t n; (n = ::recv(netlink, answer, sizeof answer, MSG_DONTWAIT)) > 0;) {
    auto left = static_cast<unsigned>(n);
    for (auto *h = reinterpret_cast<nlmsghdr *>(answer); NLMSG_OK(h, left);
         h = NLMSG_NEXT(h, left)) {
      if (h->nlmsg_type != NLMSG_ERROR) continue;
      errno = -static_cast<nlmsgerr *>(NLMSG_DATA(h))->error;
      if (errno == EPERM)
        return fail_with_hint(
            "only root may stop packets (CAP_NET_ADMIN, which ckpt-helper does not give)",
            "run this as root");
      if (errno) return fail_errno("nftables refused");
    }
  }
  return {};
}

}  // namespace

Result<ConnectionLock> ConnectionLock::take(const std::vector<PacketFlow> &flows) {
  UniqueFd netlink(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER));
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  if (!netlink || ::bind(netlink.get(), reinterpret_cast<sockaddr *>(&address), sizeof address) < 0)
    return fail_errno("the kernel has no netfilter");
  const std::string table = fmt::format("ckpt-{}", ::getpid());
  Batch first(table);
  first.add_table();
  first.add_chain();
  CKPT_CHECK(execute(netlink.get(), first.finish()));
  for (size_t i = 0; i < flows.size(); i += kFlowsPerBatch) {
    Batch rules(table);
    for (size_t k = i; k < std::min(flows.size(), i + kFlowsPerBatch); k++)
      rules.add_drop(flows[k]);
    CKPT_CHECK(execute(netlink.get(), rules.finish()));
  }
  return ConnectionLock(std::move(netlink));
}

std::string ConnectionLock::advice(const Error &e) {
  const char *standard = "load the kernel module nf_tables (modprobe nf_tables)";
  return fmt::format("{}: {}", e.what, e.hint.empty() ? standard : e.hint);
}

}  // namespace ckpt::tools
