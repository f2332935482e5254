// SPDX-License-Identifier: Apache-2.0
#include "tools/restore/image_edits.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>

#include <map>

#include "tools/criu/criu_file.h"
#include "tools/criu/interrupted_waits.h"

namespace ckpt::tools {
namespace {

// Field numbers of CRIU's images/*.proto.
struct MmEntry {
  static constexpr u32 kVmas = 14;
};
struct VmaEntry {
  static constexpr u32 kStart = 1, kEnd = 2, kProtection = 5, kFlags = 6;
};
struct CoreEntry {
  static constexpr u32 kThread = 5;
};
struct ThreadCoreEntry {
  static constexpr u32 kCreds = 10;
};
struct CredsEntry {
  static constexpr u32 kBoundingSet = 12;
};
struct FileEntry {
  static constexpr u32 kRegular = 3, kTimer = 12;
};
struct RegularFileEntry {
  static constexpr u32 kPosition = 3, kName = 6, kSize = 8;
};
struct TimerEntry {
  static constexpr u32 kSeconds = 7, kNanoseconds = 8, kIntervalSeconds = 9,
                       kIntervalNanoseconds = 10;
};

// The largest mapping that the kernel allows (mm/util.c, __vm_enough_memory).
u64 largest_mapping() {
  struct sysinfo s {};
  ::sysinfo(&s);
  return (u64{s.totalram} + s.totalswap) * s.mem_unit;
}

void edit_vma(ProtoMessage &vma, u64 largest) {
  u64 flags = vma.number(VmaEntry::kFlags);
  u64 size = vma.number(VmaEntry::kEnd) - vma.number(VmaEntry::kStart);
  bool written = vma.number(VmaEntry::kProtection) & PROT_WRITE;
  if ((flags & MAP_PRIVATE) && !written && size > largest)
    vma.set_number(VmaEntry::kFlags, flags | MAP_NORESERVE);
}

void edit_timer(ProtoMessage &t) {
  bool periodic =
      t.number(TimerEntry::kIntervalSeconds) || t.number(TimerEntry::kIntervalNanoseconds);
  bool armed = t.number(TimerEntry::kSeconds) || t.number(TimerEntry::kNanoseconds);
  if (periodic && !armed) t.set_number(TimerEntry::kNanoseconds, 1);
}

struct GrownFile {
  u64 recorded, now;
  bool at_end;  // a program that stood at the end stands at the end now
};
using GrownByPath = std::map<std::string, GrownFile>;

GrownByPath grown_files(const ImageManifest &m, const GrownFiles &grown) {
  GrownByPath files;
  for (const ImageManifest::File &f : m.files) {
    struct stat st {};
    if (grown.of(f) != GrownFiles::Refuse && has_grown(f) && ::stat(f.path.c_str(), &st) == 0)
      files[f.path] = {f.size, static_cast<u64>(st.st_size), grown.of(f) == GrownFiles::Append};
  }
  return files;
}

void edit_regular_file(ProtoMessage &file, const GrownByPath &grown) {
  auto it = grown.find(std::string(text(file.bytes(RegularFileEntry::kName))));
  if (it == grown.end()) return;
  auto [recorded, now, at_end] = it->second;
  file.set_number(RegularFileEntry::kSize, now);
  if (at_end && file.number(RegularFileEntry::kPosition) == recorded)
    file.set_number(RegularFileEntry::kPosition, now);
}

// Nothing is missing in the bounding set.
void fill_bounding_set(ProtoMessage &core) {
  constexpr u64 kAll = ~u32{0};
  core.edit_each(CoreEntry::kThread, [](ProtoMessage &thread) {
    thread.edit_each(ThreadCoreEntry::kCreds,
                     [](ProtoMessage &creds) { creds.set_number(CredsEntry::kBoundingSet, kAll); });
  });
}

}  // namespace

StreamEdits image_edits(const ImageManifest &m, const GrownFiles &grown, const CriuRights &rights) {
  // CRIU compares the sizes. Files are truncated after it (grown_files.h).
  GrownByPath files = grown_files(m, grown);
  auto edit_file = [files](ProtoMessage &entry) {
    entry.edit_each(FileEntry::kTimer, edit_timer);
    entry.edit_each(FileEntry::kRegular, [&](ProtoMessage &f) { edit_regular_file(f, files); });
  };
  auto edit_memory = [largest = largest_mapping()](ProtoMessage &mm) {
    mm.edit_each(MmEntry::kVmas, [&](ProtoMessage &vma) { edit_vma(vma, largest); });
  };
  auto edit_core = [unprivileged = rights.unprivileged()](ProtoMessage &core) {
    restart_interrupted_wait(core);
    if (unprivileged) fill_bounding_set(core);
  };
  return {.wanted =
              [](const std::string &n) {
                return n == "files.img" || n.starts_with("mm-") || n.starts_with("core-");
              },
          .edited =
              [=](const std::string &n, Bytes bytes) {
                if (n == "files.img") return edit_criu_file(std::move(bytes), edit_file);
                if (n.starts_with("mm-")) return edit_criu_file(std::move(bytes), edit_memory);
                return edit_criu_file(std::move(bytes), edit_core);
              }};
}

}  // namespace ckpt::tools
