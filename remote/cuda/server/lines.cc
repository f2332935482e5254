// SPDX-License-Identifier: Apache-2.0
//
// The lines of cuda.api: arguments are decoded by the type of the driver's function (codec.h).
#include <algorithm>
#include <array>
#include <tuple>

#include "remote/cuda/codec.h"
#include "remote/cuda/server/server.h"

namespace ckpt::remote::cuda {
namespace {

// A parameter between the wire and the driver.
template <class T>
struct Parameter {
  T value{};

  CUresult take(Call &c) {
    if (ByteView b = c.in.raw(sizeof value); c.in.ok()) std::memcpy(&value, b.data(), sizeof value);
    return CUDA_SUCCESS;
  }
  T get() { return value; }
  void put_result(Call &, u64) {}
};

template <Handle T>
struct Parameter<T> {
  T value{};
  u64 number = 0;

  CUresult take(Call &c) {
    number = c.in.get<u64>();
    bool special = number == 0 || (kKindOf<T> == Kind::Stream && number <= kSpecialStreams);
    value = special ? reinterpret_cast<T>(number)
                    : static_cast<T>(c.server.objects.real(kKindOf<T>, number));
    return special || value ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
  }
  T get() { return value; }
  void put_result(Call &, u64) {}
};

template <TextIn T>
struct Parameter<T> {
  std::string text;
  bool present = false;

  CUresult take(Call &c) {
    present = c.in.get<u8>() != 0;
    text = c.in.str();
    return CUDA_SUCCESS;
  }
  T get() { return present ? text.c_str() : nullptr; }
  void put_result(Call &, u64) {}
};

template <TextOut T>
struct Parameter<T> {
  std::array<char, kMaxTextOut> text{};
  bool present = false;

  CUresult take(Call &c) {
    present = c.in.get<u8>() != 0;
    return CUDA_SUCCESS;
  }
  T get() { return present ? text.data() : nullptr; }
  void put_result(Call &c, u64) {
    text.back() = 0;
    if (present) c.out.str(text.data());
  }
};

template <PlainPointer T>
struct Parameter<T> {
  using Value = std::remove_const_t<std::remove_pointer_t<T>>;
  Value value{};
  bool present = false;

  CUresult take(Call &c) {
    present = c.in.get<u8>() != 0;
    if constexpr (StructIn<T>)
      if (present)
        if (ByteView b = c.in.raw(sizeof value); c.in.ok())
          std::memcpy(static_cast<void *>(&value), b.data(), sizeof value);
    if constexpr (std::is_same_v<Value, CUmemPoolProps>)
      value.location.id = c.server.devices.real(value.location.id);
    return CUDA_SUCCESS;
  }
  T get() { return present ? &value : nullptr; }
  void put_result(Call &c, u64) {
    if constexpr (ValueOut<T>)
      if (present) c.out.raw(&value, sizeof value);
  }
};

// An object that is made.
template <MadeOut T>
struct Parameter<T> {
  using Value = std::remove_pointer_t<T>;
  Value value{};
  u64 wanted = 0;

  CUresult take(Call &c) {
    wanted = c.in.get<u64>();
    return wanted == 0 || kind_of(wanted) == kKindOf<Value> ? CUDA_SUCCESS : c.reject();
  }
  T get() { return wanted ? &value : nullptr; }
  void put_result(Call &c, u64 owner) {
    constexpr Kind kKind = kKindOf<Value>;
    bool owned = kKind != Kind::Context && kKind != Kind::Pool;
    if (wanted) c.put_number(wanted, value, owned ? owner : 0);
  }
};

// A text's room is the parameter behind it.
template <class Tuple, size_t I>
void bound_text(Tuple &all) {
  if constexpr (requires {
                  std::get<I>(all).text.max_size();
                  std::get<I>(all).text.fill(0);
                }) {
    auto &room = std::get<I + 1>(all).value;
    room = std::clamp<std::remove_reference_t<decltype(room)>>(room, 0, kMaxTextOut);
  }
}

template <api::CudaId I>
inline constexpr std::string_view kSymbol = api::kCudaTable[static_cast<size_t>(I)].symbol;

template <api::CudaId I, class Tuple>
void translate_device(const DeviceNumbers &devices, Tuple &all) {
  constexpr int kAt = device_parameter(kSymbol<I>);
  if constexpr (kAt >= 0) {
    auto &device = std::get<static_cast<size_t>(kAt)>(all).value;
    device = devices.real(device);
  }
}

template <api::CudaId I, class Tuple>
void translate_result(const DeviceNumbers &devices, Tuple &all) {
  constexpr int kAt = device_result(kSymbol<I>);
  if constexpr (kAt >= 0) {
    auto &device = std::get<static_cast<size_t>(kAt)>(all).value;
    device = devices.programs(device);
  }
  if constexpr (I == api::CudaId::id_cuDeviceGetCount)
    if (devices.translates()) std::get<0>(all).value = devices.count();
}

// Any other line that gives out an object may find one that the program has already.
constexpr bool always_makes(std::string_view symbol) {
  for (std::string_view s : {"cuCtxCreate_v2", "cuStreamCreate", "cuStreamCreateWithPriority",
                             "cuEventCreate", "cuMemPoolCreate"})
    if (s == symbol) return true;
  return false;
}

// What is found in code belongs to it; anything else to the context.
u64 owner_of(const Call &c, u64 first) {
  Kind kind = kind_of(first);
  bool code = kind == Kind::Module || kind == Kind::Library || kind == Kind::Kernel;
  return code ? first : c.header.context;
}

template <class T>
u64 number_in(const Parameter<T> &p) {
  if constexpr (Handle<T>) return p.number;
  return 0;
}

enum class Does : u8 { Ask, End, Wait };

template <api::CudaId I, Does does, class F>
struct Line;

template <api::CudaId I, Does does, class... A>
struct Line<I, does, CUresult (*)(A...)> {
  static CUresult run(Call &c) {
    std::tuple<Parameter<A>...> all;
    return [&]<size_t... N>(std::index_sequence<N...>) {
      CUresult e = CUDA_SUCCESS;
      [[maybe_unused]] auto keep = [&](CUresult one) { e = e == CUDA_SUCCESS ? one : e; };
      (keep(std::get<N>(all).take(c)), ...);
      if (!c.in.done() || c.malformed) return c.reject();
      if (e != CUDA_SUCCESS) return e;
      (bound_text<decltype(all), N>(all), ...);
      translate_device<I>(c.server.devices, all);
      c.waits = does == Does::Wait;
      c.makes = always_makes(kSymbol<I>);
      auto real = reinterpret_cast<CUresult (*)(A...)>(driver().entries[static_cast<size_t>(I)]);
      if (!real) return CUDA_ERROR_NOT_SUPPORTED;
      e = real(std::get<N>(all).get()...);
      u64 first = 0;
      if constexpr (sizeof...(A) > 0) ((first = first ? first : number_in(std::get<N>(all))), ...);
      if (does == Does::End) c.ended = first;
      if (e == CUDA_SUCCESS) translate_result<I>(c.server.devices, all);
      [[maybe_unused]] u64 owner = owner_of(c, first);
      if (e == CUDA_SUCCESS) (std::get<N>(all).put_result(c, owner), ...);
      return e;
    }
    (std::index_sequence_for<A...>{});
  }
};

constexpr size_t kLines = 256;

std::array<Handler, kLines> lines() {
  std::array<Handler, kLines> all{};
  using api::CudaId;
#define ASKED(n, symbol, type) all[n] = Line<CudaId::id_##symbol, Does::Ask, type>::run;
#define ENDS(n, symbol, type) all[n] = Line<CudaId::id_##symbol, Does::End, type>::run;
#define WAITS(n, symbol, type) all[n] = Line<CudaId::id_##symbol, Does::Wait, type>::run;
#include "remote/cuda/cuda.api"
  return all;
}

}  // namespace

bool may_end_context(u16 number) {
  constexpr auto kAll = [] {
    std::array<bool, kLines> all{};
    auto ends = [](std::string_view name) {
      return name == "cuCtxDestroy_v2" || name == "cuDevicePrimaryCtxRelease_v2" ||
             name == "cuDevicePrimaryCtxReset_v2";
    };
#define ASKED(n, symbol, type) all[n] = ends(#symbol);
#include "remote/cuda/cuda.api"
    return all;
  }();
  return number < kLines && kAll[number];
}

Handler line_handler(u16 number) {
  static const std::array<Handler, kLines> kAll = lines();
  return number < kLines ? kAll[number] : nullptr;
}

}  // namespace ckpt::remote::cuda
