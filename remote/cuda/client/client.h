// SPDX-License-Identifier: Apache-2.0
//
// What the entries of the client have in common: whether a call can be made, what the thread's
// context is, which objects live, and the call of a line of cuda.api.
#pragma once

#include <mutex>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "remote/cuda/client/link.h"
#include "remote/cuda/codec.h"

namespace ckpt::remote::cuda {

// CUDA_SUCCESS once cuInit has succeeded, as long as the connection stands.
CUresult ready();
void set_ready();

// The number of the thread's current context; 0: none.
u64 current_context();

// The ledger: the objects that live, by their numbers. Thread-safe.
class Ledger {
 public:
  void add(u64 number, u64 context);
  void end(u64 number);
  // Ends everything that was made in the context; not the context itself.
  void end_all_of(u64 context);
  bool lives(u64 number) const;
  // The context that was current when it was made; no value: it does not live.
  std::optional<u64> context_of(u64 number) const;
  void set_device(u64 context, CUdevice device);
  std::optional<CUdevice> device_of(u64 context) const;
  // Whether a launch of this shape has succeeded before, so that another one cannot be wrong.
  bool knows_shape(u64 shape) const;
  void add_shape(u64 shape);

 private:
  mutable std::mutex mutex_;
  std::unordered_map<u64, u64> contexts_;  // of all objects
  std::unordered_map<u64, CUdevice> devices_;
  std::unordered_set<u64> shapes_;
};
Ledger &ledger();

// A kernel has failed: no call may go one way any more, because each one now returns the error.
bool kernel_failed();
CUresult note_error(CUresult e);

inline u16 number(Op op) { return static_cast<u16>(op); }

// An Op with these arguments.
inline CUresult ask(Op op, const Writer &arguments, Bytes *results = nullptr) {
  return note_error(link().ask(number(op), current_context(), {arguments.bytes()}, results));
}

// A warning that names an entry, once.
CUresult refuse(const char *entry, const char *why);

// Whether the work of an entry of the driver that needs a stream can be sent one way.
bool can_send(u64 stream);

template <u16 Number, class F>
struct Asked;

template <u16 Number, class... A>
struct Asked<Number, CUresult (*)(A...)> {
  static CUresult call(A... a) {
    if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
    Writer w;
    (put_argument(w, a), ...);
    Bytes results;
    CUresult e = note_error(link().ask(Number, current_context(), {w.bytes()}, &results));
    if (e != CUDA_SUCCESS) return e;
    Reader r(results);
    take_results(r, std::tuple<A...>(a...), std::index_sequence_for<A...>{});
    return r.done() ? e : link().malformed();
  }

 private:
  template <size_t... I>
  static void take_results([[maybe_unused]] Reader &r, [[maybe_unused]] const std::tuple<A...> &all,
                           std::index_sequence<I...>) {
    (take<I>(r, all), ...);
  }
  template <size_t I>
  static void take(Reader &r, const std::tuple<A...> &all) {
    auto v = std::get<I>(all);
    using T = decltype(v);
    if constexpr (TextOut<T>) {
      if (v) take_text(r, v, static_cast<i64>(std::get<I + 1>(all)));
    } else {
      take_result(r, v);
    }
    if constexpr (MadeOut<T>)
      if (v) ledger().add(number_of(*v), current_context());
  }
};

// As Asked; the object of the first argument has then ended.
template <u16 Number, class F>
struct Ended;

template <u16 Number, class First, class... A>
struct Ended<Number, CUresult (*)(First, A...)> {
  static CUresult call(First first, A... a) {
    CUresult e = Asked<Number, CUresult (*)(First, A...)>::call(first, a...);
    if (e == CUDA_SUCCESS) ledger().end(number_of(first));
    return e;
  }
};

// One way, if all handles live and no other argument is set, so that the driver cannot refuse it.
template <u16 Number, class F>
struct Sent;

template <u16 Number, class... A>
struct Sent<Number, CUresult (*)(A...)> {
  static CUresult call(A... a) {
    if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
    if (kernel_failed() || !(cannot_be_wrong(a) && ...))
      return Asked<Number, CUresult (*)(A...)>::call(a...);
    Writer w;
    (put_argument(w, a), ...);
    link().send(Number, current_context(), {w.bytes()});
    return CUDA_SUCCESS;
  }

 private:
  template <class T>
  static bool cannot_be_wrong(T v) {
    if constexpr (std::is_same_v<T, CUstream>) {
      return can_send(number_of(v));
    } else if constexpr (Handle<T>) {
      return ledger().context_of(number_of(v)) == current_context();
    } else {
      return v == T{};
    }
  }
};

// The form for the per-thread default stream.
template <class T>
T per_thread(T v) {
  if constexpr (std::is_same_v<T, CUstream>) return v ? v : CU_STREAM_PER_THREAD;
  return v;
}

template <auto Fn>
struct PerThread;

template <class... A, CUresult (*Fn)(A...)>
struct PerThread<Fn> {
  static CUresult call(A... a) { return Fn(per_thread(a)...); }
};

// cuda.api's functions.
#define ASKED(n, symbol, type) inline constexpr type entry_##symbol = &Asked<n, type>::call;
#define WAITS(n, symbol, type) ASKED(n, symbol, type)
#define ENDS(n, symbol, type) inline constexpr type entry_##symbol = &Ended<n, type>::call;
#define SENT(n, symbol, type) inline constexpr type entry_##symbol = &Sent<n, type>::call;
#define HANDED(n, symbol, type)                               \
  inline constexpr type ask_##symbol = &Asked<n, type>::call; \
  std::remove_pointer_t<type> entry_##symbol;
#define HANDED_END(n, symbol, type)                           \
  inline constexpr type ask_##symbol = &Ended<n, type>::call; \
  std::remove_pointer_t<type> entry_##symbol;
#define OURS(symbol, type) std::remove_pointer_t<type> entry_##symbol;
#define PER_THREAD(symbol, type, legacy)
#include "remote/cuda/cuda.api"
#undef ASKED
#undef WAITS
#undef ENDS
#undef SENT
#undef HANDED
#undef HANDED_END
#undef OURS
#undef PER_THREAD

}  // namespace ckpt::remote::cuda
