// SPDX-License-Identifier: Apache-2.0
//
// The ledger of a program on CUDA devices of other nodes: what lives, and what made it.
#include "remote/cuda/client/objects/ledger.h"

#include <doctest/doctest.h>

using namespace ckpt;
using namespace ckpt::remote::cuda;

namespace {

LedgerCall call(u16 op, u64 context, u8 argument = 0) {
  return {op, context, Bytes{static_cast<std::byte>(argument)}};
}

struct Recorded {
  Ledger ledger;
  u64 context = ledger.new_number(Kind::Context);

  Recorded() {
    ledger.add(context, 0, call(1, 0));
    ledger.retain(context, 0);
  }
  u64 make(Kind kind, u64 owner) {
    u64 number = ledger.new_number(kind);
    ledger.add(number, owner, call(2, context));
    return number;
  }
};

}  // namespace

TEST_CASE("a number is used once, and has its kind") {
  Ledger l;
  u64 a = l.new_number(Kind::Stream), b = l.new_number(Kind::Event);
  CHECK(kind_of(a) == Kind::Stream);
  CHECK(kind_of(b) == Kind::Event);
  l.add(a, 0, {});
  l.end(a);
  CHECK(l.new_number(Kind::Stream) != a);
}

TEST_CASE("what has ended leaves nothing, in a program that makes and ends objects for ever") {
  Recorded p;
  for (int i = 0; i < 1000; i++) {
    u64 module = p.make(Kind::Module, p.context);
    u64 function = p.make(Kind::Function, module);
    p.ledger.set(function, std::to_string(function), call(3, p.context));
    p.ledger.end(p.make(Kind::Event, p.context));
    CHECK(p.ledger.end(module).size() == 2);
  }
  CHECK(p.ledger.objects().size() == 1);
  CHECK(p.ledger.settings().empty());
}

TEST_CASE("calls come in the order in which they were made, and the last value counts") {
  Recorded p;
  u64 stream = p.make(Kind::Stream, p.context);
  p.ledger.set(p.context, "limit", call(3, p.context, 1));
  u64 event = p.make(Kind::Event, p.context);
  p.ledger.set(p.context, "limit", call(3, p.context, 2));
  std::vector<Ledger::Object> all = p.ledger.objects(), settings = p.ledger.settings();
  REQUIRE(all.size() == 3);
  CHECK(all[1].number == stream);
  CHECK(all[2].number == event);
  REQUIRE(settings.size() == 1);
  CHECK(settings[0].call.arguments[0] == std::byte{2});
  CHECK(settings[0].when > all[2].when);
}

TEST_CASE("an object that is found again keeps the call that found it first") {
  Recorded p;
  u64 function = p.make(Kind::Function, p.context);
  u64 when = p.ledger.objects(Kind::Function)[0].when;
  p.ledger.add(function, p.context, call(9, p.context));
  CHECK(p.ledger.objects(Kind::Function)[0].when == when);
  CHECK(p.ledger.objects(Kind::Function)[0].call.op == 2);
}

TEST_CASE("a primary context counts its users") {
  Recorded p;
  p.ledger.retain(p.context, 0);
  CHECK(p.ledger.objects(Kind::Context)[0].times == 2);
  CHECK(p.ledger.release(p.context));
  CHECK(p.ledger.primary_of(0) == p.context);
  CHECK_FALSE(p.ledger.release(p.context));
  p.ledger.end(p.context);
  CHECK(p.ledger.primary_of(0) == 0);
}

TEST_CASE("libraries, their kernels, and pools outlive the context in which they were loaded") {
  Recorded p;
  u64 library = p.make(Kind::Library, 0), kernel = p.make(Kind::Kernel, library);
  u64 function = p.make(Kind::Function, kernel), stream = p.make(Kind::Stream, p.context);
  p.ledger.set(p.context, "limit", call(3, p.context));
  p.ledger.set(kernel, "attribute", call(3, p.context));
  u64 pool = p.make(Kind::Pool, 0);
  p.ledger.end_all_of(p.context);
  CHECK(p.ledger.lives(pool));
  CHECK(p.ledger.lives(library));
  CHECK(p.ledger.lives(kernel));
  CHECK(p.ledger.lives(p.context));
  CHECK_FALSE(p.ledger.lives(function));  // it is the kernel's in this context
  CHECK_FALSE(p.ledger.lives(stream));
  CHECK(p.ledger.settings().size() == 1);
}
