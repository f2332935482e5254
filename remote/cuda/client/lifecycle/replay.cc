// SPDX-License-Identifier: Apache-2.0
#include "remote/cuda/client/lifecycle/replay.h"

#include <algorithm>

#include "common/base/clock.h"
#include "remote/cuda/client/code/textures.h"
#include "remote/cuda/client/link/call_counts.h"
#include "remote/cuda/client/objects/client.h"

namespace ckpt::remote::cuda {
namespace {

const char *name_of(u16 op) {
  if (op == number(Op::Load)) return "the code";
  if (op == number(Op::MakeArray) || op == number(Op::MakeMipmap)) return "making an array";
  if (op == number(Op::MakeTextureAt)) return "making a texture or surface object";
  return name_of_call(op);
}

Failure cannot_repeat(const Ledger::Object &o, CUresult e) {
  std::string what = name_of(o.call.op);
  if (o.code && !o.code->needs().kernel.empty())
    what += fmt::format(" with the kernel \"{}\"", o.code->needs().kernel);
  return device_failure(what + " does not succeed again on this device", e);
}

CUresult send_again(const Ledger::Object &o, Bytes &reply) {
  // What is of no context was made in one that has perhaps ended.
  Site site = o.call.site();
  if (!ledger().lives(site.context)) site.context = 0;
  if (o.code) send_parts(*o.code, site);
  return link().ask(o.call.op, site, {o.call.arguments}, &reply);
}

Result<> make_object(const Ledger::Object &o) {
  if (o.call.op == number(Op::MakeTextureAt) && !texture_can_be_made(o.number)) return {};
  for (unsigned i = 0; i < o.times; i++) {
    Bytes reply;
    if (CUresult e = send_again(o, reply); e != CUDA_SUCCESS) return cannot_repeat(o, e);
    // Two objects of the old driver may be one here (cuModuleGetFunction and the like).
    if (Reader(reply).get<u64>() != o.number)
      return fail("{} finds an object on this device that the program has under another number",
                  name_of(o.call.op));
  }
  return {};
}

Result<> set_again(const Ledger::Object &s) {
  Bytes reply;
  CUresult e = send_again(s, reply);
  if (e != CUDA_SUCCESS) return cannot_repeat(s, e);
  return {};
}

std::vector<Ledger::Object> in_opposite_order() {
  std::vector<Ledger::Object> all = ledger().objects();
  std::ranges::reverse(all);
  return all;
}

// The line that ends an object; 0: it ends with its owner.
u16 line_that_ends(const Ledger::Object &o) {
  switch (kind_of(o.number)) {
    case Kind::Module: return line_cuModuleUnload;
    case Kind::Library: return line_cuLibraryUnload;
    case Kind::Stream: return line_cuStreamDestroy_v2;
    case Kind::Event: return line_cuEventDestroy_v2;
    case Kind::Array: return o.call.op == number(Op::MipmapLevel) ? u16{0} : line_cuArrayDestroy;
    case Kind::Mipmap: return line_cuMipmappedArrayDestroy;
    case Kind::Pool: return o.call.op == line_cuMemPoolCreate ? line_cuMemPoolDestroy : u16{0};
    default: return 0;
  }
}

void end_object(const Ledger::Object &o) {
  Writer w;
  u16 op = line_that_ends(o);
  if (o.call.op == number(Op::MakeTextureAt)) {
    Reader made(o.call.arguments);
    u64 cell = made.get<u64>();
    op = number(Op::EndTextureAt);
    w.put(made.get<u8>()).put(cell);
  } else {
    w.put(o.number);
  }
  u64 context = ledger().lives(o.call.context) ? o.call.context : 0;
  if (op != 0) (void)link().ask(op, context, {w.bytes()});
}

}  // namespace

void end_objects() {
  for (const Ledger::Object &c : ledger().objects(Kind::Context))
    (void)link().ask(number(Op::Settle), c.number, {});
  for (const Ledger::Object &o : in_opposite_order()) end_object(o);
}

void end_contexts() {
  for (const Ledger::Object &o : in_opposite_order()) {
    if (kind_of(o.number) != Kind::Context) continue;
    bool primary = o.call.op == line_cuDevicePrimaryCtxRetain;
    Writer w;
    if (primary)
      w.put(i32{ledger().device_of(o.number).value_or(0)});
    else
      w.put(o.number);
    u16 op = primary ? line_cuDevicePrimaryCtxRelease_v2 : line_cuCtxDestroy_v2;
    for (unsigned i = 0; i < o.times; i++) (void)link().ask(op, 0, {w.bytes()});
  }
}

Result<> replay_ledger(std::chrono::milliseconds &compiled) {
  Clock::duration loading{};
  std::vector<Ledger::Object> objects = ledger().objects(), settings = ledger().settings();
  auto setting = settings.begin();
  auto settings_before = [&](u64 when) -> Result<> {
    for (; setting != settings.end() && setting->when < when; ++setting)
      CKPT_CHECK(set_again(*setting));
    return {};
  };
  for (const Ledger::Object &o : objects) {
    CKPT_CHECK(settings_before(o.when));
    Clock::time_point begun = Clock::now();
    CKPT_CHECK(make_object(o));
    if (o.code) loading += Clock::now() - begun;
  }
  CKPT_CHECK(settings_before(~u64{0}));
  compiled = std::chrono::duration_cast<std::chrono::milliseconds>(loading);
  return {};
}

}  // namespace ckpt::remote::cuda
