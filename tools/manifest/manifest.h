// SPDX-License-Identifier: Apache-2.0
//
// The manifest of an image as a C++ type, made from the table of its fields (manifest.api). Like
// the whole image it is untrusted input.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/api/json_record.h"
#include "common/base/bytes.h"
#include "common/base/copy_facts.h"
#include "helper/identity.h"
#include "tools/criu/first_code.h"
#include "tools/net/inet_table.h"
#include "tools/net/socket_options.h"
#include "tools/phases.h"
#include "tools/proc/affinity.h"
#include "tools/proc/policies.h"

namespace ckpt::tools::manifest {

using Extent = std::pair<u64, u64>;  // offset and length

#define REQUIRED(name, type, member, since, from, text) type member{};
#define DEFAULTED(name, type, member, value, since, from, text) type member = value;
#define OMITTED(name, type, member, since, from, text) type member{};
#define NOTE(name, type, member, value, since, from, text) type member = value;
#define INLINE(Type, member) Type member;
#define RECORD(Name, text, fields) \
  struct Name {                    \
    fields                         \
  };
#define RECORD_ON(Name, Base, text, fields) \
  struct Name : Base {                      \
    fields                                  \
  };
#define KNOWN(Type, text, fields)
#define ROW(Type, text, fields)
#include "tools/manifest/manifest.api"
#undef REQUIRED
#undef DEFAULTED
#undef OMITTED
#undef NOTE
#undef INLINE
#undef RECORD
#undef RECORD_ON
#undef KNOWN
#undef ROW

// Those fields of a manifest that can be read, for tools that say what is in an image. The others
// are as if they were missing.
Manifest readable_fields(const nlohmann::json &manifest);

u64 data_bytes(const StoredFile &file);

}  // namespace ckpt::tools::manifest

namespace ckpt {

#define FIELD(name, member, presence) \
  &&visit(api::Field{name, api::Presence::presence}, record.member)
#define REQUIRED(name, type, member, since, from, text) FIELD(name, member, Required)
#define DEFAULTED(name, type, member, value, since, from, text) FIELD(name, member, Defaulted)
#define OMITTED(name, type, member, since, from, text) FIELD(name, member, Omitted)
#define NOTE(name, type, member, value, since, from, text) FIELD(name, member, Note)
#define INLINE(Type, member) \
  &&api::Fields<std::remove_cvref_t<decltype(record.member)>>::each(record.member, visit)
#define FIELDS(Type, is_row, fields)        \
  template <>                               \
  struct api::Fields<Type> {                \
    static constexpr bool kIsRow = is_row;  \
    template <class R, class V>             \
    static bool each(R &record, V &visit) { \
      return true fields;                   \
    }                                       \
  };
#define RECORD(Name, text, fields) FIELDS(tools::manifest::Name, false, fields)
#define RECORD_ON(Name, Base, text, fields) \
  FIELDS(tools::manifest::Name, false,      \
         &&api::Fields<tools::manifest::Base>::each(record, visit) fields)
#define KNOWN(Type, text, fields) FIELDS(Type, false, fields)
#define ROW(Type, text, fields) FIELDS(Type, true, fields)
#include "tools/manifest/manifest.api"
#undef FIELD
#undef FIELDS
#undef REQUIRED
#undef DEFAULTED
#undef OMITTED
#undef NOTE
#undef INLINE
#undef RECORD
#undef RECORD_ON
#undef KNOWN
#undef ROW

template <>
struct api::JsonForm<tools::Affinity> {
  using Form = std::string;
  static constexpr const char *kName = "list of processors";
  static std::string form_of(const tools::Affinity &a) { return a.list(); }
  static std::optional<tools::Affinity> from(const std::string &list) {
    return tools::Affinity::parse(list);
  }
};

template <>
struct api::JsonForm<CopyFacts> {
  using Form = std::string;
  static constexpr const char *kName = "description of a copy";
  static std::string form_of(const CopyFacts &facts) { return facts.text(); }
  static std::optional<CopyFacts> from(const std::string &text) { return CopyFacts::parse(text); }
};

template <>
struct api::JsonForm<tools::Endpoint> {
  using Form = tools::manifest::Address;
  static constexpr const char *kName = "address";
  static Form form_of(const tools::Endpoint &e) { return {e.address_text(), e.port}; }
  static std::optional<tools::Endpoint> from(const Form &f) {
    return tools::Endpoint::parse(f.address, f.port);
  }
};

template <>
struct api::JsonForm<tools::InetProtocol> {
  using Form = std::string;
  static constexpr const char *kName = "protocol";
  static std::string form_of(tools::InetProtocol p) {
    return p == tools::InetProtocol::Udp ? "udp" : "tcp";
  }
  static std::optional<tools::InetProtocol> from(const std::string &name) {
    if (name == "udp") return tools::InetProtocol::Udp;
    return name == "tcp" ? std::optional(tools::InetProtocol::Tcp) : std::nullopt;
  }
};

}  // namespace ckpt
