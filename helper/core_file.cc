// SPDX-License-Identifier: Apache-2.0
//
// check_core_file(): the messages of protocol buffers (protobuf.dev, "Encoding") down to the
// capabilities. Encodings that CRIU's decoder could read differently are refused: groups, and
// numbers that are longer than necessary.
#include <optional>

#include "helper/vetting.h"

namespace ckpt::helper {
namespace {

constexpr u32 kTask = 3, kThreadCore = 5;  // core_entry
constexpr u32 kCreds = 10;                 // thread_core_entry
constexpr u32 kTaskState = 1;              // task_core_entry
constexpr u64 kDead = 2;                   // COMPEL_TASK_DEAD: a zombie, which runs nothing
constexpr u32 kInheritable = 9, kPermitted = 10, kEffective = 11, kAmbient = 19;  // creds_entry
constexpr size_t kMagicBytes = 8;

struct Field {
  u32 number = 0;
  u32 type = 0;
  u64 value = 0;   // of an integer
  ByteView bytes;  // of a string or a message
};

class Fields {
 public:
  explicit Fields(ByteView bytes) : in_(bytes) {}

  // No value: the end, or a field that cannot be understood (then sound() is false).
  std::optional<Field> next() {
    if (in_.done()) return std::nullopt;
    constexpr int kTagBytes = 5;
    std::optional<u64> tag = varint(kTagBytes);
    Field f;
    sound_ = tag && take(f, *tag);
    return sound_ ? std::optional(f) : std::nullopt;
  }
  // Zeros, one after the other: a packed list of integers.
  bool only_zeros() {
    constexpr int kNumberBytes = 10;
    while (!in_.done())
      if (varint(kNumberBytes) != u64{0}) return false;
    return true;
  }
  bool sound() const { return sound_; }

 private:
  bool take(Field &f, u64 tag) {
    constexpr int kLengthBytes = 5, kNumberBytes = 10;
    f.number = static_cast<u32>(tag >> 3);
    f.type = tag & 7;
    std::optional<u64> n;
    switch (f.type) {
      case 0:
        if (!(n = varint(kNumberBytes))) return false;
        f.value = *n;
        return true;
      case 1: f.bytes = in_.raw(8); return in_.ok();
      case 2:
        if (!(n = varint(kLengthBytes))) return false;
        f.bytes = in_.raw(*n);
        return in_.ok();
      case 5: f.bytes = in_.raw(4); return in_.ok();
      default: return false;
    }
  }

  std::optional<u64> varint(int most) {
    u64 value = 0;
    for (int i = 0; i < most; i++) {
      u8 byte = in_.get<u8>();
      value |= u64{byte & 0x7fu} << 7 * i;
      if (!(byte & 0x80)) return in_.ok() ? std::optional(value) : std::nullopt;
    }
    return std::nullopt;
  }

  Reader in_;
  bool sound_ = true;
};

bool names_capabilities(const Field &f) {
  if (f.number != kInheritable && f.number != kPermitted && f.number != kEffective &&
      f.number != kAmbient)
    return false;
  return f.type == 0 ? f.value != 0 : f.type != 2 || !Fields(f.bytes).only_zeros();
}

Failure not_understood() { return fail("a core file of the image cannot be parsed"); }

Result<> check_creds(ByteView creds) {
  Fields fields(creds);
  while (std::optional<Field> f = fields.next())
    if (names_capabilities(*f))
      return fail("the image's program would have capabilities, which only root can restore");
  return fields.sound() ? Result<>{} : not_understood();
}

// Calls `check` for each message in the field `number`: a decoder merges them. Returns how many
// there are.
template <class Check>
Result<int> check_each(ByteView message, u32 number, Check check) {
  int found = 0;
  Fields fields(message);
  while (std::optional<Field> f = fields.next()) {
    if (f->number != number) continue;
    if (f->type != 2) return not_understood();
    CKPT_CHECK(check(f->bytes));
    found++;
  }
  return fields.sound() ? Result<int>(found) : not_understood();
}

Result<> check_dead(ByteView task) {
  Fields fields(task);
  while (std::optional<Field> f = fields.next())
    if (f->number == kTaskState && (f->type != 0 || f->value != kDead)) return not_understood();
  return fields.sound() ? Result<>{} : not_understood();
}

}  // namespace

Result<> check_core_file(ByteView file) {
  Reader in(file);
  in.raw(kMagicBytes);
  ByteView core = in.raw(in.get<u32>());
  if (!in.done()) return not_understood();
  int creds = 0;
  auto check_thread = [&creds](ByteView thread) -> Result<> {
    CKPT_TRY(int found, check_each(thread, kCreds, check_creds));
    creds += found;
    return {};
  };
  CKPT_CHECK(check_each(core, kThreadCore, check_thread));
  if (creds > 0) return {};
  // CRIU takes nothing away from a thread of which it is not told what it may do.
  Result<int> tasks = check_each(core, kTask, check_dead);
  return tasks && *tasks > 0 ? Result<>{} : not_understood();
}

}  // namespace ckpt::helper
