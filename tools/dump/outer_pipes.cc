// SPDX-License-Identifier: Apache-2.0
#include "tools/dump/outer_pipes.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "common/ipc/unix_socket.h"
#include "tools/dump/in_flight.h"

namespace ckpt::tools {
namespace {

// The program's own end. Opening it again through /proc/PID/fd needs rights on the pipe, which the
// user lacks if another user created it, such as a shell of root that started setpriv or su.
Result<UniqueFd> end_of(const OuterPipe &p) {
  UniqueFd fd = duplicate_descriptor(p.holder, p.holder_fd);
  if (!fd)
    return fail_errno("cannot inspect pipe {}, descriptor {} of process {}", p.inode, p.holder_fd,
                      p.holder);
  return fd;
}

// poll(2) reports POLLHUP for the read end of a pipe without writers, and POLLERR for the write end
// of one without readers.
Result<bool> other_end_is_open(const OuterPipe &p) {
  CKPT_TRY(UniqueFd fd, end_of(p));
  pollfd poll_fd{fd.get(), static_cast<short>(p.program_reads ? POLLIN : POLLOUT), 0};
  if (::poll(&poll_fd, 1, 0) < 0) return fail_errno("cannot inspect pipe {}", p.inode);
  return !(poll_fd.revents & (POLLHUP | POLLERR));
}

struct Ends {
  bool read = false, write = false;
  OuterPipe pipe;
  std::string path;  // of a FIFO

  bool one_sided() const { return read != write; }
};

// The pipes or FIFOs of the program by inode, each with the descriptor that names it: the first one
// of the root, if that has it open.
std::map<u64, Ends> ends_of(const Target &target, const DescriptorTable &table,
                            Descriptor::Kind kind) {
  std::map<u64, Ends> all;
  for (const Process &p : target.processes)
    for (const Descriptor &d : table.at(p.pid)) {
      if (d.kind != kind || d.deleted) continue;
      Ends &e = all[d.inode];
      e.read |= d.readable();
      e.write |= d.writable();
      e.path = d.target;
      if (e.pipe.fd < 0 || (p.pid == target.root && e.pipe.holder == p.pid && d.fd < e.pipe.fd))
        e.pipe = {d.inode, d.readable(), d.fd, p.pid, d.fd};
    }
  return all;
}

// As CRIU does (criu/pipes.c): tee(2) copies the bytes without consuming them.
Result<Bytes> peek_unread(const OuterPipe &pipe) {
  CKPT_TRY(UniqueFd from, end_of(pipe));
  int size = ::fcntl(from.get(), F_GETPIPE_SZ);
  int ends[2];
  if (size < 0 || ::pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
    return fail_errno("cannot create a pipe");
  UniqueFd read_end(ends[0]), write_end(ends[1]);
  if (::fcntl(write_end.get(), F_SETPIPE_SZ, size) < 0)
    return fail_errno("cannot create a pipe of {} bytes", size);
  ssize_t n = ::tee(from.get(), write_end.get(), static_cast<size_t>(size), SPLICE_F_NONBLOCK);
  if (n < 0 && errno != EAGAIN) return fail_errno("cannot read pipe {}", pipe.inode);
  Bytes unread(n > 0 ? static_cast<size_t>(n) : 0);
  CKPT_CHECK(read_exactly(read_end.get(), unread.data(), unread.size()));
  return unread;
}

}  // namespace

DescriptorTable read_descriptors(const Target &target) {
  DescriptorTable table;
  for (const Process &p : target.processes) table[p.pid] = descriptors_of(p.pid);
  return table;
}

Result<std::vector<OuterPipe>> find_outer_pipes(const Target &target, const DescriptorTable &table,
                                                const std::set<u64> &own) {
  std::vector<OuterPipe> outer;
  for (const auto &[inode, e] : ends_of(target, table, Descriptor::Kind::Pipe)) {
    if (!e.one_sided() || own.contains(inode)) continue;
    CKPT_TRY(bool open, other_end_is_open(e.pipe));
    if (open) outer.push_back(e.pipe);
  }
  if (outer.empty()) return outer;
  std::set<u64> in_flight = pipes_in_flight(table);
  std::erase_if(outer, [&](const OuterPipe &p) { return in_flight.contains(p.inode); });
  return outer;
}

std::vector<manifest::Fifo> describe_fifos(const Target &target, const DescriptorTable &table) {
  std::vector<manifest::Fifo> list;
  for (const auto &[inode, e] : ends_of(target, table, Descriptor::Kind::Fifo))
    if (e.one_sided() && other_end_is_open(e.pipe).value_or(false))
      list.push_back({e.path, e.pipe.fd, e.pipe.program_reads});
  return list;
}

Result<> save_unread(const std::vector<OuterPipe> &pipes, storage::ImageWriter &image) {
  for (const OuterPipe &p : pipes) {
    if (!p.program_reads) continue;
    CKPT_TRY(Bytes unread, peek_unread(p));
    CKPT_TRY(storage::StreamId id, image.stream(pipe_stream(p.inode)));
    CKPT_CHECK(image.append(id, unread));
  }
  return {};
}

std::string pipe_stream(u64 inode) { return fmt::format("pipe/{}", inode); }

}  // namespace ckpt::tools
