// SPDX-License-Identifier: Apache-2.0
//
// Each function of an API is described once, on one line of a `.api` table: what the call does and
// what each parameter means. The types come from the vendor's header; the table adds what a C
// prototype cannot express. call.h derives an encoder and a decoder from it.
#pragma once

#include <array>

#include "common/base/bytes.h"

namespace ckpt::api {

enum class Dir : u8 {
  Value,  // a scalar
  Use,    // a live object, sent as its number; NULL is sent as 0
  Uses,   // an array of them
  In,     // bytes
  Fixed,  // an array of scalars, or NULL
  Text,   // a C string, or NULL
  Null,   // a pointer that is never sent: the far side passes NULL
  Error,  // where an error code is returned
  Made,   // where a new object is returned (its number is in the header of the message)
};

// One parameter. `count` >= 0 is the index of the parameter that holds the number of elements
// (bytes for In); `count` < 0 means a fixed number of -count elements.
struct Role {
  const char *name;
  Dir dir;
  u8 kind = 0;
  int count = 0;
};

consteval Role val(const char *n) { return {n, Dir::Value}; }
template <class K>
consteval Role use(const char *n, K kind) {
  return {n, Dir::Use, static_cast<u8>(kind)};
}
template <class K>
consteval Role uses(const char *n, K kind, int count) {
  return {n, Dir::Uses, static_cast<u8>(kind), count};
}
consteval Role in(const char *n, int count) { return {n, Dir::In, 0, count}; }
consteval Role in_struct(const char *n, int bytes) { return {n, Dir::In, 0, -bytes}; }
consteval Role fixed(const char *n, int elements) { return {n, Dir::Fixed, 0, -elements}; }
consteval Role counted(const char *n, int count) { return {n, Dir::Fixed, 0, count}; }
consteval Role str(const char *n) { return {n, Dir::Text}; }
consteval Role null(const char *n) { return {n, Dir::Null}; }
consteval Role error(const char *n) { return {n, Dir::Error}; }
template <class K>
consteval Role made(const char *n, K kind) {
  return {n, Dir::Made, static_cast<u8>(kind)};
}

template <size_t N>
struct Spec {
  const char *name;
  u16 op;     // its number on the wire; assigned by hand, append-only
  u8 result;  // kind of the object that the call returns; 0: it returns a status code
  std::array<Role, N> args;

  consteval int find(Dir dir) const {
    for (size_t i = 0; i < N; i++)
      if (args[i].dir == dir) return static_cast<int>(i);
    return -1;
  }
};

template <class K>
consteval auto line(const char *name, u16 op, K result, auto... roles) {
  return Spec<sizeof...(roles)>{name, op, static_cast<u8>(result), {roles...}};
}

}  // namespace ckpt::api
