// SPDX-License-Identifier: Apache-2.0
//
// Host memory is read when the command runs, not when it is enqueued (facts/opencl.md). We read it
// at enqueue, into staging, which the application can tell apart in one case only: an earlier read
// into the same memory is still under way. settle_reads() waits for such reads first.
#include "libckpt-ocl/client/transfer.h"

#include <algorithm>
#include <deque>

#include "common/base/reversed.h"

namespace ckpt::ocl {
namespace {

// Reads that are under way, by the host memory they will fill.
class Landings {
 public:
  void add(Event *e, std::byte *from, std::byte *to) {
    std::lock_guard lock(mutex_);
    list_.push_back({Ref<Event>(e), from, to});
  }
  // The newest read that will touch [from, to); those that are over are forgotten on the way.
  Ref<Event> overlapping(const std::byte *from, const std::byte *to) {
    std::lock_guard lock(mutex_);
    std::erase_if(list_, [](const Landing &l) { return l.event->over(); });
    for (const Landing &l : reversed(list_))
      if (l.from < to && from < l.to) return l.event;
    return {};
  }

 private:
  struct Landing {
    Ref<Event> event;
    std::byte *from, *to;
  };
  std::mutex mutex_;
  std::vector<Landing> list_;
};

Landings &landings() {
  static Landings *l = new Landings;
  return *l;
}

void settle_reads(const void *host, size_t bytes) {
  const auto *from = static_cast<const std::byte *>(host);
  while (Ref<Event> e = landings().overlapping(from, from + bytes)) wait(*e);
}

void copy_rows(std::byte *to, size_t to_row, size_t to_slice, const std::byte *from,
               size_t from_row, size_t from_slice, const size_t region[3]) {
  for (size_t z = 0; z < region[2]; z++)
    for (size_t y = 0; y < region[1]; y++)
      std::memcpy(to + z * to_slice + y * to_row, from + z * from_slice + y * from_row, region[0]);
}

// How a transfer goes: its pieces, and how many of them are under way at a time.
struct Pace {
  size_t piece_bytes = kMaxPiece, window = SIZE_MAX;
};

// Somebody waits for it: pieces that are still in the processor's cache when the other side copies
// them, and few enough that the same staging is used again and again.
constexpr Pace kInCache{1u << 20, 4};

// Cuts a rectangle into pieces of at most `most` bytes: whole slices, else rows, else parts of a
// row. A plain transfer, being one long row, is cut by the last rule.
std::vector<Rect> pieces_of(const Rect &all, size_t most) {
  size_t step[3] = {std::min(all.region[0], most), 1, 1};
  if (step[0] == all.region[0])
    step[1] = std::min(all.region[1], std::max<size_t>(1, most / all.region[0]));
  if (step[1] == all.region[1])
    step[2] = std::min(all.region[2], std::max<size_t>(1, most / (all.region[0] * all.region[1])));
  std::vector<Rect> pieces;
  for (size_t z = 0; z < all.region[2]; z += step[2])
    for (size_t y = 0; y < all.region[1]; y += step[1])
      for (size_t x = 0; x < all.region[0]; x += step[0]) {
        Rect p = all;
        size_t at[3] = {x, y, z};
        for (int d = 0; d < 3; d++) {
          p.buffer_origin[d] += at[d];
          p.region[d] = std::min(step[d], all.region[d] - at[d]);
        }
        pieces.push_back(p);
      }
  return pieces;
}

size_t bytes_of(const Rect &r) { return r.region[0] * r.region[1] * r.region[2]; }

size_t host_offset(const Rect &piece, const Rect &all) {
  return piece.buffer_origin[0] - all.buffer_origin[0] +
         (piece.buffer_origin[1] - all.buffer_origin[1]) * all.host_row +
         (piece.buffer_origin[2] - all.buffer_origin[2]) * all.host_slice;
}

bool is_plain(const Rect &r) { return r.region[1] == 1 && r.region[2] == 1; }

Op operation_of(bool reading, const Mem &mem, const Rect &r) {
  if (mem.image) return reading ? Op::ReadImage : Op::WriteImage;
  if (is_plain(r)) return reading ? Op::Read : Op::Write;
  return reading ? Op::ReadRect : Op::WriteRect;
}

void put_place(Writer &w, Command &c, const Mem &mem, const Rect &r, u64 staging) {
  w.put(c.queue().number).put(mem.number);
  if (mem.image) {
    size_t element = mem.image->element;
    w.put(u64{r.buffer_origin[0] / element}).put(u64{r.buffer_origin[1]});
    w.put(u64{r.buffer_origin[2]}).put(u64{r.region[0] / element});
    w.put(u64{r.region[1]}).put(u64{r.region[2]});
  } else if (is_plain(r)) {
    u64 offset = r.buffer_origin[0] + r.buffer_origin[1] * r.buffer_row +
                 r.buffer_origin[2] * r.buffer_slice;
    w.put(offset).put(u64{r.region[0]});
  } else {
    for (size_t v : r.buffer_origin) w.put(u64{v});
    for (size_t v : r.region) w.put(u64{v});
    w.put(u64{r.buffer_row}).put(u64{r.buffer_slice});
  }
  w.put(staging);
  c.put_waits(w);
}

// One piece of a transfer; `data` is the host's place for it.
cl_int send_piece(Command &c, bool reading, const Mem &mem, const Rect &r, std::byte *data) {
  size_t bytes = bytes_of(r);
  u16 operation = static_cast<u16>(operation_of(reading, mem, r));
  Writer w;
  // Small writes travel in the command itself.
  if (!reading && bytes <= 4096) {
    put_place(w, c, mem, r, kInline);
    Bytes packed(bytes);
    copy_rows(packed.data(), r.region[0], r.region[0] * r.region[1], data, r.host_row, r.host_slice,
              r.region);
    w.blob(packed);
    return c.send(operation, w.bytes(), true);
  }
  std::optional<u64> staging = link().allocate_staging(bytes);
  if (!staging) return CL_DEVICE_NOT_AVAILABLE;
  Event &e = c.event();
  e.staging = *staging;
  e.staging_bytes = bytes;
  put_place(w, c, mem, r, *staging);
  if (reading) {
    e.target = {data, r.region[0], r.region[1], r.region[2], r.host_row, r.host_slice};
    return c.send(operation, w.bytes(), true);
  }
  copy_rows(link().staging(*staging), r.region[0], r.region[0] * r.region[1], data, r.host_row,
            r.host_slice, r.region);
  return c.send(operation, w.bytes(), true);
}

size_t host_extent(const Rect &r) {
  return r.region[0] + (r.region[1] - 1) * r.host_row + (r.region[2] - 1) * r.host_slice;
}

// The pieces of a transfer; `last` is the one that the application hears of. In a queue that is not
// in-order each waits for the one before.
cl_int send_pieces(Command &last, bool reading, Mem &mem, const Rect &all, std::byte *host,
                   Pace pace) {
  if (!reading) {
    settle_reads(host, host_extent(all));
    mem.will_be_written();
  }
  std::vector<Rect> pieces = pieces_of(all, pace.piece_bytes);
  Ref<Event> first, before;
  std::deque<Ref<Event>> under_way;
  for (size_t i = 0; i + 1 < pieces.size(); i++) {
    if (under_way.size() == pace.window) {
      wait(*under_way.front());
      under_way.pop_front();
    }
    Command c(last.queue(), last.type(), before.get());
    Command &piece = i == 0 ? c.with_waits_of(last) : c;
    Ref<Event> sent(&piece.event());
    std::byte *data = host + host_offset(pieces[i], all);
    if (cl_int r = send_piece(piece, reading, mem, pieces[i], data); r != CL_SUCCESS) return r;
    if (i == 0) first = sent;
    under_way.push_back(sent);
    before = std::move(sent);  // only now: the piece's wait list names the one before
  }
  if (first) {
    last.wait_for(before.get());
    last.event().first = first;
  }
  return send_piece(last, reading, mem, pieces.back(), host + host_offset(pieces.back(), all));
}

cl_int transfer(bool reading, cl_command_queue queue, cl_command_type type, Mem &mem,
                const Rect &all, std::byte *host, Blocking blocking, Waits waits, cl_event *out) {
  Command c(queue, type, waits);
  if (c.status() != CL_SUCCESS) return c.status();
  // Host memory that is written from may be used again once it was read; held commands read late.
  bool now = c.goes_now(), must_wait = blocking == Blocking::Yes && (reading || !now);
  Ref<Event> done(reading || must_wait ? &c.event() : nullptr);
  Pace pace = now && blocking == Blocking::Yes ? kInCache : Pace{};
  auto send = [=, keep = Ref<Mem>(&mem)](Command &it) {
    if (reading && !must_wait) landings().add(&it.event(), host, host + host_extent(all));
    return send_pieces(it, reading, *keep, all, host, pace);
  };
  cl_int r = now ? c.run_now(out, std::move(send)) : c.run_later(out, std::move(send));
  if (r == CL_SUCCESS && must_wait && wait(*done) < 0) return done->status.load();
  return r;
}

Rect one_row(size_t offset, size_t size) {
  return {{size, 1, 1}, {offset, 0, 0}, size, size, size, size};
}

}  // namespace

cl_int read_buffer(cl_command_queue queue, cl_command_type type, Mem &mem, size_t offset,
                   size_t size, void *host, Blocking blocking, Waits waits, cl_event *out) {
  return transfer(true, queue, type, mem, one_row(offset, size), static_cast<std::byte *>(host),
                  blocking, waits, out);
}

cl_int write_buffer(cl_command_queue queue, cl_command_type type, Mem &mem, size_t offset,
                    size_t size, const void *host, Blocking blocking, Waits waits, cl_event *out) {
  auto *from = static_cast<std::byte *>(const_cast<void *>(host));
  return transfer(false, queue, type, mem, one_row(offset, size), from, blocking, waits, out);
}

cl_int send_write(Command &c, Mem &mem, const Rect &rect, const std::byte *host) {
  return send_pieces(c, false, mem, rect, const_cast<std::byte *>(host), {});
}

cl_int send_write(Command &c, Mem &mem, size_t offset, size_t size, const std::byte *host) {
  return send_write(c, mem, one_row(offset, size), host);
}

cl_int read_rect(cl_command_queue queue, cl_command_type type, Mem &mem, const Rect &rect,
                 void *host, Blocking blocking, Waits waits, cl_event *out) {
  return transfer(true, queue, type, mem, rect, static_cast<std::byte *>(host), blocking, waits,
                  out);
}

cl_int write_rect(cl_command_queue queue, cl_command_type type, Mem &mem, const Rect &rect,
                  const void *host, Blocking blocking, Waits waits, cl_event *out) {
  return transfer(false, queue, type, mem, rect, static_cast<std::byte *>(const_cast<void *>(host)),
                  blocking, waits, out);
}

cl_int fill_new_buffer(Mem &mem, const void *host) {
  const auto *from = static_cast<const std::byte *>(host);
  for (size_t at = 0; at < mem.size; at += kMaxPiece) {
    size_t bytes = std::min(kMaxPiece, mem.size - at);
    settle_reads(from + at, bytes);
    std::optional<u64> staging = link().allocate_staging(bytes);
    if (!staging) return CL_DEVICE_NOT_AVAILABLE;
    std::memcpy(link().staging(*staging), from + at, bytes);
    Writer w;
    w.put(mem.number).put(u64{at}).put(u64{bytes}).put(*staging).put(u8{0});
    cl_int status = link().ask(Op::Poke, 0, w.bytes());
    link().staging_space().release(*staging, bytes);
    if (status != CL_SUCCESS) return status;
  }
  return CL_SUCCESS;
}

void deliver(Event &e) {
  if (!e.target) return;
  const Event::Target &t = *e.target;
  size_t region[3] = {t.row, t.rows, t.slices};
  copy_rows(t.at, t.row_pitch, t.slice_pitch, link().staging(e.staging), t.row, t.row * t.rows,
            region);
  e.target.reset();
}

}  // namespace ckpt::ocl
