// SPDX-License-Identifier: Apache-2.0
#include "tools/restore/restored_streams.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/new_file.h"
#include "common/proc/file.h"

namespace ckpt::tools {
namespace {

// CRIU opens a descriptor that it inherits again, with the rights of the program's user. A pipe or
// terminal that another user has made (setpriv, su, a service) does not let it.
bool can_reopen(int fd, int mode) {
  return ::faccessat(AT_FDCWD, proc::fd_path(proc::kSelf, fd).c_str(), mode, AT_EACCESS) == 0;
}

// Such a pipe that CRIU can give to the program.
bool is_pipe(int fd, int mode) {
  struct stat st {};
  return ::fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode) && can_reopen(fd, mode);
}

// True for a descriptor that we were started with: those that we open ourselves are close-on-exec.
bool was_given(int fd) {
  int flags = ::fcntl(fd, F_GETFD);
  return flags >= 0 && !(flags & FD_CLOEXEC);
}

Result<std::pair<UniqueFd, UniqueFd>> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) < 0) return fail_errno("cannot create a pipe");
  UniqueFd r(ends[0]), w(ends[1]);
  return std::pair{copy_of(r.get()), copy_of(w.get())};
}

// The descriptor was probably inherited by accident. The user is warned in case it was not.
Result<UniqueFd> discarded_output(int fd) {
  log::warn(
      "the program's descriptor {0} was a pipe to a process outside of the image, so its output is "
      "discarded; to keep it, start ckpt-restore with {0}>FILE",
      fd);
  UniqueFd null(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  if (!null) return fail_errno("cannot open /dev/null");
  return null;
}

// The bytes of a stream, read while they are written: an image may declare any number of them. On
// one thread, because what the pipe does not take yet would have to be kept.
Pump::First contents(const storage::ImageReader &image, const storage::StreamEntry &stream) {
  return [&image, &stream](const Pump::Write &write) {
    return image.for_each_chunk(
        stream, storage::ImageReader::Order::Ascending,
        [&write](u64, ByteView piece) { return write(piece); }, 1);
  };
}

Pump::Text text_for(int target) {
  return ::isatty(target) ? Pump::Text::AsIs : Pump::Text::WithoutCarriageReturns;
}

}  // namespace

UniqueFd copy_of(int fd) {
  // Above the descriptors that CRIU and shells use themselves.
  constexpr int kMinGivenFd = 20;
  return UniqueFd(::fcntl(fd, F_DUPFD_CLOEXEC, kMinGivenFd));
}

Result<std::unique_ptr<RestoredStreams>> RestoredStreams::plan(const ImageManifest &m,
                                                               const storage::ImageReader &image,
                                                               const Options &o) {
  auto s = std::make_unique<RestoredStreams>();
  if (m.streams.terminal) CKPT_CHECK(s->plan_terminal(m, o));
  for (const auto &p : m.pipes) CKPT_CHECK(s->plan_pipe(p, image, o));
  return s;
}

Result<> RestoredStreams::plan_terminal(const ImageManifest &m, const Options &o) {
  bool use_ours = !o.detach && !o.new_namespace;
  int ours = -1;
  for (int fd = 0; fd < 3; fd++) {
    if (m.terminal_at[fd] && !::isatty(fd)) use_ours = false;
    if (ours < 0 && ::isatty(fd)) ours = fd;
  }
  if (!use_ours || ours < 0) return plan_pty(m, o);
  on_our_terminal_ = true;
  terminal_ = copy_of(ours);
  size_ = window_size(ours);
  return {};
}

Result<> RestoredStreams::plan_pty(const ImageManifest &m, const Options &o) {
  bool reads = m.terminal_at[0] && !o.detach && was_given(0);
  if (!o.detach && (::isatty(0) || ::isatty(1))) real_terminal_ = copy_of(::isatty(0) ? 0 : 1);
  size_ = window_size(real_terminal_.get());
  CKPT_TRY(pty_, PseudoTerminal::open(real_terminal_.get(), m.streams.own_terminals));
  terminal_ = copy_of(pty_.slave.get());
  pty_.slave.reset();
  CKPT_TRY(UniqueFd out, output_for(m.terminal_at[1] || !m.terminal_at[2] ? 1 : 2, o));
  Pump::Text text = text_for(out.get());
  pumps_.emplace_back(copy_of(pty_.master.get()), std::move(out), text, Pump::AtStop::Drain);
  if (!reads) return {};
  if (::isatty(0)) raw_ = std::make_unique<RawTerminal>(real_terminal_.get());
  pumps_.emplace_back(copy_of(0), copy_of(pty_.master.get()), Pump::Text::AsIs, Pump::AtStop::Drop);
  return {};
}

Result<> RestoredStreams::plan_pipe(const ImageManifest::Pipe &p, const storage::ImageReader &image,
                                    const Options &o) {
  return p.program_reads ? plan_input(p, image, o) : plan_output(p, o);
}

Result<> RestoredStreams::plan_input(const ImageManifest::Pipe &p,
                                     const storage::ImageReader &image, const Options &o) {
  const storage::StreamEntry *unread = image.find(fmt::format("pipe/{}", p.inode));
  if (unread && unread->size == 0) unread = nullptr;
  bool have = !o.detach && was_given(p.fd);
  if (!have && p.fd > 2)
    log::warn(
        "the program's descriptor {0} was a pipe from a process outside of the image, so it reads "
        "the end of file there; to give it input, start ckpt-restore with {0}<FILE",
        p.fd);
  if (!unread && have && is_pipe(p.fd, R_OK)) {
    given_.push_back(copy_of(p.fd));
  } else {
    CKPT_TRY(auto ends, make_pipe());
    ::fcntl(ends.second.get(), F_SETFL, O_WRONLY | O_NONBLOCK);
    pumps_.emplace_back(have ? copy_of(p.fd) : UniqueFd(), std::move(ends.second), Pump::Text::AsIs,
                        Pump::AtStop::Drop, unread ? contents(image, *unread) : Pump::First());
    given_.push_back(std::move(ends.first));
  }
  pipes_.emplace_back(given_.back().get(), p.inode);
  return {};
}

Result<> RestoredStreams::plan_output(const ImageManifest::Pipe &p, const Options &o) {
  if (!o.detach && was_given(p.fd) && is_pipe(p.fd, W_OK)) {
    given_.push_back(copy_of(p.fd));
  } else {
    CKPT_TRY(UniqueFd out, output_for(p.fd, o));
    CKPT_TRY(auto ends, make_pipe());
    pumps_.emplace_back(std::move(ends.first), std::move(out), Pump::Text::AsIs,
                        Pump::AtStop::Drain);
    given_.push_back(std::move(ends.second));
  }
  pipes_.emplace_back(given_.back().get(), p.inode);
  return {};
}

Result<UniqueFd> RestoredStreams::output_for(int fd, const Options &o) {
  if (fd > 2 && (o.detach || !was_given(fd))) return discarded_output(fd);
  if (!o.detach) {
    int ours = was_given(fd) ? fd : 2;
    if (::isatty(ours)) on_our_terminal_ = true;
    return copy_of(ours);
  }
  return open_output(o.output_file, O_APPEND, 0644);
}

bool RestoredStreams::return_window_size() {
  int terminal = pty_.master ? pty_.master.get() : terminal_.get();
  std::optional<winsize> now = window_size(terminal);
  if (!size_ || !now || (now->ws_row == size_->ws_row && now->ws_col == size_->ws_col))
    return false;
  return ::ioctl(terminal, TIOCSWINSZ, &*size_) == 0;
}

void RestoredStreams::handed_over() {
  given_.clear();
  terminal_.reset();
}

void RestoredStreams::window_changed() {
  if (pty_.master) copy_window_size(real_terminal_.get(), pty_.master.get());
}

void RestoredStreams::before_stop() {
  if (raw_) raw_->leave();
}

void RestoredStreams::after_stop() {
  if (raw_) raw_->enter();
  window_changed();
}

}  // namespace ckpt::tools
