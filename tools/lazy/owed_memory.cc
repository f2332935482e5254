// SPDX-License-Identifier: Apache-2.0
#include "tools/lazy/owed_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <set>

#include "tools/criu/criu_file.h"
#include "tools/criu/criu_files.h"
#include "tools/criu/streamer.h"

namespace ckpt::tools {
namespace {

// A mapping with less is loaded before the program runs: each one that is owed costs two splits.
constexpr u64 kLeastBytes = 1 << 20;

// Field numbers of CRIU's images/*.proto.
struct MmEntry {
  static constexpr u32 kVmas = 14;
};
struct VmaEntry {
  static constexpr u32 kStart = 1, kEnd = 2, kFlags = 6, kStatus = 7;
};
struct CoreEntry {
  static constexpr u32 kThread = 5;
};
struct ThreadCoreEntry {
  static constexpr u32 kCreds = 10, kRseq = 15;
};
struct CredsEntry {
  static constexpr u32 kEffective = 11;
};
struct RseqEntry {
  static constexpr u32 kAddress = 1, kSize = 2;
};
struct PagemapEntry {
  static constexpr u32 kAddress = 1, kOldPages = 2, kPages = 5;
};
// criu/include/image.h
constexpr u64 kRegular = 1 << 0, kHeap = 1 << 5, kAnonymousPrivate = 1 << 9;
constexpr u64 kSysPtrace = u64{1} << 19;  // capabilities(7)

struct Interval {
  u64 begin, end;
};

bool can_be_owed(const ProtoMessage &vma) {
  u64 status = vma.number(VmaEntry::kStatus) & ~kHeap, flags = vma.number(VmaEntry::kFlags);
  constexpr u64 kNever = MAP_GROWSDOWN | MAP_LOCKED | MAP_HUGETLB | MAP_SHARED;
  return status == (kRegular | kAnonymousPrivate) && !(flags & kNever) && (flags & MAP_PRIVATE) &&
         vma.number(VmaEntry::kStart) % kLazyPage == 0 &&
         vma.number(VmaEntry::kEnd) % kLazyPage == 0;
}

Bytes file_of(const storage::ImageReader &image, const std::string &name) {
  const storage::StreamEntry *stream = image.find(std::string(kCriuStreams) + name);
  Bytes all;
  if (!stream || stream->size > kMostFactBytes) return all;
  all.resize(stream->size);
  if (!image.read(*stream, 0, all)) all.clear();
  return all;
}

// The embedded messages of a field in all messages of a file.
void each_in(const Bytes &file, u32 field, const std::function<void(ProtoMessage &)> &f) {
  for_each_message(file, [&](ByteView bytes) {
    if (std::optional<ProtoMessage> m = ProtoMessage::parse(bytes)) m->edit_each(field, f);
    return true;
  });
}

class ProcessReader {
 public:
  ProcessReader(const storage::ImageReader &image, pid_t pid, const CriuFiles::Process &p,
                UserfaultRights rights)
      : image_(image), pid_(pid), process_(p), rights_(rights) {}

  // "" or why its memory cannot be owed.
  std::string read(OwedProcess &owed) {
    if (!process_.has_pages) return "";
    owed.stream = fmt::format("{}pages-{}.img", kCriuStreams, process_.pages_file);
    const storage::StreamEntry *stream = image_.find(owed.stream);
    if (std::string why = read_threads(); !why.empty()) return why;
    read_mappings();
    u64 size = 0;
    for (const CriuFiles::Pages &p : process_.pages) {
      if (!p.stored) continue;
      add(owed, p, size);
      size += p.end - p.begin;
    }
    if (size != (stream ? stream->size : 0)) return "its list of pages does not fit its pages";
    drop_small(owed);
    std::ranges::sort(owed.pieces, {}, &OwedPiece::offset);
    add_rest(owed, size);
    std::ranges::sort(owed.pieces, {}, &OwedPiece::begin);
    return "";
  }

 private:
  // The kernel writes to a thread's area whenever the thread goes on, and before its page arrives.
  std::string read_threads() {
    std::string why;
    for (pid_t thread : process_.threads)
      each_in(file_of(image_, fmt::format("core-{}.img", thread)), CoreEntry::kThread,
              [&](ProtoMessage &t) {
                t.edit_each(ThreadCoreEntry::kRseq, [&](ProtoMessage &rseq) {
                  u64 at = rseq.number(RseqEntry::kAddress), size = rseq.number(RseqEntry::kSize);
                  written_.push_back({at / kLazyPage * kLazyPage, at + std::max<u64>(size, 32)});
                });
                t.edit_each(ThreadCoreEntry::kCreds, [&](ProtoMessage &creds) {
                  std::vector<u64> words = creds.numbers(CredsEntry::kEffective);
                  bool has_right = !words.empty() && (words[0] & kSysPtrace);
                  if (!has_right && rights_ == UserfaultRights::OfProgram)
                    why = "it has no CAP_SYS_PTRACE, which the kernel asks for";
                });
              });
    return why;
  }

  void read_mappings() {
    each_in(file_of(image_, fmt::format("mm-{}.img", pid_)), MmEntry::kVmas,
            [&](ProtoMessage &vma) {
              if (can_be_owed(vma))
                mappings_.push_back({vma.number(VmaEntry::kStart), vma.number(VmaEntry::kEnd)});
            });
    std::ranges::sort(mappings_, {}, &Interval::begin);
  }

  void add(OwedProcess &owed, const CriuFiles::Pages &p, u64 offset) {
    auto m = std::ranges::upper_bound(mappings_, p.begin, {}, &Interval::end);
    for (; m != mappings_.end() && m->begin < p.end; ++m) {
      u64 begin = std::max(p.begin, m->begin), end = std::min(p.end, m->end);
      for (u64 at = begin; at < end;) {
        u64 stop = next_written(at, end);
        if (stop > at) owed.pieces.push_back({at, stop, offset + (at - p.begin)});
        at = stop < end ? stop + kLazyPage : end;
      }
    }
  }

  // The first page in [at, end) to which the kernel writes, or `end`.
  u64 next_written(u64 at, u64 end) const {
    u64 next = end;
    for (const Interval &w : written_)
      if (w.end > at && w.begin < end) next = std::min(next, std::max(at, w.begin));
    return next;
  }

  void drop_small(OwedProcess &owed) const {
    std::map<u64, u64> bytes;  // by the beginning of the mapping
    auto mapping = [this](const OwedPiece &p) {
      return std::ranges::upper_bound(mappings_, p.begin, {}, &Interval::end)->begin;
    };
    for (const OwedPiece &p : owed.pieces) bytes[mapping(p)] += p.end - p.begin;
    std::erase_if(owed.pieces, [&](const OwedPiece &p) { return bytes[mapping(p)] < kLeastBytes; });
  }

  static void add_rest(OwedProcess &owed, u64 size) {
    u64 at = 0;
    for (const OwedPiece &p : owed.pieces) {
      if (p.offset > at) owed.rest.push_back({at, p.offset - at});
      at = p.offset + (p.end - p.begin);
    }
    if (size > at) owed.rest.push_back({at, size - at});
  }

  const storage::ImageReader &image_;
  pid_t pid_;
  const CriuFiles::Process &process_;
  UserfaultRights rights_;
  std::vector<Interval> mappings_, written_;
};

void set_range(ProtoMessage &entry, u64 begin, u64 end) {
  entry.set_number(PagemapEntry::kAddress, begin);
  u32 field = entry.number(PagemapEntry::kPages) ? PagemapEntry::kPages : PagemapEntry::kOldPages;
  entry.set_number(field, (end - begin) / kLazyPage);
}

void put_message(Writer &out, const ProtoMessage &message) {
  Bytes bytes = message.encode();
  out.put(static_cast<u32>(bytes.size()));
  out.raw(bytes.data(), bytes.size());
}

// What CRIU is to read of an entry of the list of pages.
void put_rest(Writer &out, ProtoMessage entry, const OwedMap &owed) {
  u64 pages = entry.number(PagemapEntry::kPages);
  if (pages == 0) pages = entry.number(PagemapEntry::kOldPages);
  u64 at = entry.number(PagemapEntry::kAddress), end = at + pages * kLazyPage;
  while (at < end) {
    std::optional<OwedPiece> piece = owed.next(at);
    u64 stop = piece ? std::min(end, piece->begin) : end;
    if (stop > at) {
      set_range(entry, at, stop);
      put_message(out, entry);
    }
    at = piece ? std::min(end, piece->end) : end;
  }
}

Bytes shorter_list(const Bytes &file, const std::vector<OwedPiece> &pieces) {
  constexpr size_t kMagic = 8;
  if (file.size() < kMagic) return file;
  OwedMap owed;
  for (const OwedPiece &p : pieces) owed.add(p);
  Writer out;
  out.raw(file.data(), kMagic);
  bool first = true;
  bool sound = for_each_message(file, [&](ByteView bytes) {
    std::optional<ProtoMessage> m = ProtoMessage::parse(bytes);
    if (!m) return false;
    if (std::exchange(first, false))
      put_message(out, *m);
    else
      put_rest(out, std::move(*m), owed);
    return true;
  });
  return sound ? out.take() : file;
}

}  // namespace

u64 OwedMemory::bytes() const {
  u64 all = 0;
  for (const auto &[pid, p] : processes)
    for (const OwedPiece &piece : p.pieces) all += piece.end - piece.begin;
  return all;
}

OwedMemory owed_memory(const storage::ImageReader &image, UserfaultRights rights,
                       Reasons &reasons) {
  CriuFiles criu = CriuFiles::of(image);
  OwedMemory owed;
  std::set<std::string> streams;
  std::string why = criu.complete ? "" : "a list of its memory is too large or damaged";
  for (const auto &[pid, process] : criu.processes) {
    OwedProcess p;
    if (why.empty()) why = ProcessReader(image, pid, process, rights).read(p);
    if (p.pieces.empty()) continue;
    if (why.empty() && !streams.insert(p.stream).second) why = "processes share a file of pages";
    owed.processes[pid] = std::move(p);
  }
  if (!why.empty())
    reasons.push_back(
        fmt::format("the program cannot go on before its memory is loaded: {}; leave "
                    "--lazy out",
                    why));
  return owed;
}

StreamEdits without_owed(const StreamEdits &edits, const OwedMemory &owed) {
  std::map<std::string, OwedProcess> lists, pages;
  for (const auto &[pid, p] : owed.processes) {
    if (p.pieces.empty()) continue;
    lists[fmt::format("pagemap-{}.img", pid)] = p;
    pages[p.stream.substr(kCriuStreams.size())] = p;
  }
  return {.wanted = [lists, wanted = edits.wanted](
                        const std::string &n) { return lists.contains(n) || wanted(n); },
          .edited =
              [lists, edited = edits.edited](const std::string &n, Bytes bytes) {
                auto list = lists.find(n);
                if (list != lists.end()) return shorter_list(bytes, list->second.pieces);
                return edited(n, std::move(bytes));
              },
          .parts = [pages](const std::string &n) -> std::optional<std::vector<StreamPart>> {
            auto p = pages.find(n);
            if (p == pages.end()) return std::nullopt;
            return p->second.rest;
          }};
}

}  // namespace ckpt::tools
