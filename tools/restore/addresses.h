// SPDX-License-Identifier: Apache-2.0
//
// ckpt-start --listen OLD=NEW: other addresses for the sockets of a copy.
//
//   OLD             8080, 127.0.0.1:8080, [::1]:8080    TCP and UDP sockets of this port
//                   /run/a.sock, @name                  UNIX sockets, @: an abstract name
//   NEW             the same kind of address. A port may be a range with a port for each copy
//                   (9001-9004, 10.0.0.2:9001-9004), and "%n" in a name is the copy's number.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "tools/net/inet_table.h"

namespace ckpt::tools {

struct AddressChange {
  std::string given;                                 // the value of the option, for messages
  std::optional<Endpoint> old_address, new_address;  // without the port; none: any, the old one
  u16 old_port = 0, first_port = 0, last_port = 0;
  std::string old_name, new_name;  // of UNIX sockets

  bool is_unix() const { return !old_name.empty(); }
  bool matches(const Endpoint &e) const;
  static Result<AddressChange> parse(const std::string &text);
};

class Addresses {
 public:
  static Result<Addresses> parse(const std::vector<std::string> &texts);

  // The address of copy `number` instead of this one: the first change that matches counts. No
  // value: it stays. `number` is within the range of the ports.
  std::optional<Endpoint> instead_of(const Endpoint &e, u32 number) const;
  std::optional<std::string> instead_of(const std::string &unix_name, u32 number) const;

  const std::vector<AddressChange> &changes() const { return changes_; }

 private:
  std::vector<AddressChange> changes_;
};

// `text` with the copy's number in the place of each "%n".
std::string with_number(std::string text, u32 number);

}  // namespace ckpt::tools
