// SPDX-License-Identifier: Apache-2.0
#include "common/managed/messages.h"

#include <concepts>

#include "common/api/record.h"

namespace ckpt {

#define MESSAGE(Type, fields)                                 \
  template <>                                                 \
  struct api::Fields<Type> {                                  \
    static constexpr bool kIsRow = true;                      \
    template <class R, class V>                               \
    static bool each([[maybe_unused]] R &record, V &&visit) { \
      (void)visit;                                            \
      return true fields;                                     \
    }                                                         \
  };
#define FIELD(type, name) &&visit(api::Field{#name}, record.name)
#define TO_MANAGER(Name, number, fields) MESSAGE(managed::to_manager::Name, fields)
#define TO_PROGRAM(Name, number, fields) MESSAGE(managed::to_program::Name, fields)
#include "common/managed/messages.api"
#undef MESSAGE
#undef FIELD
#undef TO_MANAGER
#undef TO_PROGRAM

}  // namespace ckpt

namespace ckpt::managed {
namespace {

template <class T>
void write(Writer &w, const T &value) {
  w.put(value);
}
void write(Writer &w, const std::string &value) { w.str(value); }

template <class T>
bool read(Reader &r, T &value) {
  value = r.get<T>();
  return r.ok();
}
bool read(Reader &r, bool &value) {
  u8 byte = r.get<u8>();
  value = byte == 1;
  return r.ok() && byte <= 1;
}
bool read(Reader &r, Standing &value) {
  value = r.get<Standing>();
  return r.ok() && value <= Standing::Suspended;
}
bool read(Reader &r, std::string &value) {
  value = r.str();
  return r.ok();
}

template <class M>
void write_fields(Writer &w, const M &message) {
  api::Fields<M>::each(message, [&w](const api::Field &, const auto &value) {
    write(w, value);
    return true;
  });
}

// The name of the first malformed field; null: all are valid.
template <class M>
const char *read_fields(Reader &r, M &message) {
  const char *bad = nullptr;
  api::Fields<M>::each(message, [&](const api::Field &f, auto &value) {
    bool valid = read(r, value);
    if (!valid) bad = f.name;
    return valid;
  });
  return bad;
}

template <class Variant, class M>
Result<Variant> decode_as(const char *name, ByteView body) {
  Reader r(body);
  M message;
  if (const char *bad = read_fields(r, message))
    return fail("the message {} is malformed at \"{}\"", name, bad);
  if (!r.done()) return fail("the message {} has {} extra bytes", name, r.left());
  return Variant(std::move(message));
}

template <class Variant>
Writer encode_any(const Variant &message) {
  Writer w;
  auto put = [&w](const auto &m) {
    if constexpr (!std::is_same_v<std::decay_t<decltype(m)>, std::monostate>) write_fields(w, m);
  };
  std::visit(put, message);
  return w;
}

template <class Variant>
u16 number_of_any(const Variant &message) {
  auto number = [](const auto &m) -> u16 {
    if constexpr (std::is_same_v<std::decay_t<decltype(m)>, std::monostate>)
      return 0;
    else
      return m.kNumber;
  };
  return std::visit(number, message);
}

}  // namespace

u16 number_of(const ToManager &message) { return number_of_any(message); }
u16 number_of(const ToProgram &message) { return number_of_any(message); }
Writer encode(const ToManager &message) { return encode_any(message); }
Writer encode(const ToProgram &message) { return encode_any(message); }

const char *name_of(const ToManager &message) {
  switch (number_of(message)) {
#define TO_MANAGER(Name, number, fields) \
  case number:                           \
    return #Name;
#define TO_PROGRAM(Name, number, fields)
#include "common/managed/messages.api"
#undef TO_MANAGER
#undef TO_PROGRAM
    default: return "nothing";
  }
}

const char *name_of(const ToProgram &message) {
  switch (number_of(message)) {
#define TO_MANAGER(Name, number, fields)
#define TO_PROGRAM(Name, number, fields) \
  case number:                           \
    return #Name;
#include "common/managed/messages.api"
#undef TO_MANAGER
#undef TO_PROGRAM
    default: return "nothing";
  }
}

Result<ToManager> decode_to_manager(u16 number, ByteView body) {
  switch (number) {
#define TO_MANAGER(Name, number, fields) \
  case number:                           \
    return decode_as<ToManager, to_manager::Name>(#Name, body);
#define TO_PROGRAM(Name, number, fields)
#include "common/managed/messages.api"
#undef TO_MANAGER
#undef TO_PROGRAM
    default: return fail("there is no message {} to the Manager", number);
  }
}

Result<ToProgram> decode_to_program(u16 number, ByteView body) {
  switch (number) {
#define TO_MANAGER(Name, number, fields)
#define TO_PROGRAM(Name, number, fields) \
  case number:                           \
    return decode_as<ToProgram, to_program::Name>(#Name, body);
#include "common/managed/messages.api"
#undef TO_MANAGER
#undef TO_PROGRAM
    default: return fail("there is no message {} to a program", number);
  }
}

}  // namespace ckpt::managed
