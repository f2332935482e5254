// SPDX-License-Identifier: Apache-2.0
#include "tools/criu/criu_files.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "tools/criu/criu_file.h"
#include "tools/criu/streamer.h"

namespace ckpt::tools {
namespace {

constexpr u64 kPageBytes = 4096;

// Field numbers of CRIU's images/*.proto.
struct PstreeFields {
  static constexpr u32 kPid = 1, kThreads = 5;
};
struct CoreFields {
  static constexpr u32 kTask = 3, kIds = 4, kTaskState = 1, kFilesId = 2;
};
struct TaskFields {
  static constexpr u32 kTimers = 7, kPosix = 4;
};
struct PosixTimerFields {
  static constexpr u32 kClock = 2, kSignal = 3, kNotify = 4;
};
struct MmFields {
  static constexpr u32 kExecutable = 12, kVmas = 14;
};
struct VmaFields {
  static constexpr u32 kStart = 1, kEnd = 2, kFile = 4, kStatus = 7, kFileFlags = 10;
};
struct PagemapFields {
  // CRIU 4.2 has the number of pages in 64 bits, and 0 in the older field.
  static constexpr u32 kAddress = 1, kOldPages = 2, kFlags = 4, kPages = 5, kFileOfHead = 1;
};
struct FileFields {
  static constexpr u32 kId = 2, kRegular = 3, kUnixSocket = 16;
};
struct RegularFileFields {
  static constexpr u32 kFlags = 2, kName = 6, kSize = 8, kExternal = 9, kMode = 10;
};
struct UnixSocketFields {
  static constexpr u32 kName = 11, kFolder = 14, kUnlinked = 15;
};
struct LockFields {
  static constexpr u32 kPid = 3, kFd = 4;
};
struct FdinfoFields {
  static constexpr u32 kId = 1, kFd = 4;
};
struct RemapFields {
  static constexpr u32 kId = 1, kOther = 2, kType = 3;
};
struct GhostFields {
  static constexpr u32 kUid = 1, kGid = 2, kMode = 3;
};
// criu/include/image.h, criu/include/pagemap.h
constexpr u64 kFilePrivate = 1 << 6, kFileShared = 1 << 7, kPrivate = 1 << 9, kAioRing = 1 << 13;
constexpr u64 kStored = 1 << 2;
constexpr u64 kByLink = 0, kAsGhost = 1;  // how an unlinked file is found (remap-file-path.proto)
constexpr u64 kAlive = 1, kStopped = 3;   // the states of tasks that are not zombies

// The number in "core-12.img".
std::optional<pid_t> number_in(std::string_view name, std::string_view prefix, int base = 10) {
  if (!name.starts_with(prefix) || !name.ends_with(".img")) return std::nullopt;
  std::string_view digits = name.substr(prefix.size(), name.size() - prefix.size() - 4);
  pid_t n = 0;
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), n, base);
  bool whole = error == std::errc() && end == digits.data() + digits.size();
  return whole ? std::optional(n) : std::nullopt;
}

// CRIU writes this number to the base 16.
std::optional<pid_t> ghost_in(std::string_view name) { return number_in(name, "ghost-file-", 16); }

// Of the file's bytes, those that are read.
u64 kept_bytes(const std::string &name, u64 size) {
  return ghost_in(name) ? std::min(size, kMostGhostBytes) : size;
}

// The integers of a message in the fields below 16. Of repeated fields the last one.
class Numbers {
 public:
  explicit Numbers(ByteView message) {
    ProtoFields fields(message);
    while (std::optional<ProtoField> f = fields.next())
      if (f->type == 0 && f->number < values_.size()) {
        values_[f->number] = f->value;
        present_ |= 1u << f->number;
      }
    sound = fields.sound();
  }
  u64 at(u32 field) const { return values_[field]; }
  bool has(u32 field) const { return present_ >> field & 1; }
  bool sound;

 private:
  std::array<u64, 16> values_{};
  u32 present_ = 0;
};

// Calls `f` with each embedded message of the field.
template <class F>
bool each_embedded(ByteView message, u32 field, F f) {
  ProtoFields fields(message);
  while (std::optional<ProtoField> found = fields.next())
    if (found->number == field && found->type == 2) f(found->bytes);
  return fields.sound();
}

class FactReader {
 public:
  explicit FactReader(CriuFiles &facts) : facts_(facts) {}

  void read(const std::string &name, ByteView file) {
    bool sound = true;
    auto each = [&](auto f) { sound = for_each_message(file, f); };
    auto process = [&](pid_t pid) -> CriuFiles::Process & { return facts_.processes[pid]; };
    if (name == "pstree.img")
      each([&](ByteView m) { return read_tree(m); });
    else if (name == "files.img")
      each([&](ByteView m) { return read_file(m); });
    else if (name == "filelocks.img")
      each([&](ByteView m) { return read_lock(m); });
    else if (name == "remap-fpath.img")
      each([&](ByteView m) { return read_remap(m); });
    else if (auto core = number_in(name, "core-"))
      each([&, n = *core](ByteView m) { return read_core(n, m); });
    else if (auto mm = number_in(name, "mm-"))
      each([&, n = *mm](ByteView m) { return read_memory(process(n), m); });
    else if (auto map = number_in(name, "pagemap-"))
      each([&, n = *map](ByteView m) { return read_pages(process(n), m); });
    else if (auto table = number_in(name, "fdinfo-"))
      each([&, n = *table](ByteView m) { return read_descriptor(static_cast<u32>(n), m); });
    else if (auto ghost = ghost_in(name))
      read_ghost(static_cast<u32>(*ghost), file);
    if (!sound) facts_.complete = false;
  }

  // What the files say together, whatever the order in which they were read.
  void finish() {
    std::erase_if(facts_.processes, [this](const auto &p) { return !in_tree_.contains(p.first); });
    for (const Remap &r : remaps_)
      if (auto f = facts_.files.find(r.id); f != facts_.files.end()) {
        f->second.by_other_name = true;
        if (r.type == kByLink) f->second.link = r.other;
        if (r.type == kAsGhost) f->second.ghost = r.other;
      }
    for (auto &[pid, p] : facts_.processes)
      if (auto core = cores_.find(pid); core != cores_.end()) {
        p.alive = core->second.alive;
        p.descriptors = core->second.descriptors;
        p.timers = std::move(core->second.timers);
      }
  }

 private:
  struct Core {
    bool alive = true;
    u32 descriptors = 0;
    std::vector<PosixTimer> timers;
  };
  struct Remap {
    u32 id, other;
    u64 type;
  };

  bool read_tree(ByteView message) {
    Numbers n(message);
    auto pid = static_cast<pid_t>(n.at(PstreeFields::kPid));
    in_tree_.insert(pid);
    CriuFiles::Process &p = facts_.processes[pid];
    ProtoFields fields(message);
    while (std::optional<ProtoField> f = fields.next())
      if (f->number == PstreeFields::kThreads && f->type == 0)
        p.threads.insert(static_cast<pid_t>(f->value));
    return n.sound;
  }

  bool read_core(pid_t thread, ByteView message) {
    Core core;
    bool is_process = false;
    bool sound = each_embedded(message, CoreFields::kTask, [&](ByteView task) {
      is_process = true;
      u64 state = Numbers(task).at(CoreFields::kTaskState);
      core.alive = state == kAlive || state == kStopped;
      core.timers = timers_in(task);
    });
    each_embedded(message, CoreFields::kIds, [&](ByteView ids) {
      core.descriptors = static_cast<u32>(Numbers(ids).at(CoreFields::kFilesId));
    });
    if (is_process) cores_[thread] = std::move(core);
    return sound;
  }

  static std::vector<PosixTimer> timers_in(ByteView task) {
    std::vector<PosixTimer> all;
    each_embedded(task, TaskFields::kTimers, [&](ByteView timers) {
      each_embedded(timers, TaskFields::kPosix, [&](ByteView timer) {
        Numbers n(timer);
        auto number = [&n](u32 field) { return static_cast<i32>(n.at(field)); };
        all.push_back({number(PosixTimerFields::kClock), number(PosixTimerFields::kNotify),
                       number(PosixTimerFields::kSignal)});
      });
    });
    return all;
  }

  static bool read_memory(CriuFiles::Process &p, ByteView message) {
    p.has_memory = true;
    Numbers mm(message);
    p.executable = static_cast<u32>(mm.at(MmFields::kExecutable));
    each_embedded(message, MmFields::kVmas, [&](ByteView vma) {
      Numbers n(vma);
      u64 status = n.at(VmaFields::kStatus);
      bool of_file = status & (kFilePrivate | kFileShared);
      p.mappings.push_back({n.at(VmaFields::kStart), n.at(VmaFields::kEnd),
                            of_file ? static_cast<u32>(n.at(VmaFields::kFile)) : 0,
                            (status & (kFilePrivate | kPrivate | kAioRing)) != 0,
                            static_cast<u32>(n.at(VmaFields::kFileFlags))});
    });
    return mm.sound;
  }

  // The first message names the file with the pages themselves.
  static bool read_pages(CriuFiles::Process &p, ByteView message) {
    Numbers n(message);
    if (!p.has_pages) {
      p.has_pages = true;
      p.pages_file = static_cast<u32>(n.at(PagemapFields::kFileOfHead));
      return n.sound;
    }
    u64 begin = n.at(PagemapFields::kAddress);
    u64 pages =
        n.at(n.has(PagemapFields::kPages) ? PagemapFields::kPages : PagemapFields::kOldPages);
    if (pages > ~u64{0} / kPageBytes || begin + pages * kPageBytes < begin) return false;
    p.pages.push_back(
        {begin, begin + pages * kPageBytes, (n.at(PagemapFields::kFlags) & kStored) != 0});
    return n.sound;
  }

  bool read_file(ByteView message) {
    Numbers n(message);
    CriuFiles::File &f = facts_.files[static_cast<u32>(n.at(FileFields::kId))];
    each_embedded(message, FileFields::kUnixSocket, [&](ByteView socket) {
      each_embedded(socket, UnixSocketFields::kName, [&](ByteView name) {
        std::string path(text(name));
        if (path.starts_with('/')) f.socket = path.substr(0, path.find('\0'));
      });
      f.unix_name = unix_name_of(socket);
    });
    each_embedded(message, FileFields::kRegular, [&](ByteView regular) {
      Numbers r(regular);
      each_embedded(regular, RegularFileFields::kName,
                    [&f](ByteView name) { f.path = text(name); });
      f.size = r.at(RegularFileFields::kSize);
      f.flags = static_cast<u32>(r.at(RegularFileFields::kFlags));
      if (r.has(RegularFileFields::kMode))
        f.mode = static_cast<u32>(r.at(RegularFileFields::kMode));
      f.by_other_name |= r.at(RegularFileFields::kExternal) != 0;
    });
    return n.sound;
  }

  // A relative name begins in the folder that CRIU has found it in. An unlinked socket has none.
  static std::string unix_name_of(ByteView socket) {
    std::string name, folder;
    each_embedded(socket, UnixSocketFields::kName, [&](ByteView n) { name = text(n); });
    each_embedded(socket, UnixSocketFields::kFolder, [&](ByteView n) { folder = text(n); });
    if (name.empty()) return {};
    if (name.front() == '\0') return "@" + name.substr(1);
    if (Numbers(socket).at(UnixSocketFields::kUnlinked)) return {};
    name.resize(std::min(name.find('\0'), name.size()));
    return name.starts_with('/') || folder.empty() ? name : folder + "/" + name;
  }

  bool read_lock(ByteView message) {
    Numbers n(message);
    facts_.locks.push_back(
        {static_cast<pid_t>(n.at(LockFields::kPid)), static_cast<int>(n.at(LockFields::kFd))});
    return n.sound;
  }

  bool read_remap(ByteView message) {
    Numbers n(message);
    remaps_.push_back({static_cast<u32>(n.at(RemapFields::kId)),
                       static_cast<u32>(n.at(RemapFields::kOther)), n.at(RemapFields::kType)});
    return n.sound;
  }

  // The first message; what follows are the file's contents.
  void read_ghost(u32 number, ByteView file) {
    for_each_message(file, [&](ByteView message) {
      Numbers n(message);
      auto as_u32 = [&n](u32 field) { return static_cast<u32>(n.at(field)); };
      facts_.ghosts[number] = {as_u32(GhostFields::kUid), as_u32(GhostFields::kGid),
                               as_u32(GhostFields::kMode)};
      return false;
    });
  }

  bool read_descriptor(u32 table, ByteView message) {
    Numbers n(message);
    facts_.descriptors[table][static_cast<int>(n.at(FdinfoFields::kFd))] =
        static_cast<u32>(n.at(FdinfoFields::kId));
    return n.sound;
  }

  CriuFiles &facts_;
  std::set<pid_t> in_tree_;
  std::vector<Remap> remaps_;
  std::map<pid_t, Core> cores_;
};

}  // namespace

bool is_fact_file(const std::string &name) {
  return name == "pstree.img" || name == "files.img" || name == "remap-fpath.img" ||
         name == "filelocks.img" || number_in(name, "core-") || number_in(name, "mm-") ||
         number_in(name, "pagemap-") || number_in(name, "fdinfo-") || ghost_in(name);
}

void FactFiles::add(const std::string &name, ByteView part) {
  if (!is_fact_file(name) || too_large_.contains(name)) return;
  Bytes &file = contents_[name];
  part = part.first(kept_bytes(name, file.size() + part.size()) - file.size());
  if (file.size() + part.size() > kMostFactBytes || bytes_ + part.size() > kMostFactBytesOfAll) {
    bytes_ -= file.size();
    contents_.erase(name);
    too_large_.insert(name);
    return;
  }
  file.insert(file.end(), part.begin(), part.end());
  bytes_ += part.size();
}

void FactFiles::close(const std::string &name, u64 size) {
  sizes_[name] = size;
  if (is_fact_file(name) && !too_large_.contains(name)) contents_[name];
}

CriuFiles CriuFiles::of(const FactFiles &files) {
  CriuFiles facts;
  facts.sizes = files.sizes();
  FactReader reader(facts);
  for (const auto &[name, contents] : files.contents()) reader.read(name, contents);
  for (const auto &[name, size] : files.sizes())
    if (is_fact_file(name) && !files.contents().contains(name)) facts.complete = false;
  reader.finish();
  return facts;
}

CriuFiles CriuFiles::of(const storage::ImageReader &image) {
  FactFiles files;
  for (const storage::StreamEntry &s : image.streams()) {
    if (!s.name.starts_with(kCriuStreams)) continue;
    std::string name = s.name.substr(kCriuStreams.size());
    if (is_fact_file(name) && kept_bytes(name, s.size) <= kMostFactBytes) {
      Bytes contents(kept_bytes(name, s.size));
      if (image.read(s, 0, contents)) files.add(name, contents);
    }
    files.close(name, s.size);
  }
  return of(files);
}

}  // namespace ckpt::tools
