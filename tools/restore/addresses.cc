// SPDX-License-Identifier: Apache-2.0
#include "tools/restore/addresses.h"

#include <sys/un.h>

#include <algorithm>
#include <charconv>

namespace ckpt::tools {
namespace {

constexpr std::string_view kNumber = "%n";

bool is_unix_name(std::string_view text) {
  return text.size() > 1 && (text.front() == '/' || text.front() == '@');
}

std::optional<u16> port_in(std::string_view text) {
  u16 port = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && port != 0 ? std::optional(port) : std::nullopt;
}

struct IpText {
  std::optional<Endpoint> address;
  std::string ports;
};

// "8080", "127.0.0.1:8080" or "[::1]:8080".
std::optional<IpText> ip_in(const std::string &text) {
  size_t colon = text.rfind(':');
  if (colon == text.npos) return IpText{std::nullopt, text};
  std::string address = text.substr(0, colon);
  if (address.starts_with('[') && address.ends_with(']'))
    address = address.substr(1, address.size() - 2);
  std::optional<Endpoint> parsed = Endpoint::parse(address, 0);
  if (!parsed) return std::nullopt;
  return IpText{parsed, text.substr(colon + 1)};
}

bool read_old(AddressChange &c, const std::string &text) {
  std::optional<IpText> ip = ip_in(text);
  std::optional<u16> port = ip ? port_in(ip->ports) : std::nullopt;
  if (!port) return false;
  c.old_address = ip->address;
  c.old_port = *port;
  return true;
}

bool read_new(AddressChange &c, const std::string &text) {
  std::optional<IpText> ip = ip_in(text);
  if (!ip) return false;
  size_t dash = ip->ports.find('-');
  std::optional<u16> first = port_in(std::string_view(ip->ports).substr(0, dash));
  std::optional<u16> last =
      dash == ip->ports.npos ? first : port_in(std::string_view(ip->ports).substr(dash + 1));
  if (!first || !last || *last < *first) return false;
  c.new_address = ip->address;
  c.first_port = *first;
  c.last_port = *last;
  return true;
}

Failure malformed(const std::string &text) {
  return fail_with_hint(fmt::format("--listen {} names no addresses", text),
                        "write OLD=NEW: 8080=9001, 8080=9001-9004, 127.0.0.1:80=10.0.0.2:80, "
                        "/run/a.sock=/run/a-%n.sock or @name=@name-%n");
}

// unix(7): a path or an abstract name has room for this many bytes; "%n" becomes a number.
bool has_room(const std::string &name) {
  constexpr size_t kNumberBytes = 10;
  return name.size() + kNumberBytes < sizeof sockaddr_un::sun_path;
}

Result<> check_unix(const AddressChange &c) {
  if (c.old_name.front() != c.new_name.front())
    return fail_with_hint(fmt::format("--listen {} makes an abstract name of a path, or a path of "
                                      "an abstract name",
                                      c.given),
                          "leave it the same kind");
  if (!has_room(c.new_name))
    return fail_with_hint(fmt::format("--listen {}: the new name is too long", c.given),
                          "choose a shorter name: UNIX sockets have room for 107 bytes");
  return {};
}

Result<> check_ip(const AddressChange &c) {
  bool other_family = c.old_address && c.new_address && c.old_address->v6 != c.new_address->v6;
  if (!other_family) return {};
  return fail_with_hint(fmt::format("--listen {} changes between IPv4 and IPv6", c.given),
                        "name two addresses of the same family");
}

}  // namespace

std::string with_number(std::string text, u32 number) {
  for (size_t at = 0; (at = text.find(kNumber, at)) != text.npos;)
    text.replace(at, kNumber.size(), std::to_string(number));
  return text;
}

bool AddressChange::matches(const Endpoint &e) const {
  bool same_address =
      !old_address || (old_address->v6 == e.v6 && old_address->address == e.address);
  bool possible = !new_address || new_address->v6 == e.v6;
  return !is_unix() && same_address && possible && old_port == e.port;
}

Result<AddressChange> AddressChange::parse(const std::string &text) {
  AddressChange c{.given = text};
  size_t equals = text.find('=');
  if (equals == text.npos) return malformed(text);
  std::string from = text.substr(0, equals), to = text.substr(equals + 1);
  if (is_unix_name(from) != is_unix_name(to)) return malformed(text);
  if (is_unix_name(from)) {
    c.old_name = from;
    c.new_name = to;
    return check_unix(c).transform([&c] { return c; });
  }
  if (!read_old(c, from) || !read_new(c, to)) return malformed(text);
  return check_ip(c).transform([&c] { return c; });
}

Result<Addresses> Addresses::parse(const std::vector<std::string> &texts) {
  Addresses all;
  for (const std::string &text : texts) {
    CKPT_TRY(AddressChange change, AddressChange::parse(text));
    all.changes_.push_back(std::move(change));
  }
  return all;
}

std::optional<Endpoint> Addresses::instead_of(const Endpoint &e, u32 number) const {
  auto c = std::ranges::find_if(changes_, [&](const AddressChange &x) { return x.matches(e); });
  if (c == changes_.end()) return std::nullopt;
  Endpoint instead = c->new_address.value_or(e);
  u32 step = c->first_port == c->last_port ? 0 : number - 1;
  instead.port = static_cast<u16>(c->first_port + step);
  return instead;
}

std::optional<std::string> Addresses::instead_of(const std::string &unix_name, u32 number) const {
  auto c = std::ranges::find(changes_, unix_name, &AddressChange::old_name);
  if (unix_name.empty() || c == changes_.end()) return std::nullopt;
  return with_number(c->new_name, number);
}

}  // namespace ckpt::tools
