// SPDX-License-Identifier: Apache-2.0
//
// The encoder and decoder of an `.api` line, with the test's own functions in place of a driver's.
#include "common/api/call.h"

#include <map>

#include <doctest/doctest.h>

using namespace ckpt;

namespace {

enum class Kind : u8 { None, Thing };
struct Seen {
  int a = 0;
  void *thing = nullptr;
  std::vector<void *> things;
  std::string bytes, text;
  bool text_null = false;
  std::vector<size_t> sizes;
} g_seen;

int calls(int a, void *thing, unsigned n, void *const *things, const void *bytes, size_t count,
          const char *text, unsigned dims, const size_t *sizes, void *never, int *error) {
  g_seen = {
      a,
      thing,
      {things, things + n},
      {static_cast<const char *>(bytes), count},
      text ? text : "",
      text == nullptr,
      {},
  };
  if (sizes) g_seen.sizes.assign(sizes, sizes + dims);
  *error = never ? -1 : 0;
  return 77;
}

struct ClientSide {
  u64 number(u8, const void *handle) const { return reinterpret_cast<u64>(handle) / 16; }
};
struct ProxySide {
  std::map<u64, void *> objects;
  void *object(u8, u64 number) const {
    auto it = objects.find(number);
    return it == objects.end() ? nullptr : it->second;
  }
};

}  // namespace

namespace ckpt::api {
template <>
inline constexpr auto spec<&calls> = line("calls", 1, Kind::None, val("a"),
                                          use("thing", Kind::Thing), val("n"),
                                          uses("things", Kind::Thing, 2), in("bytes", 5),
                                          val("count"), str("text"), val("dims"),
                                          counted("sizes", 7), null("never"), error("error"));
}

namespace {

void *thing(u64 number) { return reinterpret_cast<void *>(number * 16); }

Bytes encoded(unsigned n, void *const *things, const char *text, const size_t *sizes) {
  Writer w;
  int unused;
  api::encode<&calls>(w, ClientSide{}, 5, thing(3), n, things, "abc", size_t{3}, text, 2u, sizes,
                      &unused, &unused);
  return w.take();
}

}  // namespace

TEST_CASE("every role crosses the wire") {
  void *list[] = {thing(3), thing(4)};
  size_t sizes[] = {10, 20};
  Bytes b = encoded(2, list, "hello", sizes);
  ProxySide proxy{{{3, thing(30)}, {4, thing(40)}}};
  Reader r(b);
  api::Arguments<&calls> call(r, proxy);
  REQUIRE(call.ok());
  CHECK(r.done());
  CHECK(call.call() == 77);
  CHECK(call.error == 0);
  CHECK(g_seen.a == 5);
  CHECK(g_seen.thing == thing(30));
  CHECK(g_seen.things == std::vector<void *>{thing(30), thing(40)});
  CHECK(g_seen.bytes == "abc");
  CHECK(g_seen.text == "hello");
  CHECK(g_seen.sizes == std::vector<size_t>{10, 20});
}

TEST_CASE("a list leaves out destroyed objects, and its count is adjusted") {
  void *list[] = {thing(3), thing(9)};
  Bytes b = encoded(2, list, nullptr, nullptr);
  Reader r(b);
  api::Arguments<&calls> call(r, ProxySide{{{3, thing(30)}}});
  REQUIRE(call.ok());
  call.call();
  CHECK(g_seen.things == std::vector<void *>{thing(30)});
  CHECK(g_seen.text_null);
  CHECK(g_seen.sizes.empty());
}

TEST_CASE("a call with an unknown object is not ok") {
  Bytes b = encoded(0, nullptr, nullptr, nullptr);
  Reader r(b);
  CHECK_FALSE(api::Arguments<&calls>(r, ProxySide{}).ok());
}

TEST_CASE("every truncation is detected, and no flipped bit causes a read out of bounds") {
  void *list[] = {thing(3)};
  size_t sizes[] = {10, 20};
  Bytes whole = encoded(1, list, "hello", sizes);
  ProxySide proxy{{{3, thing(30)}}};
  for (size_t n = 0; n < whole.size(); n++) {
    Bytes part(whole.begin(), whole.begin() + static_cast<long>(n));
    Reader r(part);
    CHECK_FALSE(api::Arguments<&calls>(r, proxy).ok());
  }
  for (size_t bit = 0; bit < whole.size() * 8; bit++) {
    Bytes bad = whole;
    bad[bit / 8] ^= std::byte{static_cast<unsigned char>(1 << bit % 8)};
    Reader r(bad);
    api::Arguments<&calls> call(r, proxy);
    if (call.ok()) call.call();  // under the sanitizers
  }
}
