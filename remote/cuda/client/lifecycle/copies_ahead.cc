// SPDX-License-Identifier: Apache-2.0
//
// Pre-copy, as in live migration of virtual machines (Clark et al., Live Migration of Virtual
// Machines, NSDI 2005). Nothing says which memory a kernel writes, so nothing is derived from the
// program's calls. The client keeps the hash of each piece that it has received and sends it with
// the next request; the server reads the device's memory again, which is cheap on its node, and
// sends the pieces with another hash. The last request is made when the devices are idle, so the
// contents are then those of the device, whatever ran between two rounds.
//
// Example: a program has 1 GiB, of which its kernels write 100 MiB. The first round moves 1 GiB
// while it runs, the second one 100 MiB; and so does the checkpoint, while the program waits.
//
// A request of the rounds is for 1 MiB, so that calls of the program never wait for long behind
// one.
#include "remote/cuda/client/lifecycle/copies_ahead.h"

#include <algorithm>
#include <new>

#include "common/base/log.h"

namespace ckpt::remote::cuda {
namespace {

constexpr u64 kRequestBytes = 4 * kAheadBytes;

// Asks for `bytes` bytes at `address`; take(piece, bytes) gets those that have changed, and no
// bytes for the others.
template <class Take>
CUresult ask_for_changed(u64 context, u64 address, u64 bytes, std::span<const PieceHash> known,
                         Take take) {
  Writer w;
  w.put(address).put(bytes).raw(known.data(), known.size_bytes());
  u64 piece = 0;
  Link::TakeData data = [&](ByteView frame) -> Result<> {
    u64 at = piece++ * kAheadBytes;
    if (frame.empty() || at >= bytes) return fail("it sent more pieces than were asked for");
    bool changed = frame[0] != std::byte{};
    if (frame.size() - 1 != (changed ? std::min(kAheadBytes, bytes - at) : 0) ||
        (!changed && known.empty()))
      return fail("it sent a piece of another size");
    return take(piece - 1, frame.subspan(1));
  };
  CUresult e = link().ask(number(Op::ReadChanged), context, {w.bytes()}, data);
  if (e == CUDA_SUCCESS && piece * kAheadBytes < bytes) return link().malformed();
  return e;
}

}  // namespace

CopiesAhead &copies_ahead() {
  static auto *const kCopies = new CopiesAhead;
  return *kCopies;
}

bool CopiesAhead::update(u64 base, Copy &copy, Round &round, const Stop &stop) {
  std::vector<PieceHash> hashes = std::move(copy.hashes);
  copy.hashes.clear();  // until all pieces are there
  bool first = hashes.empty();
  hashes.resize((copy.bytes + kAheadBytes - 1) / kAheadBytes);
  for (u64 at = 0; at < copy.bytes; at += kRequestBytes) {
    u64 bytes = std::min(kRequestBytes, copy.bytes - at), begin = at / kAheadBytes;
    u64 pieces = (bytes + kAheadBytes - 1) / kAheadBytes;
    std::span all = std::span(hashes).subspan(begin, pieces);
    std::vector<bool> changed(pieces);
    CUresult e = ask_for_changed(
        copy.context, base + at, bytes, first ? std::span<const PieceHash>() : all,
        [&](u64 piece, ByteView data) -> Result<> {
          changed[piece] = !data.empty();
          round.changed += data.size();
          if (!data.empty())
            std::memcpy(copy.memory.get() + at + piece * kAheadBytes, data.data(), data.size());
          return {};
        });
    if (e != CUDA_SUCCESS || stop()) return false;
    for (u64 i = 0; i < pieces; i++)
      if (changed[i])
        all[i] = hash_of(view(copy.memory.get() + at + i * kAheadBytes,
                              std::min(kAheadBytes, bytes - i * kAheadBytes)));
  }
  copy.hashes = std::move(hashes);
  return true;
}

CopiesAhead::Round CopiesAhead::copy_once(u64 most, const Stop &stop) {
  Round round;
  std::map<u64, Copy> before = std::exchange(copies_, {});
  for (const Memory::Block &b : memory().blocks()) {
    if (b.excluded || b.context == 0 || b.bytes > most - round.wanted) continue;
    Copy copy;
    if (auto found = before.find(b.base); found != before.end() && found->second.bytes == b.bytes &&
                                          found->second.context == b.context)
      copy = std::move(found->second);
    else
      copy = {b.bytes,
              b.context,
              std::unique_ptr<std::byte[]>(new (std::nothrow) std::byte[b.bytes]),
              {}};
    if (!copy.memory) continue;
    // The program may have freed it meanwhile.
    if (!update(b.base, copy, round, stop)) continue;
    round.wanted += b.bytes;
    copies_.emplace(b.base, std::move(copy));
  }
  return round;
}

void CopiesAhead::copy(u32 rounds, u64 most, const Stop &stop) {
  u64 last = ~u64{0};
  for (u32 n = 1; n <= rounds && !stop(); n++) {
    if (link().lost() != CUDA_SUCCESS || !link().connected() || kernel_failed()) return drop();
    Round round = copy_once(most, stop);
    log::info("round {} of copies ahead: {} of {} MiB had changed", n, round.changed >> 20,
              round.wanted >> 20);
    // Another round would move about as much again.
    if (round.changed == 0 || round.changed > last / 4 * 3) return;
    last = round.changed;
  }
}

std::optional<CUresult> CopiesAhead::read(const Memory::Block &block, const Take &take) {
  auto found = copies_.find(block.base);
  if (found == copies_.end()) return {};
  Copy copy = std::move(found->second);
  copies_.erase(found);
  if (copy.bytes != block.bytes || copy.context != block.context) return {};
  return ask_for_changed(
      copy.context, block.base, copy.bytes, copy.hashes,
      [&](u64 piece, ByteView changed) -> Result<> {
        u64 at = piece * kAheadBytes;
        if (!changed.empty()) return take(changed);
        return take(view(copy.memory.get() + at, std::min(kAheadBytes, copy.bytes - at)));
      });
}

}  // namespace ckpt::remote::cuda
