// SPDX-License-Identifier: Apache-2.0
#include "tools/agent_link/save_contents.h"

#include <algorithm>
#include <array>
#include <memory>
#include <mutex>
#include <vector>

#include "common/base/fields.h"
#include "storage/read/image_reader.h"
#include "tools/agent_link/device_streams.h"
#include "tools/manifest/manifest.h"

namespace ckpt::tools {
namespace {

using protocol::Type;

// Which slots are in use. Shared with the image's workers, which may free a slot after save_agent()
// has returned.
struct SlotTable {
  std::mutex mutex;
  int socket = -1;  // the agent's, for SlotFree; -1 once the save is over
  std::array<bool, StagingSlots::kSlots> busy{};

  bool take(u32 slot) {
    std::lock_guard lock(mutex);
    if (slot >= busy.size() || busy[slot]) return false;
    busy[slot] = true;
    return true;
  }
  void free(u32 slot) {
    std::lock_guard lock(mutex);
    busy[slot] = false;
    if (socket >= 0)
      (void)send_message(socket, static_cast<u16>(Type::SlotFree), Writer().put(slot).bytes());
  }
  void hang_up() {
    std::lock_guard lock(mutex);
    socket = -1;
  }
};

// `bytes` of zeros, or of the file, which the image's workers hold until they have written them.
Result<> write_piece(const KeptPiece &piece, const std::shared_ptr<ContentsFile> &file,
                     storage::ImageWriter &image) {
  static constinit std::array<std::byte, storage::kChunkBytes> zeros{};  // not const: in .bss
  if (!piece.bytes.empty())
    return image.put_in_place(piece.stream, piece.offset, piece.bytes, [file] {});
  for (u64 at = 0; at < piece.size; at += zeros.size())
    CKPT_CHECK(
        image.put_in_place(piece.stream, piece.offset + at,
                           ByteView(zeros).first(std::min<u64>(zeros.size(), piece.size - at))));
  return {};
}

class ContentsSaver {
 public:
  ContentsSaver(AgentClient &agent, StagingSlots &staging, storage::ImageWriter &image, u32 number,
                std::optional<u32> number_in_parent, std::atomic<u64> &progress, bool later)
      : agent_(agent),
        staging_(staging),
        image_(image),
        prefix_(device_stream_prefix(number)),
        number_in_parent_(image.parent() ? number_in_parent : std::nullopt),
        progress_(progress),
        later_(later) {
    slots_->socket = agent.fd();
  }
  ~ContentsSaver() { slots_->hang_up(); }

  Result<SavedAgent> run() {
    (void)agent_.announce(image_.uuid(),
                          number_in_parent_ ? image_.parent()->index().uuid : storage::Uuid{});
    (void)agent_.offer_to_read();
    CKPT_CHECK(agent_.begin_save(staging_));
    for (;;) {
      CKPT_TRY(Message m, agent_.receive());
      Reader in = m.reader();
      switch (static_cast<Type>(m.type)) {
        case Type::Region: CKPT_CHECK(region(in)); break;
        case Type::RegionSame: CKPT_CHECK(region_same(in)); break;
        case Type::SlotFull: CKPT_CHECK(slot_full(in)); break;
        case Type::ContentsFile: CKPT_CHECK(contents_file(m)); break;
        case Type::ChunkKnown: CKPT_CHECK(chunk_known(in)); break;
        case Type::ContentsAt: CKPT_CHECK(contents_at(in)); break;
        case Type::ContentsLater: CKPT_CHECK(contents_later(m)); break;
        case Type::ContentsDue: CKPT_CHECK(contents_due(in)); break;
        case Type::Surveyed: CKPT_CHECK(surveyed(in)); break;
        case Type::Saved: return saved(in);
        default: return fail("the agent sent the unexpected message {} during the save", m.type);
      }
    }
  }

 private:
  Result<SavedAgent> saved(Reader &in) {
    saved_.requirements = std::string(in.str());
    if (saved_.later) CKPT_CHECK(follow_owner());
    return std::move(saved_);
  }

  Result<> region(Reader &in) {
    u32 number = in.get<u32>();
    std::string name(in.str());
    u64 bytes = in.get<u64>();
    if (!in.ok() || number != regions_.size())
      return fail("the agent sent a malformed message about a region");
    CKPT_TRY(storage::StreamId id, image_.stream(prefix_ + name));
    regions_.push_back(id);
    sizes_.push_back(bytes);
    saved_.bytes += bytes;
    return {};
  }

  Result<> region_same(Reader &in) {
    Reader fields = in;
    fields.get<u32>();
    std::string name(fields.str());
    u64 bytes = fields.get<u64>();
    CKPT_CHECK(region(in));
    if (!number_in_parent_)
      return fail("the agent refers to a parent image, but this image has none");
    progress_ += bytes;
    saved_.unchanged_bytes += bytes;
    return image_.reuse(regions_.back(), device_stream_prefix(*number_in_parent_) + name, bytes);
  }

  Result<> slot_full(Reader &in) {
    u32 slot = in.get<u32>(), region = in.get<u32>();
    u64 offset = in.get<u64>();
    u32 bytes = in.get<u32>();
    if (!in.ok() || region >= regions_.size() || bytes > StagingSlots::kSlotBytes ||
        !slots_->take(slot))
      return fail("the agent sent a malformed message about a slot");
    progress_ += bytes;
    return image_.put(regions_[region], offset, staging_.slot(slot).first(bytes),
                      [slots = slots_, slot] { slots->free(slot); });
  }

  Result<> chunk_known(Reader &in) {
    u32 region = in.get<u32>();
    u64 offset = in.get<u64>();
    u32 bytes = in.get<u32>();
    storage::ChunkAddress address{in.get<u64>(), in.get<u64>()};
    if (!in.ok() || region >= regions_.size() || bytes > sizes_[region] ||
        offset > sizes_[region] - bytes)
      return fail("the agent sent a malformed message about a chunk of the parent image");
    progress_ += bytes;
    saved_.unchanged_bytes += bytes;
    return image_.put_known(regions_[region], offset, bytes, address);
  }

  Result<> surveyed(Reader &in) {
    saved_.zero_bytes = in.get<u64>();
    saved_.blind = read_texts(in);
    if (in.ok() && saved_.zero_bytes <= saved_.bytes) return {};
    return fail("the agent sent a malformed message about what its devices saw");
  }

  Result<> contents_file(Message &m) {
    u64 bytes = m.reader().get<u64>();
    if (m.fds.size() != 1 || saved_.file)
      return fail("the agent sent a malformed message about its file of device memory");
    CKPT_TRY(saved_.file, ContentsFile::map(std::move(m.fds[0]), bytes));
    return {};
  }

  struct InFile {
    u32 region = 0;
    u64 offset = 0, bytes = 0, at = 0;
  };
  Result<InFile> in_file(Reader &in) const {
    InFile f{in.get<u32>(), in.get<u64>(), in.get<u64>(), in.get<u64>()};
    if (in.ok() && f.region < regions_.size() && f.bytes > 0 && f.bytes <= sizes_[f.region] &&
        f.offset <= sizes_[f.region] - f.bytes && (f.at == protocol::kZeros || saved_.file))
      return f;
    return fail("the agent sent a malformed message about contents in its file");
  }

  Result<> contents_later(Message &m) {
    if (m.fds.size() != 1 || !saved_.file || saved_.later)
      return fail("the agent sent a malformed message about the owner of device memory");
    saved_.while_it_runs = m.reader().get<u8>() == 1;
    saved_.later = std::make_unique<LaterContents>(std::move(m.fds[0]));
    return {};
  }

  Result<> contents_due(Reader &in) {
    CKPT_TRY(InFile f, in_file(in));
    if (!saved_.later || f.at == protocol::kZeros)
      return fail("the agent sent a malformed message about contents that are to come");
    progress_ += f.bytes;
    saved_.later->add({regions_[f.region], f.offset, f.bytes, f.at});
    return {};
  }

  // Its thread ends before the image, and before the file is used otherwise.
  Result<> follow_owner() {
    saved_.come = std::make_shared<std::vector<KeptPiece>>();
    return saved_.later->start([file = saved_.file, image = &image_, later = later_,
                                come = saved_.come](const LaterContents::Due &d) -> Result<> {
      KeptPiece piece{d.stream, d.offset, {}, d.bytes};
      CKPT_TRY(piece.bytes, file->part(d.at, d.bytes));
      if (!later) return write_piece(piece, file, *image);
      come->push_back(piece);
      return {};
    });
  }

  Result<> contents_at(Reader &in) {
    CKPT_TRY(InFile f, in_file(in));
    auto [region, offset, bytes, at] = f;
    KeptPiece piece{regions_[region], offset, {}, bytes};
    if (at != protocol::kZeros) {
      CKPT_TRY(piece.bytes, saved_.file->part(at, bytes));
    }
    progress_ += bytes;
    if (!later_) return write_piece(piece, saved_.file, image_);
    saved_.kept.push_back(piece);
    return {};
  }

  AgentClient &agent_;
  StagingSlots &staging_;
  storage::ImageWriter &image_;
  std::string prefix_;
  std::optional<u32> number_in_parent_;
  std::atomic<u64> &progress_;
  std::shared_ptr<SlotTable> slots_ = std::make_shared<SlotTable>();
  const bool later_;
  std::vector<storage::StreamId> regions_;
  std::vector<u64> sizes_;  // of the regions
  SavedAgent saved_;
};

}  // namespace

// The manifest is untrusted input: any field may be missing or of another type.
std::optional<u32> agent_number_in(const storage::ImageReader &image, pid_t pid) {
  std::vector<manifest::Agent> agents = manifest::readable_fields(image.manifest()).agents;
  auto found = std::ranges::find(agents, pid, &manifest::Agent::pid);
  if (found == agents.end()) return std::nullopt;
  return static_cast<u32>(found - agents.begin());
}

Result<SavedAgent> save_agent(AgentClient &agent, StagingSlots &staging,
                              storage::ImageWriter &image, u32 number,
                              std::optional<u32> number_in_parent, std::atomic<u64> &progress,
                              bool later) {
  return ContentsSaver(agent, staging, image, number, number_in_parent, progress, later).run();
}

Result<> wait_for_later(SavedAgent &saved) {
  if (!saved.later) return {};
  CKPT_CHECK(saved.later->wait());
  std::ranges::move(*saved.come, std::back_inserter(saved.kept));
  saved.come->clear();
  return {};
}

Result<> write_kept(SavedAgent &saved, storage::ImageWriter &image) {
  for (const KeptPiece &piece : std::exchange(saved.kept, {}))
    CKPT_CHECK(write_piece(piece, saved.file, image));
  saved.file.reset();
  return {};
}

}  // namespace ckpt::tools
