// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/ptx/declarations.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "ptx/initializer.h"
#include "ptx/module.h"

using namespace ckpt;
using namespace ckpt::ptx;
using namespace ckpt::ptx::test;

namespace {

const Variable *find_x(const Module &m) {
  auto x = std::ranges::find(m.variables, "x", &Variable::name);
  return x == m.variables.end() ? nullptr : &*x;
}

std::string hexadecimal(ByteView bytes) {
  std::string out;
  for (std::byte b : bytes) out += fmt::format("{:02x}", static_cast<unsigned>(b));
  return out;
}

std::optional<u64> address_of(std::string_view name) {
  return name == "y" ? std::optional<u64>(kAddress) : std::nullopt;
}

}  // namespace

TEST_CASE("declarations mean what the PTX ISA says") {
  for (const DeclaredBytes &d : kDeclarations) {
    CAPTURE(d.text);
    std::string text = module_with(d.text);
    Result<Module> m = read_module(text);
    REQUIRE(m);
    CHECK(m->problem.empty() == (d.bytes != 0));
    const Variable *x = find_x(*m);
    REQUIRE((x != nullptr) == (d.bytes != 0));
    if (x == nullptr) continue;
    CHECK(x->bytes == d.bytes);
    CHECK(x->align == d.align);
    Result<Bytes> value = initial_value(*x, address_of);
    REQUIRE_MESSAGE(value, (value ? "" : value.error().what));
    CHECK(hexadecimal(*value) == d.initial);
    CHECK(text.substr(x->declaration.begin, x->declaration.end - x->declaration.begin) == d.text);
  }
}

TEST_CASE("parameters are laid out as the PTX ISA says") {
  for (const DeclaredParameters &d : kParameters) {
    CAPTURE(d.text);
    std::string text = module_with(".visible .entry k(" + std::string(d.text) + ") { ret; }");
    Result<Module> m = read_module(text);
    REQUIRE(m);
    REQUIRE(m->functions.size() == 1);
    CHECK(m->functions[0].unclear == (d.end == 0));
    CHECK(m->functions[0].defined);
    if (d.end == 0) continue;
    Layout layout = layout_of(m->functions[0].params);
    CHECK(layout.offsets == std::vector<u64>(d.offsets.begin(), d.offsets.end()));
    CHECK(layout.end == d.end);
  }
}

TEST_CASE("an imported array needs no size, and has no value") {
  auto read = [](const std::string &declaration) {
    std::string text = module_with(declaration);
    Result<Module> m = read_module(text);
    REQUIRE(m);
    const Variable *x = find_x(*m);
    return x != nullptr && x->external && x->bytes == 0;
  };
  CHECK(read(".extern .shared .align 16 .b8 x[];"));
  CHECK(read(".extern .global .u16 x[0];"));
  CHECK(read(".extern .global .u32 x[][2];"));
  CHECK_FALSE(read(".extern .global .u16 x = 1;"));
  CHECK_FALSE(read(".extern .global .u16 x[] = {1};"));
  std::string variadic = module_with(".visible .func k(.param .align 8 .b8 a[]) { ret; }");
  CHECK(read_module(variadic)->problem.empty());
}

TEST_CASE("an initial value names what it has the address of") {
  std::string text = module_with(".global .u64 x[3] = {generic(y)+4, f, WARP_SZ};");
  Result<Module> m = read_module(text);
  REQUIRE(m);
  CHECK(names_in(*find_x(*m)) == std::vector<std::string_view>{"y", "f"});
  Result<Bytes> value = initial_value(*find_x(*m), address_of);
  REQUIRE_FALSE(value);
  CHECK(value.error().what == "x has the address of f");
}

TEST_CASE("an initial value is bounded, and so is its nesting") {
  std::string text = module_with(".global .u32 x[2][1000000000] = {{1}, {2}};");
  Result<Module> m = read_module(text);
  REQUIRE(m);
  CHECK(find_x(*m)->bytes == 8'000'000'000);
  CHECK(initial_value(*find_x(*m), {}).error().what.find("more than") != std::string::npos);
  std::string deep(1'000'000, '(');
  std::string nested = module_with(".global .u32 x = " + deep + "1;");
  CHECK(read_module(nested)->problem.find("nested too deeply") != std::string::npos);
  std::string many = ".global .u32 x";
  for (int i = 0; i < 100; ++i) many += "[1]";
  std::string dimensions = module_with(many + ";");
  CHECK(read_module(dimensions)->problem.find("dimensions") != std::string::npos);
}
