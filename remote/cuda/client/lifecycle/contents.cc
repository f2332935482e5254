// SPDX-License-Identifier: Apache-2.0
#include "remote/cuda/client/lifecycle/contents.h"

#include <algorithm>

#include "remote/cuda/client/copies/arrays.h"
#include "remote/cuda/client/copies/copies.h"
#include "remote/cuda/client/lifecycle/copies_ahead.h"
#include "remote/cuda/client/memory/copy_windows.h"
#include "remote/cuda/client/memory/memory.h"

namespace ckpt::remote::cuda {
namespace {

constexpr u64 kBoxBytes = 16u << 20;  // of one call

struct Range {
  std::string region;
  u64 context, address, bytes;
  std::optional<LiveArray> array = {};  // then without an address
};

std::vector<Range> ranges(const CopyWindows &windows) {
  std::vector<Range> all;
  for (const Memory::Block &b : memory().blocks())
    if (!b.excluded && b.context != 0)
      all.push_back({fmt::format("mem-{:x}", b.base), b.context, b.base, b.bytes});
  for (const CopyWindows::Window &w : windows.all())
    all.push_back({fmt::format("physical-{:x}", w.number), w.context, w.address, w.bytes});
  for (const LiveArray &a : live_arrays())
    all.push_back({fmt::format("array-{:x}", a.number), a.context, 0, a.shape.bytes(), a});
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

CUresult read_memory(const Range &r, const Link::TakeData &take) {
  if (auto read = copies_ahead().read({r.address, r.bytes, r.context, 0, false}, take))
    return *read;
  Writer w;
  w.put(r.address).put(r.bytes).put(u64{0});
  return link().ask(number(Op::Read), r.context, {w.bytes()}, take);
}

CUresult read_array(const Range &r, const Link::TakeData &take) {
  CUresult e = CUDA_SUCCESS;
  for (u64 at = 0; at < r.bytes; at += kBoxBytes)
    for_each_box(r.array->shape, r.array->number, at, std::min(at + kBoxBytes, r.bytes),
                 [&](const Box &b) {
                   Writer w;
                   w.raw(&b, sizeof b).put(u64{0});
                   if (e == CUDA_SUCCESS)
                     e = link().ask(number(Op::ReadBox), r.context, {w.bytes()}, take);
                 });
  return e;
}

// One way, as send_bytes().
Result<> send_to_array(const Range &r, u64 offset, ByteView bytes) {
  if (offset % r.array->shape.element_bytes != 0 ||
      bytes.size() % r.array->shape.element_bytes != 0)
    return fail("the image holds parts of elements of the array \"{}\"", r.region);
  for_each_box(r.array->shape, r.array->number, offset, offset + bytes.size(), [&](const Box &b) {
    Writer w;
    w.raw(&b, sizeof b).put(u64{0}).put(u8{1});
    u64 n = b.slice * b.depth;
    link().send(number(Op::WriteBox), r.context, {w.bytes(), bytes.first(n)});
    bytes = bytes.subspan(n);
  });
  return {};
}

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
  CUresult e = r.array ? read_array(r, take) : read_memory(r, take);
  if (e != CUDA_SUCCESS) return device_failure("cannot read device memory", e);
  CKPT_CHECK(stored);
  if (received != r.bytes) return fail("the device's server sent too few bytes");
  return slots.end();
}

// One-way calls: their errors are known once the contexts are idle.
Result<> wait_for_writes() {
  for (const Ledger::Object &c : ledger().objects(Kind::Context)) {
    Bytes reply;
    CUresult e = link().ask(number(Op::Idle), c.number, {}, &reply);
    i32 late = 0;
    if (e == CUDA_SUCCESS) e = read_reply(reply, late);
    if (e == CUDA_SUCCESS) e = static_cast<CUresult>(late);
    if (e != CUDA_SUCCESS) return device_failure("cannot write device memory", e);
  }
  return {};
}

}  // namespace

Result<> save_contents(agent::Sink &sink) {
  CopyWindows windows;
  CKPT_CHECK(windows.open());
  Result<> saved;
  for (const Range &r : ranges(windows))
    if (saved) saved = save_range(r, sink);
  copies_ahead().drop();  // CRIU would save them, too
  return saved;
}

Result<> load_contents(agent::Source &source) {
  CopyWindows windows;
  CKPT_CHECK(windows.open());
  std::unordered_map<std::string, Range> all;
  for (Range &r : ranges(windows)) all.emplace(r.region, r);
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
    const Range &r = found->second;
    ByteView bytes = view(piece.slot.data, piece.bytes);
    if (r.array)
      CKPT_CHECK(send_to_array(r, piece.offset, bytes));
    else
      send_bytes(r.address + piece.offset, bytes, r.context);
    CKPT_CHECK(source.release(piece.slot));
  }
  return wait_for_writes();
}

}  // namespace ckpt::remote::cuda
