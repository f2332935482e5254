// SPDX-License-Identifier: Apache-2.0
//
// The messages of protocol buffers (protobuf.dev, "Encoding") down to the credentials. Encodings
// that CRIU's decoder could read differently are refused: those that ProtoFields refuses, and a
// field that comes twice, which a decoder merges.
#include "helper/core_file.h"

#include <array>

#include "common/base/proto_fields.h"

namespace ckpt::helper {
namespace {

constexpr u32 kTask = 3, kThreadCore = 5;  // core_entry
constexpr u32 kCreds = 10;                 // thread_core_entry
constexpr u32 kTaskState = 1;              // task_core_entry
constexpr u64 kDead = 2;                   // COMPEL_TASK_DEAD: a zombie, which runs nothing
constexpr size_t kMagicBytes = 8;
constexpr u32 kNumber = 0, kBytes = 2;  // wire types

Failure not_understood() { return fail("a core file of the image cannot be parsed"); }

// The one field `number` of a message, which is a message itself; no value: there is none.
Result<std::optional<ByteView>> only_message(ByteView message, u32 number) {
  std::optional<ByteView> found;
  ProtoFields fields(message);
  while (std::optional<ProtoField> f = fields.next()) {
    if (f->number != number) continue;
    if (f->type != kBytes || found) return not_understood();
    found = f->bytes;
  }
  return fields.sound() ? Result<std::optional<ByteView>>(found) : not_understood();
}

// A message creds_entry.
class Creds {
 public:
  Result<ThreadIdentity> read(ByteView message) {
    ProtoFields fields(message);
    while (std::optional<ProtoField> f = fields.next())
      if (!take(*f)) return not_understood();
    if (!fields.sound() || required_ != kAllRequired) return not_understood();
    t_.inheritable = inheritable_.bits;
    t_.permitted = permitted_.bits;
    t_.effective = effective_.bits;
    t_.ambient = ambient_.bits;
    return std::move(t_);
  }

 private:
  struct Set {
    u64 bits = 0;
    unsigned words = 0;
    bool add(u32 word) {
      bits |= words < 2 ? u64{word} << 32 * words : 0;
      return words++ < 2;
    }
  };

  // creds_entry: uid, gid, euid, egid, suid, sgid, fsuid, fsgid have the numbers 1 to 8; then the
  // capabilities (12: the bounding set), the securebits and the groups.
  static constexpr u32 kFirstId = 1, kLastId = 8;
  enum : u32 { kInheritable = 9, kPermitted, kEffective, kSecurebits = 13, kGroups, kAmbient = 19 };
  static constexpr u32 kAllRequired = ((1u << (kLastId + 1)) - 2) | 1u << kSecurebits;

  bool take(const ProtoField &f) {
    if ((f.number >= kFirstId && f.number <= kLastId) || f.number == kSecurebits)
      return take_required(f);
    switch (f.number) {
      case kInheritable: return each(f, [this](u32 w) { return inheritable_.add(w); });
      case kPermitted: return each(f, [this](u32 w) { return permitted_.add(w); });
      case kEffective: return each(f, [this](u32 w) { return effective_.add(w); });
      case kAmbient: return each(f, [this](u32 w) { return ambient_.add(w); });
      case kGroups: return each(f, [this](u32 g) { return t_.groups.push_back(g), true; });
      default: return true;
    }
  }

  bool take_required(const ProtoField &f) {
    if (f.type != kNumber || f.value > ~u32{0} || required_ >> f.number & 1) return false;
    required_ |= 1u << f.number;
    u32 value = static_cast<u32>(f.value), id = f.number - kFirstId;
    if (f.number == kSecurebits)
      t_.securebits = value;
    else
      (id % 2 == 0 ? t_.uids : t_.gids)[id / 2] = value;
    return true;
  }

  // A list has one field for each number, or one for several.
  template <class Add>
  static bool each(const ProtoField &f, Add add) {
    if (f.type == kNumber) return f.value <= ~u32{0} && add(static_cast<u32>(f.value));
    if (f.type != kBytes) return false;
    ProtoFields list(f.bytes);
    while (std::optional<u32> n = list.next_in_list())
      if (!add(*n)) return false;
    return list.sound();
  }

  ThreadIdentity t_;
  u32 required_ = 0;
  Set inheritable_, permitted_, effective_, ambient_;
};

Result<> check_dead(ByteView task) {
  bool dead = false;
  ProtoFields fields(task);
  while (std::optional<ProtoField> f = fields.next()) {
    if (f->number != kTaskState) continue;
    if (f->type != kNumber || f->value != kDead || dead) return not_understood();
    dead = true;
  }
  return fields.sound() && dead ? Result<>{} : not_understood();
}

}  // namespace

Result<std::optional<ThreadIdentity>> identity_in_core(ByteView file) {
  Reader in(file);
  in.raw(kMagicBytes);
  ByteView core = in.raw(in.get<u32>());
  if (!in.done()) return not_understood();
  CKPT_TRY(std::optional<ByteView> thread, only_message(core, kThreadCore));
  std::optional<ByteView> creds;
  if (thread) {
    CKPT_TRY(creds, only_message(*thread, kCreds));
  }
  if (creds) {
    CKPT_TRY(ThreadIdentity identity, Creds().read(*creds));
    return identity;
  }
  // CRIU takes nothing away from a thread of which it is not told what it may do.
  CKPT_TRY(std::optional<ByteView> task, only_message(core, kTask));
  if (!task) return not_understood();
  CKPT_CHECK(check_dead(*task));
  return std::nullopt;
}

}  // namespace ckpt::helper
