// SPDX-License-Identifier: Apache-2.0
#include "tools/restore/image_edits.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <time.h>

#include <map>
#include <set>

#include "tools/criu/criu_file.h"
#include "tools/criu/interrupted_waits.h"
#include "tools/proc/timers.h"

namespace ckpt::tools {
namespace {

// Field numbers of CRIU's images/*.proto.
struct MmEntry {
  static constexpr u32 kVmas = 14;
};
struct VmaEntry {
  static constexpr u32 kStart = 1, kEnd = 2, kOffset = 3, kProtection = 5, kFlags = 6;
};
struct CoreEntry {
  static constexpr u32 kTask = 3, kThread = 5;
};
struct TaskCoreEntry {
  static constexpr u32 kTimers = 7;
};
struct TaskTimersEntry {
  static constexpr u32 kPosix = 4;
};
struct PosixTimerEntry {
  static constexpr u32 kClock = 2, kSignal = 3, kNotify = 4, kSeconds = 9, kNanoseconds = 10,
                       kThread = 11;
};
struct ThreadCoreEntry {
  static constexpr u32 kCreds = 10;
};
struct CredsEntry {
  static constexpr u32 kBoundingSet = 12;
};
struct FileEntry {
  static constexpr u32 kRegular = 3, kTimer = 12, kUnixSocket = 16;
};
struct UnixSocketEntry {
  static constexpr u32 kInode = 2, kName = 11, kPermissions = 13, kDeleted = 15;
};
struct FilePermsEntry {
  static constexpr u32 kUid = 2, kGid = 3;
};
struct RegularFileEntry {
  static constexpr u32 kPosition = 3, kName = 6, kSize = 8;
};
struct TtyInfoEntry {
  static constexpr u32 kUid = 14, kGid = 15;
};
struct TimerEntry {
  static constexpr u32 kSeconds = 7, kNanoseconds = 8, kIntervalSeconds = 9,
                       kIntervalNanoseconds = 10;
};

// CRIU counts the pages from the first one with contents to the end of a mapping in an `int` where
// it reads its pages from a pipe (criu/mem.c, restore_priv_vma_content), which is enough for 8 TiB.
constexpr u64 kLargestPiece = u64{4} << 40;
// A process has at most 2^56 bytes of addresses (five-level page tables); an image may claim more.
constexpr size_t kMostPieces = size_t{1} << 14;

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

// Pieces of one mapping, next to each other. The kernel makes one mapping of those without
// contents.
std::vector<ProtoMessage> pieces_of(ProtoMessage vma) {
  u64 begin = vma.number(VmaEntry::kStart), end = vma.number(VmaEntry::kEnd);
  u64 offset = vma.number(VmaEntry::kOffset), flags = vma.number(VmaEntry::kFlags);
  bool whole = !(flags & MAP_PRIVATE) || (flags & MAP_GROWSDOWN) || end <= begin;
  std::vector<ProtoMessage> pieces;
  while (!whole && end - begin > kLargestPiece && pieces.size() < kMostPieces) {
    ProtoMessage &piece = pieces.emplace_back(vma);
    piece.set_number(VmaEntry::kEnd, begin += kLargestPiece);
    vma.set_number(VmaEntry::kStart, begin);
    if (!(flags & MAP_ANONYMOUS)) vma.set_number(VmaEntry::kOffset, offset += kLargestPiece);
  }
  pieces.push_back(std::move(vma));
  return pieces;
}

// The IDs of the threads of one process.
using Threads = std::set<pid_t>;

// A timer that expires without a signal (timer_create(2), SIGEV_NONE).
void silence(ProtoMessage &t) {
  t.set_number(PosixTimerEntry::kNotify, SIGEV_NONE);
  t.set_number(PosixTimerEntry::kThread, 0);
}

// A clock that has ended stands still, and its timers never expire.
void stop(ProtoMessage &t) {
  t.set_number(PosixTimerEntry::kClock, CLOCK_MONOTONIC);
  t.set_number(PosixTimerEntry::kSeconds, 0);
  t.set_number(PosixTimerEntry::kNanoseconds, 0);
  silence(t);
}

// CRIU makes all timers in the main thread.
void edit_cpu_clock(ProtoMessage &t, const Threads &threads, const Threads &ended) {
  auto number = [&t](u32 field) { return static_cast<i32>(t.number(field)); };
  PosixTimer timer{number(PosixTimerEntry::kClock), number(PosixTimerEntry::kNotify),
                   number(PosixTimerEntry::kSignal)};
  std::optional<CpuClock> cpu = CpuClock::of(timer.clock);
  if (!cpu) return;
  if (timer.is_of_notified_thread())
    t.set_number(PosixTimerEntry::kClock,
                 static_cast<u32>(CpuClock::of_thread_with(number(PosixTimerEntry::kThread))));
  else if (cpu->id != 0 && (cpu->of_thread ? !threads.contains(cpu->id) : ended.contains(cpu->id)))
    stop(t);
}

void edit_posix_timer(ProtoMessage &t, const Threads &threads, const Threads &ended) {
  auto thread = static_cast<pid_t>(t.number(PosixTimerEntry::kThread));
  if ((t.number(PosixTimerEntry::kNotify) & SIGEV_THREAD_ID) && !threads.contains(thread))
    silence(t);
  edit_cpu_clock(t, threads, ended);
}

void edit_posix_timers(ProtoMessage &core, const Threads &threads, const Threads &ended) {
  core.edit_each(CoreEntry::kTask, [&](ProtoMessage &task) {
    task.edit_each(TaskCoreEntry::kTimers, [&](ProtoMessage &timers) {
      timers.edit_each(TaskTimersEntry::kPosix,
                       [&](ProtoMessage &timer) { edit_posix_timer(timer, threads, ended); });
    });
  });
}

using ThreadsByProcess = std::map<std::string, Threads>;  // by the name of the process's file

ThreadsByProcess threads_of(const ImageManifest &m) {
  ThreadsByProcess all;
  for (const ImageManifest::ProcessEntry &p : m.processes)
    all[fmt::format("core-{}.img", p.pid)] = Threads(p.threads.begin(), p.threads.end());
  return all;
}

Threads ended_processes(const ImageManifest &m) {
  Threads ended;
  for (const ImageManifest::ProcessEntry &p : m.processes)
    if (p.ended) ended.insert(p.pid);
  return ended;
}

using PathsByInode = std::map<u64, std::string>;

PathsByInode renamed_sockets(const ImageManifest &m) {
  PathsByInode paths;
  for (const ImageManifest::RenamedSocket &s : m.renamed_sockets) paths[s.inode] = s.path;
  return paths;
}

// As the kernel has names: with the zero byte at the end.
void edit_unix_socket(ProtoMessage &socket, const PathsByInode &renamed) {
  auto it = renamed.find(socket.number(UnixSocketEntry::kInode));
  if (it == renamed.end()) return;
  socket.set_bytes(UnixSocketEntry::kName, view(it->second.c_str(), it->second.size() + 1));
  socket.set_number(UnixSocketEntry::kDeleted, 0);
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
  auto add = [&files](const ImageManifest::MappedFile &f, bool at_end) {
    struct stat st {};
    if (::stat(f.path.c_str(), &st) == 0)
      files[f.path] = {f.size, static_cast<u64>(st.st_size), at_end};
  };
  for (const ImageManifest::MappedFile &f : m.mapped_files)
    if (has_grown_under_mapping(f)) add(f, false);
  for (const ImageManifest::File &f : m.files)
    if (grown.of(f) != GrownFiles::Refuse && has_grown(f))
      add(f, grown.of(f) == GrownFiles::Append ||
                 (grown.of(f) == GrownFiles::AppendOutput && is_output(m, f)));
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

// CRIU takes root for the owner of a socket whose file it does not find. A user cannot give a file
// away.
void keep_owner_of_socket(ProtoMessage &socket, const Credentials &user) {
  socket.edit_each(UnixSocketEntry::kPermissions, [&user](ProtoMessage &p) {
    if (p.number(FilePermsEntry::kUid) == user.uid) return;
    p.set_number(FilePermsEntry::kUid, user.uid);
    p.set_number(FilePermsEntry::kGid, user.gid);
  });
}

// The kernel gives a new terminal its owner and group. No user may give it to the group of another
// machine, or of /dev/pts in another namespace.
void keep_owner_of_terminal(ProtoMessage &tty) {
  constexpr u64 kUnchanged = ~u32{0};  // chown(2)
  tty.set_number(TtyInfoEntry::kUid, kUnchanged);
  tty.set_number(TtyInfoEntry::kGid, kUnchanged);
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

StreamEdits image_edits(const ImageManifest &m, const GrownFiles &grown, const CriuRights &rights,
                        std::function<void(ProtoMessage &)> edit_file) {
  // CRIU compares the sizes. Files are truncated after it (grown_files.h).
  auto edit_entry = [more = std::move(edit_file), files = grown_files(m, grown),
                     renamed = renamed_sockets(m), user = rights.for_files()](ProtoMessage &e) {
    e.edit_each(FileEntry::kTimer, edit_timer);
    e.edit_each(FileEntry::kRegular, [&](ProtoMessage &f) { edit_regular_file(f, files); });
    e.edit_each(FileEntry::kUnixSocket, [&](ProtoMessage &s) {
      edit_unix_socket(s, renamed);
      if (user.uid != 0) keep_owner_of_socket(s, user);
    });
    if (more) more(e);
  };
  auto edit_memory = [largest = largest_mapping()](ProtoMessage &mm) {
    mm.edit_each(MmEntry::kVmas, [&](ProtoMessage &vma) { edit_vma(vma, largest); });
    mm.replace_each(MmEntry::kVmas, pieces_of);
  };
  auto edit_core = [unprivileged = rights.without_root()](ProtoMessage &core) {
    restart_interrupted_wait(core);
    if (unprivileged) fill_bounding_set(core);
  };
  return {.wanted =
              [unprivileged = rights.without_root()](const std::string &n) {
                return n == "files.img" || n.starts_with("mm-") || n.starts_with("core-") ||
                       (unprivileged && n == "tty-info.img");
              },
          .edited =
              [=, threads = threads_of(m), ended = ended_processes(m)](const std::string &n,
                                                                       Bytes bytes) {
                if (n == "files.img") return edit_criu_file(std::move(bytes), edit_entry);
                if (n == "tty-info.img")
                  return edit_criu_file(std::move(bytes), keep_owner_of_terminal);
                if (n.starts_with("mm-")) return edit_criu_file(std::move(bytes), edit_memory);
                auto process = threads.find(n);
                return edit_criu_file(std::move(bytes), [&](ProtoMessage &core) {
                  edit_core(core);
                  if (process != threads.end()) edit_posix_timers(core, process->second, ended);
                });
              }};
}

}  // namespace ckpt::tools
