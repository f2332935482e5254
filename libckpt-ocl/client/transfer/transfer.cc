// SPDX-License-Identifier: Apache-2.0
//
// The specification says that a non-blocking write reads host memory when the command executes.
// This library copies it to staging when the command is enqueued. The application may not change
// the memory in between, so the difference shows in one case only: an earlier non-blocking read
// into the same memory is still pending. wait_for_pending_reads() waits for such reads first.
#include "libckpt-ocl/client/transfer/transfer.h"

#include <algorithm>
#include <deque>

#include "common/base/reversed.h"
#include "libckpt-ocl/client/command/deferred.h"
#include "libckpt-ocl/client/transfer/in_place.h"
#include "libckpt-ocl/client/transfer/rows.h"
#include "libckpt-ocl/client/transfer/shared_memory.h"

namespace ckpt::ocl {
namespace {

// Pending reads, by the host memory that they will fill. They keep no events: those keep queue and
// context, and a program may make nothing but reads.
class PendingReads {
 public:
  // Before the read is sent.
  void add(Event &e, std::byte *from, std::byte *to) {
    e.pulse = std::make_shared<Pulse>();
    std::lock_guard lock(mutex_);
    if (list_.size() >= limit_) {
      drop_finished();
      limit_ = std::max(kFewReads, 2 * list_.size());
    }
    list_.push_back({e.pulse, from, to});
  }
  // The newest read that will touch [from, to); null: there is none.
  std::shared_ptr<const Pulse> overlapping(const std::byte *from, const std::byte *to) {
    std::lock_guard lock(mutex_);
    drop_finished();
    for (const PendingRead &l : reversed(list_))
      if (l.from < to && from < l.to) return l.end;
    return {};
  }

 private:
  static constexpr size_t kFewReads = 64;
  struct PendingRead {
    std::shared_ptr<const Pulse> end;
    std::byte *from, *to;
  };
  // The caller holds the mutex.
  void drop_finished() {
    std::erase_if(list_, [](const PendingRead &l) { return l.end->finished(); });
  }

  std::mutex mutex_;
  std::vector<PendingRead> list_;
  size_t limit_ = kFewReads;  // as many reads are looked through for finished ones
};

PendingReads &pending_reads() {
  static PendingReads *l = new PendingReads;
  return *l;
}

// How a transfer is cut: the size of a piece, and how many pieces may be under way.
struct Pace {
  size_t piece_bytes = kMaxPiece, window = SIZE_MAX;
};

// For blocking transfers: a piece is still in the processor's cache when the other side copies it,
// and the same few pieces of staging are used again and again.
constexpr Pace kInCache{1u << 20, 4};

// Cuts a rectangle into pieces of at most `most` bytes: whole slices, else rows, else parts of a
// row. A contiguous transfer is one long row, so the last rule cuts it.
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

bool is_contiguous(const Rect &r) { return r.region[1] == 1 && r.region[2] == 1; }

Op operation_of(bool reading, const Mem &mem, const Rect &r) {
  if (mem.image) return reading ? Op::ReadImage : Op::WriteImage;
  if (is_contiguous(r)) return reading ? Op::Read : Op::Write;
  return reading ? Op::ReadRect : Op::WriteRect;
}

void put_place(Payload &w, Command &c, const Mem &mem, const Rect &r, u64 staging) {
  w.put(c.queue().number).put(mem.number);
  if (mem.image) {
    size_t element = mem.image->element;
    w.put(u64{r.buffer_origin[0] / element}).put(u64{r.buffer_origin[1]});
    w.put(u64{r.buffer_origin[2]}).put(u64{r.region[0] / element});
    w.put(u64{r.region[1]}).put(u64{r.region[2]});
  } else if (is_contiguous(r)) {
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

// Sends one piece of a transfer; `data` is its place in host memory.
cl_int send_piece(Command &c, bool reading, const Mem &mem, const Rect &r, std::byte *data) {
  size_t bytes = bytes_of(r);
  count_copy(reading, bytes);
  c.is(work_of_bytes(c.type(), bytes));
  u16 operation = static_cast<u16>(operation_of(reading, mem, r));
  Payload w;
  // The bytes of a small write travel in the command itself.
  if (!reading && bytes <= kMaxInlineWrite) {
    put_place(w, c, mem, r, kInline);
    w.put(static_cast<u32>(bytes));
    copy_rows(w.take_room(bytes), r.region[0], r.region[0] * r.region[1], data, r.host_row,
              r.host_slice, r.region);
    return c.send(operation, w.bytes(), Trip::OneWay);
  }
  std::optional<u64> staging = link().allocate_staging(bytes);
  if (!staging) return CL_DEVICE_NOT_AVAILABLE;
  Event &e = c.event();
  e.staging = *staging;
  e.staging_bytes = bytes;
  put_place(w, c, mem, r, *staging);
  if (reading) {
    e.target = {data, r.region[0], r.region[1], r.region[2], r.host_row, r.host_slice};
    return c.send(operation, w.bytes(), Trip::OneWay);
  }
  copy_rows(link().staging(*staging), r.region[0], r.region[0] * r.region[1], data, r.host_row,
            r.host_slice, r.region);
  return c.send(operation, w.bytes(), Trip::OneWay);
}

// Sends the pieces of a transfer. `last` has the application's event. In an out-of-order queue each
// piece waits for the one before it.
cl_int send_pieces(Command &last, bool reading, Mem &mem, const Rect &all, std::byte *host,
                   Pace pace) {
  if (!reading) {
    wait_for_pending_reads(host, host_extent(all));
    last.writes(mem);
  }
  std::vector<Rect> pieces = pieces_of(all, pace.piece_bytes);
  std::optional<SentInPieces> one_command;
  if (pieces.size() > 1) one_command.emplace(last.queue());
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
    before = std::move(sent);  // not earlier: the wait list refers to the previous event
  }
  if (first) {
    last.wait_for(before.get());
    last.event().first = first;
  }
  return send_piece(last, reading, mem, pieces.back(), host + host_offset(pieces.back(), all));
}

cl_int transfer(bool reading, cl_command_queue queue, cl_command_type type, Mem &mem,
                const Rect &all, std::byte *host, Blocking blocking, Waits waits, cl_event *out) {
  if (shares_pages(mem))
    if (auto r = copy_in_place(reading, queue, type, mem, all, host, blocking, waits, out))
      return *r;
  Command c(queue, type, waits);
  if (c.status() != CL_SUCCESS) return c.status();
  // A blocking write ends when host memory has been read: when it is sent.
  bool now = c.can_send_now();
  bool must_wait = blocking == Blocking::Yes && reading;
  bool until_sent = blocking == Blocking::Yes && !reading && !now;
  const Clock::time_point begun = Clock::now();
  Ref<Event> done(reading || until_sent ? &c.event() : nullptr);
  Pace pace = now && blocking == Blocking::Yes ? kInCache : Pace{};
  auto send = [=, keep = Ref<Mem>(&mem)](Command &it) {
    if (reading && !must_wait) pending_reads().add(it.event(), host, host + host_extent(all));
    cl_int sent = send_pieces(it, reading, *keep, all, host, pace);
    // Of a read in pieces whose last one was not sent nothing else ends the event.
    if (sent != CL_SUCCESS && reading && !it.event().finished()) finish_event(it.event(), sent);
    return sent;
  };
  cl_int r = now          ? c.run_now(out, std::move(send))
             : until_sent ? c.defer_until_sent(out, std::move(send))
                          : c.defer(out, std::move(send), Trip::OneWay);
  if (r != CL_SUCCESS) return r;
  if (until_sent) return std::min(0, done->status.load());
  if (!must_wait) return CL_SUCCESS;
  r = std::min(0, wait(*done));
  link().traffic.note_answer(Clock::now() - begun, bytes_of(all));
  return r;
}

Rect one_row(size_t offset, size_t size) {
  return {{size, 1, 1}, {offset, 0, 0}, size, size, size, size};
}

}  // namespace

void wait_for_pending_reads(const void *host, size_t bytes) {
  const auto *from = static_cast<const std::byte *>(host);
  // Tested before the lock is taken, which in the child of a fork another thread may hold.
  while (link().usable()) {
    auto read = pending_reads().overlapping(from, from + bytes);
    if (!read) return;
    link().wait_for_device([&] { return read->finished(); });
  }
}

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

cl_int write_initial_contents(const Mem &mem, const CopyContents &copy) {
  for (size_t at = 0; at < mem.size; at += kMaxPiece) {
    size_t bytes = std::min(kMaxPiece, mem.size - at);
    std::optional<u64> staging = link().allocate_staging(bytes);
    if (!staging) return CL_DEVICE_NOT_AVAILABLE;
    count_copy(/*to_host=*/false, bytes);
    copy(at, bytes, link().staging(*staging));
    Writer w;
    w.put(mem.number).put(u64{at}).put(u64{bytes}).put(*staging).put(u8{0});
    cl_int status = link().round_trip(Op::WriteContents, 0, w.bytes());
    link().staging_space().release(*staging, bytes);
    if (status != CL_SUCCESS) return status;
  }
  return CL_SUCCESS;
}

void copy_read_to_host(Event &e) {
  if (!e.target) return;
  const Event::Target &t = *e.target;
  size_t region[3] = {t.row, t.rows, t.slices};
  copy_rows(t.at, t.row_pitch, t.slice_pitch, link().staging(e.staging), t.row, t.row * t.rows,
            region);
  e.target.reset();
}

}  // namespace ckpt::ocl
