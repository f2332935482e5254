// SPDX-License-Identifier: Apache-2.0
//
// What the entries of the client have in common: whether a call can be made, what the thread's
// context is, and the call of a line of cuda.api.
#pragma once

#include <array>
#include <tuple>

#include "remote/cuda/client/link/link.h"
#include "remote/cuda/client/objects/ledger.h"
#include "remote/cuda/codec.h"
#include "remote/cuda/server/device_numbers.h"

namespace ckpt::remote::cuda {

// CUDA_SUCCESS once cuInit has succeeded, as long as the connection stands.
CUresult ready();
// `ended` is called for each object that has ended from now on.
using ObjectEnded = void (*)(u64 number);
void set_ready(ObjectEnded ended);

// The number of the thread's current context; 0: none.
u64 current_context();
// Another context is the thread's current one, as long as this object lives.
class InContext {
 public:
  explicit InContext(u64 context);
  ~InContext();
  InContext(const InContext &) = delete;
  InContext &operator=(const InContext &) = delete;
};

// A kernel has failed: no call may go one way any more, because each one now returns the error.
bool kernel_failed();
CUresult note_error(CUresult e);

inline u16 number(Op op) { return static_cast<u16>(op); }

// An Op with these arguments.
inline CUresult ask(Op op, const Site &site, const Writer &arguments, Bytes *results = nullptr) {
  return note_error(link().ask(number(op), site, {arguments.bytes()}, results));
}
inline CUresult ask(Op op, const Writer &arguments, Bytes *results = nullptr) {
  return ask(op, current_context(), arguments, results);
}

// A reply that is one value; anything else ends the connection.
template <class T>
CUresult read_reply(const Bytes &reply, T &out) {
  Reader r(reply);
  out = r.get<T>();
  return r.done() ? CUDA_SUCCESS : link().malformed();
}

// Why a call of ours has failed: what was to be done, or that the connection is lost.
Failure device_failure(std::string what, CUresult e);

// Another driver and other devices answer from now on.
void forget_what_devices_said();

// Sends parts of code that this server, or the driver in this process, does not have yet.
void send_part(const CodePart &part, const Site &site);
void send_parts(const LoadedCode &code, const Site &site);

// A warning that names an entry, once.
CUresult refuse(const char *entry, const char *why);

// Whether the work of an entry of the driver that needs a stream can be sent one way.
bool can_send(u64 stream);
// The context of a stream; that of a default stream is the current one. 0: there is no such stream.
u64 context_of_stream(u64 stream);
// CUDA_SUCCESS if calls for the stream can be made.
CUresult check_stream(u64 stream);

// The object has ended, on the server as well.
void object_ended(u64 number);

// The kernel of the current context's device (code_versions.h).
u64 kernel_here(u64 kernel);
template <class T>
T here(T v) {
  if constexpr (std::is_same_v<T, CUkernel> || std::is_same_v<T, CUfunction>)
    return reinterpret_cast<T>(kernel_here(number_of(v)));
  return v;
}

// The arguments that a rule of the ledger looks at.
template <class T>
u64 handle_in(T v) {
  if constexpr (Handle<T>) return number_of(v);
  return 0;
}
template <class... A>
u64 first_handle(A... a) {
  u64 first = 0;
  ((first = first ? first : handle_in(a)), ...);
  return first;
}
// As the server has it: what is found in code belongs to it, anything else to the context.
u64 owner_of(Kind made, u64 first, u64 context);

// Where a call is made that is for this object, for something of this context, or for this device:
// in the current context, unless the devices are split, and that one is on the other side.
Site site_of_handle(u64 number);
Site site_beside(u64 context);
inline Site site_of_device(CUdevice device) {
  return {Site::By::Device, current_context(), device};
}

inline constexpr size_t kLines = 256;
// By the number of a line: which argument is a device, or -1; and whether its objects are of no
// device, so that it is for all of them.
inline constexpr auto kDeviceArgument = [] {
  std::array<int, kLines> all{};
#define ASKED(n, symbol, type) all[n] = device_parameter(#symbol);
#include "remote/cuda/cuda.api"
  return all;
}();
inline constexpr auto kOfAllDevices = [] {
  constexpr auto is = [](std::string_view name) {
    return name == "cuLibraryGetKernel" || name == "cuLibraryUnload";
  };
  std::array<bool, kLines> all{};
#define ASKED(n, symbol, type) all[n] = is(#symbol);
#include "remote/cuda/cuda.api"
  return all;
}();

// The device that properties name; for anything else there is none.
template <class T>
void note_device_in(T v, std::optional<CUdevice> &out) {
  if constexpr (std::is_same_v<T, const CUmemPoolProps *>)
    if (v && v->location.type == CU_MEM_LOCATION_TYPE_DEVICE) out = v->location.id;
}

template <u16 Number, class... A>
Site site_of(A... a) {
  if constexpr (kOfAllDevices[Number]) {
    return {Site::By::All, current_context()};
  } else if constexpr (kDeviceArgument[Number] >= 0) {
    return site_of_device(
        static_cast<CUdevice>(std::get<kDeviceArgument[Number]>(std::tuple<A...>(a...))));
  } else {
    std::optional<CUdevice> device;
    (note_device_in(a, device), ...);
    return device ? site_of_device(*device) : site_of_handle(first_handle(a...));
  }
}

// Whether the server may have answered so: the object has the number that was chosen for it, or it
// is one that the program has already (cuModuleGetFunction a second time), or there is none. A
// device's primary context is the same object again when it is retained after its end.
template <class T>
bool may_be_made(T v, u64 chosen) {
  if constexpr (MadeOut<T>) {
    if (!v || number_of(*v) == 0 || number_of(*v) == chosen) return true;
    u64 number = number_of(*v);
    if (kind_of(number) != kKindOf<std::remove_pointer_t<T>>) return false;
    return std::is_same_v<T, CUcontext *> ? ledger().was_numbered(number) : ledger().lives(number);
  }
  return true;
}

// The number of an object that is to be made; and of the one that was.
template <class T>
u64 number_to_make(T v) {
  if constexpr (MadeOut<T>) return v ? ledger().new_number(kKindOf<std::remove_pointer_t<T>>) : 0;
  return 0;
}
template <class T>
u64 number_made(T v) {
  if constexpr (MadeOut<T>) return v ? number_of(*v) : 0;
  return 0;
}

template <u16 Number, class F>
struct Asked;

template <u16 Number, class... A>
struct Asked<Number, CUresult (*)(A...)> {
  static CUresult call(A... a) {
    CUresult e = ready();
    return e == CUDA_SUCCESS ? call_here(here(a)...) : e;
  }

 private:
  static CUresult call_here(A... a) { return call_for(std::index_sequence_for<A...>{}, a...); }
  template <size_t... I>
  static CUresult call_for(std::index_sequence<I...> all, A... a) {
    Writer w;
    [[maybe_unused]] const std::array<u64, sizeof...(A)> chosen{number_to_make(a)...};
    (put_argument(w, a, chosen[I]), ...);
    Bytes results;
    Site site = site_of<Number>(a...);
    CUresult e = note_error(link().ask(Number, site, {w.bytes()}, &results));
    if (e != CUDA_SUCCESS) return e;
    Reader r(results);
    take_results(r, std::tuple<A...>(a...), all);
    if (!r.done() || !(may_be_made(a, chosen[I]) && ...)) return link().malformed();
    if constexpr ((MadeOut<A> || ...)) add_to_ledger(site, a...);
    return e;
  }
  static void add_to_ledger(const Site &site, A... a) {
    Writer w;
    (put_argument(w, a, number_made(a)), ...);
    u64 context = site.context, first = first_handle(a...);
    auto add = [&](u64 made) {
      if (made != 0)
        ledger().add(made, owner_of(kind_of(made), first, context),
                     {Number, context, w.take(), site.by, site.device});
    };
    (add(number_made(a)), ...);
  }
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
  }
};

// As Asked; the object of the first argument has then ended.
template <u16 Number, class F>
struct Ended;

template <u16 Number, class First, class... A>
struct Ended<Number, CUresult (*)(First, A...)> {
  static CUresult call(First first, A... a) {
    CUresult e = Asked<Number, CUresult (*)(First, A...)>::call(first, a...);
    if (e == CUDA_SUCCESS) object_ended(number_of(first));
    return e;
  }
};

// As Asked; sets something to the value of argument Value. Other arguments say what it is: a
// property of an object, else of a device, else of the current context.
template <u16 Number, class F, size_t Value>
struct Set;

template <u16 Number, class First, class... A, size_t Value>
struct Set<Number, CUresult (*)(First, A...), Value> {
  static CUresult call(First first, A... a) { return call_here(here(first), here(a)...); }

 private:
  static CUresult call_here(First first, A... a) {
    CUresult e = Asked<Number, CUresult (*)(First, A...)>::call(first, a...);
    if (e != CUDA_SUCCESS) return e;
    Writer key, arguments;
    size_t i = 0;
    Site site = site_of<Number>(first, a...);
    u64 of = 0, context = site.context;
    auto note = [&](auto v) {
      put_argument(arguments, v, 0);
      if (i++ == Value) return;
      put_argument(key, v, 0);
      of = of ? of : handle_in(v);
    };
    note(first);
    (note(a), ...);
    constexpr bool of_device = std::is_same_v<First, CUdevice>;
    if (of == 0 && !of_device) key.put(of = context);
    key.put(Number);
    ledger().set(of, std::string(text(key.bytes())),
                 {Number, context, arguments.take(), site.by, site.device});
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
    (put_argument(w, a, 0), ...);
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

// The numbers of cuda.api's lines.
#define ASKED(n, symbol, type) inline constexpr u16 line_##symbol = n;
#include "remote/cuda/cuda.api"

// cuda.api's functions.
#define ASKED(n, symbol, type) inline constexpr type entry_##symbol = &Asked<n, type>::call;
#define ENDS(n, symbol, type) inline constexpr type entry_##symbol = &Ended<n, type>::call;
#define SENT(n, symbol, type) inline constexpr type entry_##symbol = &Sent<n, type>::call;
#define SETS(n, symbol, type, value) \
  inline constexpr type entry_##symbol = &Set<n, type, value>::call;
#define HANDED(n, symbol, type)                               \
  inline constexpr type ask_##symbol = &Asked<n, type>::call; \
  std::remove_pointer_t<type> entry_##symbol;
#define HANDED_END(n, symbol, type)                           \
  inline constexpr type ask_##symbol = &Ended<n, type>::call; \
  std::remove_pointer_t<type> entry_##symbol;
#define HANDED_WAIT(n, symbol, type) HANDED(n, symbol, type)
#define HANDED_SENT(n, symbol, type)                          \
  inline constexpr type send_##symbol = &Sent<n, type>::call; \
  std::remove_pointer_t<type> entry_##symbol;
#define OURS(symbol, type) std::remove_pointer_t<type> entry_##symbol;
#include "remote/cuda/cuda.api"

}  // namespace ckpt::remote::cuda
