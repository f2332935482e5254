// SPDX-License-Identifier: Apache-2.0
#include "remote/cuda/client/contents.h"

#include <algorithm>
#include <set>

#include "remote/cuda/client/memory.h"

namespace ckpt::remote::cuda {
namespace {

// A variable of loaded code, in one context.
struct Variable {
  u64 owner = 0, context = 0;
  std::string name;
  u64 address = 0, bytes = 0;
};

// Those of the last save, in this process or in the one that it is a copy of.
std::vector<Variable> &variables() {
  static auto *const kAll = new std::vector<Variable>;
  return *kAll;
}

CUresult locate(Variable &v) {
  Writer w;
  Bytes reply;
  w.put(v.owner).str(v.name);
  CUresult e = link().ask(number(Op::Global), v.context, {w.bytes()}, &reply);
  Reader r(reply);
  if (e == CUDA_SUCCESS) v.address = r.get<u64>();
  if (e == CUDA_SUCCESS) v.bytes = r.get<u64>();
  return e;
}

// A module is of one context; a library has its variables in each.
std::vector<u64> contexts_of(const Ledger::Object &code) {
  if (kind_of(code.number) == Kind::Module) return {code.call.context};
  std::vector<u64> all;
  for (const Ledger::Object &c : ledger().objects(Kind::Context)) all.push_back(c.number);
  return all;
}

Result<> find_variables_of(const Ledger::Object &code, u64 context, std::vector<Variable> &all) {
  for (const CodeNeeds::Variable &named : code.code->needs().variables) {
    Variable v{code.number, context, named.name, 0, 0};
    CUresult e = locate(v);
    // Neither kernels nor the host can have written a constant that nothing finds.
    if (e == CUDA_ERROR_NOT_FOUND && named.constant) continue;
    if (e == CUDA_ERROR_NOT_FOUND)
      return fail("the driver does not say where the variable \"{}\" of its code lies", named.name);
    if (e != CUDA_SUCCESS) return device_failure("cannot find the variables of its code", e);
    if (v.bytes > 0) all.push_back(std::move(v));
  }
  return {};
}

Result<std::vector<Variable>> find_variables() {
  std::vector<Variable> all;
  for (const Ledger::Object &o : ledger().objects()) {
    if (!o.code) continue;
    for (u64 context : contexts_of(o)) CKPT_CHECK(find_variables_of(o, context, all));
  }
  return all;
}

struct Range {
  std::string region;
  u64 context, address, bytes;
};

std::vector<Range> ranges() {
  std::vector<Range> all;
  for (const Memory::Block &b : memory().blocks())
    if (!b.excluded) all.push_back({fmt::format("mem-{:x}", b.base), b.context, b.base, b.bytes});
  for (size_t i = 0; i < variables().size(); i++) {
    const Variable &v = variables()[i];
    all.push_back({fmt::format("var-{}", i), v.context, v.address, v.bytes});
  }
  return all;
}

// Fills slots with the bytes of a region, in their order.
class Slots {
 public:
  Slots(agent::Sink &sink, u32 region) : sink_(sink), region_(region) {}

  Result<> add(ByteView bytes) {
    while (!bytes.empty()) {
      CKPT_CHECK(begin());
      size_t n = std::min<size_t>(bytes.size(), sink_.slot_bytes() - filled_);
      std::memcpy(slot_.data + filled_, bytes.data(), n);
      filled_ += static_cast<u32>(n);
      bytes = bytes.subspan(n);
      if (filled_ == sink_.slot_bytes()) CKPT_CHECK(end());
    }
    return {};
  }
  Result<> begin() {
    if (open_) return {};
    CKPT_TRY(slot_, sink_.acquire());
    open_ = true;
    return {};
  }
  Result<> end() {
    if (!std::exchange(open_, false)) return {};
    u64 at = std::exchange(at_, at_ + filled_);
    return sink_.put(region_, at, slot_, std::exchange(filled_, 0));
  }

 private:
  agent::Sink &sink_;
  u32 region_;
  agent::Slot slot_;
  bool open_ = false;
  u32 filled_ = 0;
  u64 at_ = 0;
};

// The connection ends if the image cannot take the bytes that are on their way; so its error is
// kept, and the rest is received.
Result<> save_range(const Range &r, agent::Sink &sink) {
  CKPT_TRY(u32 region, sink.region(r.region, r.bytes));
  Slots slots(sink, region);
  Result<> stored;
  u64 received = 0;
  Link::TakeData take = [&](ByteView bytes) -> Result<> {
    received += bytes.size();
    if (received > r.bytes) return fail("it sent more bytes than were asked for");
    if (stored) stored = slots.add(bytes);
    return {};
  };
  Writer w;
  w.put(r.address).put(r.bytes).put(u64{0});
  CUresult e = link().ask(number(Op::Read), r.context, {w.bytes()}, take);
  if (e != CUDA_SUCCESS) return device_failure("cannot read device memory", e);
  CKPT_CHECK(stored);
  if (received != r.bytes) return fail("the device's server sent too few bytes");
  return slots.end();
}

void write(const Range &r, u64 offset, ByteView bytes) {
  for (u64 at = 0; at < bytes.size(); at += kPieceBytes) {
    Writer w;
    w.put(r.address + offset + at).put(u64{0}).put(u8{1});
    ByteView piece = bytes.subspan(at, std::min<u64>(kPieceBytes, bytes.size() - at));
    link().send(number(Op::Write), r.context, {w.bytes(), piece});
  }
}

// One-way calls: their errors are known once the contexts are idle.
Result<> wait_for_writes() {
  for (const Ledger::Object &c : ledger().objects(Kind::Context)) {
    Bytes reply;
    CUresult e = link().ask(number(Op::Idle), c.number, {}, &reply);
    if (e == CUDA_SUCCESS) e = static_cast<CUresult>(Reader(reply).get<i32>());
    if (e != CUDA_SUCCESS) return device_failure("cannot write device memory", e);
  }
  return {};
}

}  // namespace

Result<> save_contents(agent::Sink &sink) {
  CKPT_TRY(variables(), find_variables());
  for (const Range &r : ranges()) CKPT_CHECK(save_range(r, sink));
  return {};
}

Result<> load_contents(agent::Source &source) {
  std::unordered_map<std::string, Range> all;
  for (Range &r : ranges()) all.emplace(r.region, r);
  agent::Source::Piece piece;
  for (;;) {
    CKPT_TRY(bool more, source.next(piece));
    if (!more) break;
    auto found = all.find(piece.region);
    bool fits = found != all.end() && piece.offset <= found->second.bytes &&
                piece.bytes <= found->second.bytes - piece.offset;
    if (!fits)
      return fail("the image holds region \"{}\", which does not exist in this program",
                  piece.region);
    write(found->second, piece.offset, view(piece.slot.data, piece.bytes));
    CKPT_CHECK(source.release(piece.slot));
  }
  return wait_for_writes();
}

Result<> check_variables() {
  for (const Variable &v : variables()) {
    Variable now = v;
    if (CUresult e = locate(now); e != CUDA_SUCCESS)
      return device_failure("cannot find the variables of its code", e);
    if (now.address != v.address || now.bytes != v.bytes)
      return fail(
          "the variable \"{}\" of its code lies at {:#x} on this device instead of {:#x}, and the "
          "program may have stored its address",
          v.name, now.address, v.address);
  }
  return {};
}

}  // namespace ckpt::remote::cuda
