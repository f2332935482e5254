// SPDX-License-Identifier: Apache-2.0
//
// The arguments of a line of cuda.api as bytes, derived from the type of the function:
//
//     a handle                    its number
//     an integer, a float         its bytes
//     const char *                a text, or nothing
//     T *, const T * (T plain)    T out, or T in
//     handle *                    the number that a new object gets, or 0; then the object's number
//     char *, int                 a text out, and the room for it
//
// Example: CUresult cuStreamGetPriority(CUstream, int *) is sent as {u64 number, u8 1}, and the
// reply of success is {4 bytes}. A line of cuda.api claims that its function's types mean this;
// pointers to arrays, to structures with pointers in them, and to void are for functions of our
// own.
#pragma once

#include <algorithm>
#include <type_traits>

#include "common/base/fields.h"
#include "remote/cuda/handles.h"

namespace ckpt::remote::cuda {

template <class T>
concept Handle = kKindOf<T>
!= Kind::None;

template <class T>
concept Scalar = (std::is_arithmetic_v<T> || std::is_enum_v<T>)&&!Handle<T>;

template <class T>
concept TextIn = std::is_same_v<T, const char *>;

template <class T>
concept TextOut = std::is_same_v<T, char *>;

template <class T>
concept PlainPointer =
    std::is_pointer_v<T> && !Handle<T> && !TextIn<T> && !TextOut<T> &&
    !std::is_void_v<std::remove_pointer_t<T>> &&
    (Handle<std::remove_pointer_t<T>> || std::is_trivially_copyable_v<std::remove_pointer_t<T>>);

template <class T>
concept StructIn = PlainPointer<T> && std::is_const_v<std::remove_pointer_t<T>>;

template <class T>
concept MadeOut = PlainPointer<T> && Handle<std::remove_pointer_t<T>>;

template <class T>
concept ValueOut = PlainPointer<T> && !StructIn<T> && !MadeOut<T>;

inline constexpr size_t kMaxTextOut = 4096;

inline u64 number_of(const void *handle) { return reinterpret_cast<u64>(handle); }

// The client's side of a call. `made`: the number of an object that is made.
template <class T>
void put_argument(Writer &w, T v, u64 made) {
  if constexpr (MadeOut<T>) {
    w.put(v ? made : u64{0});
  } else if constexpr (Handle<T>) {
    w.put(number_of(v));
  } else if constexpr (Scalar<T>) {
    w.raw(&v, sizeof v);
  } else if constexpr (TextIn<T>) {
    w.put(u8{v != nullptr}).str(v ? v : "");
  } else {
    static_assert(PlainPointer<T> || TextOut<T>, "this type needs a function of our own");
    w.put(u8{v != nullptr});
    if constexpr (StructIn<T>)
      if (v) w.raw(v, sizeof *v);
  }
}

// The client's side of a reply of success.
template <class T>
void take_result(Reader &r, T v) {
  if constexpr (MadeOut<T>) {
    if (v) *v = reinterpret_cast<std::remove_pointer_t<T>>(r.get<u64>());
  } else if constexpr (ValueOut<T>) {
    if (!v) return;
    if (ByteView b = r.raw(sizeof *v); r.ok())
      std::memcpy(static_cast<void *>(v), b.data(), sizeof *v);
  }
}

// A text is cut where the program has no room for it.
inline void take_text(Reader &r, char *out, i64 room) {
  std::string_view text = r.str();
  if (room <= 0) return;
  size_t n = std::min(text.size(), static_cast<size_t>(room) - 1);
  std::memcpy(out, text.data(), n);
  out[n] = 0;
}

}  // namespace ckpt::remote::cuda
