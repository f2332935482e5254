// SPDX-License-Identifier: Apache-2.0
//
// The codec that is derived from a line of a `.api` table: encode() writes the arguments of a call
// on the near side, Arguments reads them on the far side and calls the real function. `spec<&fn>`
// is the line.
//
// Objects travel as numbers. The near side supplies `u64 number(kind, handle)`, the far side
// `void *object(kind, number)` (nullptr: no such object).
#pragma once

#include <algorithm>
#include <memory>
#include <tuple>
#include <vector>

#include "common/api/roles.h"

namespace ckpt::api {

template <auto Fn>
inline constexpr auto spec = nullptr;

namespace detail {

// The number of elements (bytes for In) that pointer parameter I points to.
template <auto Fn, size_t I, class Tuple>
size_t element_count(const Tuple &args) {
  constexpr Role r = spec<Fn>.args[I];
  if constexpr (r.count < 0)
    return -r.count;
  else
    return std::get<r.count>(args);
}

template <auto Fn, size_t I, class Out, class Near, class Tuple>
void encode_one(Out &w, const Near &near, const Tuple &args) {
  constexpr Role r = spec<Fn>.args[I];
  const auto v = std::get<I>(args);
  if constexpr (r.dir == Dir::Value) {
    static_assert(std::is_integral_v<decltype(+v)>, "a pointer needs a role");
    w.put(v);
  } else if constexpr (r.dir == Dir::Use) {
    w.put(u64{near.number(r.kind, v)});
  } else if constexpr (r.dir == Dir::Uses) {
    u32 n = static_cast<u32>(std::get<r.count>(args));
    w.put(n);
    for (u32 i = 0; i < n; i++) w.put(u64{near.number(r.kind, v[i])});
  } else if constexpr (r.dir == Dir::In) {
    w.blob(view(v, element_count<Fn, I>(args)));
  } else if constexpr (r.dir == Dir::Fixed) {
    w.blob(view(v, v ? element_count<Fn, I>(args) * sizeof(*v) : 0));
  } else if constexpr (r.dir == Dir::Text) {
    w.blob(view(v, v ? std::strlen(v) + 1 : 0));
  }
}

}  // namespace detail

// `w` is a Writer, or has its functions put() and blob().
template <auto Fn, class Out, class Near, class... A>
void encode(Out &w, const Near &near, A... a) {
  static_assert(spec<Fn>.args.size() == sizeof...(A), "the table and the vendor's header disagree");
  std::tuple<A...> args{a...};
  [&]<size_t... I>(std::index_sequence<I...>) { (detail::encode_one<Fn, I>(w, near, args), ...); }
  (std::index_sequence_for<A...>{});
}

template <auto Fn>
class Arguments;

template <class R, class... A, R (*Fn)(A...)>
class Arguments<Fn> {
 public:
  static_assert(spec<Fn>.args.size() == sizeof...(A), "the table and the vendor's header disagree");

  // Decodes the arguments; ok() tells whether all were complete and named live objects.
  template <class Far>
  Arguments(Reader &in, const Far &far) {
    [&]<size_t... I>(std::index_sequence<I...>) {
      (decode_one<I>(in, far), ...);
      ok_ = ok_ && in.ok() && (has_its_size<I>() && ...);
    }
    (std::index_sequence_for<A...>{});
  }
  Arguments(const Arguments &) = delete;

  bool ok() const { return ok_; }
  R call() { return std::apply(Fn, args_); }
  // The value that the function gets for a parameter.
  template <size_t I>
  auto get() const {
    return std::get<I>(args_);
  }

  template <size_t I, class V>
  void set(V value) {
    std::get<I>(args_) = value;
  }

  int error = 0;         // what an Error parameter pointed to
  void *made = nullptr;  // what a Made parameter pointed to

 private:
  template <size_t I, class Far>
  void decode_one(Reader &in, const Far &far) {
    constexpr Role r = spec<Fn>.args[I];
    using T = std::tuple_element_t<I, std::tuple<A...>>;
    T &v = std::get<I>(args_);
    if constexpr (r.dir == Dir::Value) {
      v = in.get<T>();
    } else if constexpr (r.dir == Dir::Use) {
      u64 number = in.get<u64>();
      v = static_cast<T>(far.object(r.kind, number));
      if (number != 0 && !v) ok_ = false;
    } else if constexpr (r.dir == Dir::Uses) {
      v = static_cast<T>(decode_list(in, far, r.kind));
      std::get<r.count>(args_) =
          static_cast<std::tuple_element_t<r.count, std::tuple<A...>>>(listed_);
    } else if constexpr (r.dir == Dir::In || r.dir == Dir::Fixed) {
      ByteView b = in.blob();
      sizes_[I] = b.size();
      v = static_cast<T>(keep(b));
    } else if constexpr (r.dir == Dir::Text) {
      ByteView b = in.blob();
      if (!b.empty() && b.back() != std::byte{0}) ok_ = false;
      v = ok_ && !b.empty() ? reinterpret_cast<T>(b.data()) : nullptr;
    } else if constexpr (r.dir == Dir::Error) {
      v = &error;
    } else if constexpr (r.dir == Dir::Made) {
      v = reinterpret_cast<T>(&made);
    } else {
      v = nullptr;
    }
  }

  // Leaves out objects that no longer exist: a completed event need not be waited for. Leaves out
  // repetitions too: after a restore one device may stand for several, and not every driver accepts
  // the same device twice.
  template <class Far>
  void *decode_list(Reader &in, const Far &far, u8 kind) {
    u32 n = in.get<u32>();
    if (n > in.left() / sizeof(u64)) {
      ok_ = false;
      n = 0;
    }
    listed_ = 0;
    if (n == 0) return nullptr;
    auto &list = lists_.emplace_back();
    for (u32 i = 0; i < n; i++)
      if (void *o = far.object(kind, in.get<u64>()))
        if (std::find(list.begin(), list.end(), o) == list.end()) list.push_back(o);
    listed_ = list.size();
    return list.empty() ? nullptr : list.data();
  }

  // Whether a pointer came with as many bytes as the function will read. Checked when all arguments
  // are decoded, because the parameter that holds the count may follow the pointer.
  template <size_t I>
  bool has_its_size() const {
    constexpr Role r = spec<Fn>.args[I];
    if constexpr (r.dir == Dir::In || r.dir == Dir::Fixed) {
      using E = std::remove_cv_t<std::remove_pointer_t<std::tuple_element_t<I, std::tuple<A...>>>>;
      size_t count = detail::element_count<Fn, I>(args_);
      if constexpr (r.dir == Dir::In) return sizes_[I] == count;
      if constexpr (!std::is_void_v<E>) return sizes_[I] == 0 || sizes_[I] == count * sizeof(E);
    }
    return true;
  }

  // A copy that is aligned for any scalar; the bytes in the ring are not.
  const void *keep(ByteView b) {
    if (b.empty()) return nullptr;
    auto &copy =
        copies_.emplace_back(new std::max_align_t[b.size() / sizeof(std::max_align_t) + 1]);
    std::memcpy(copy.get(), b.data(), b.size());
    return copy.get();
  }

  std::tuple<A...> args_{};
  std::vector<std::vector<void *>> lists_;
  std::vector<std::unique_ptr<std::max_align_t[]>> copies_;
  std::array<size_t, sizeof...(A)> sizes_{};
  size_t listed_ = 0;
  bool ok_ = true;
};

}  // namespace ckpt::api
