// SPDX-License-Identifier: Apache-2.0
#include "tools/restore/lost_events.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "common/base/bytes.h"
#include "common/base/unique_fd.h"

namespace ckpt::tools {
namespace {

constexpr int kEvent = sizeof(inotify_event);  // of a file, which has no name in the event
// fs.inotify.max_queued_events is 16,384 unless an administrator has changed it.
constexpr int kMostEvents = 1 << 20;
constexpr int kTouches = 256;  // between two looks at the queue, at which the kernel counts it

int unread(int inotify) {
  int bytes = 0;
  return ::ioctl(inotify, FIONREAD, &bytes) == 0 ? bytes : -1;
}

class WatchedFile {
 public:
  explicit WatchedFile(int inotify) : inotify_(inotify) {
    fd_.reset(::mkstemp(name_.data()));
    if (fd_) watch_ = ::inotify_add_watch(inotify, name_.c_str(), IN_OPEN | IN_CLOSE_NOWRITE);
  }
  ~WatchedFile() {
    remove_watch();
    if (fd_) ::unlink(name_.c_str());
  }
  WatchedFile(const WatchedFile &) = delete;

  bool is_watched() const { return watch_ >= 0; }
  // Two events. The kernel merges equal ones.
  void touch() const { UniqueFd(::open(name_.c_str(), O_RDONLY | O_CLOEXEC)).reset(); }
  void remove_watch() {
    if (watch_ >= 0) ::inotify_rm_watch(inotify_, watch_);
    watch_ = -1;
  }

 private:
  int inotify_;
  std::string name_ = "/tmp/ckpt-watch-XXXXXX";
  UniqueFd fd_;
  int watch_ = -1;
};

Result<> drop_events(int inotify, int events) {
  Bytes buffer(4096 * kEvent);
  while (events > 0) {
    size_t wanted = std::min(buffer.size(), static_cast<size_t>(events) * kEvent);
    ssize_t n = ::read(inotify, buffer.data(), wanted);
    if (n <= 0) return fail_errno("cannot read them");
    events -= static_cast<int>(n) / kEvent;
  }
  return {};
}

}  // namespace

Result<> report_lost_events(int inotify) {
  if (unread(inotify) != 0) return fail("it has events already");
  WatchedFile file(inotify);
  if (!file.is_watched()) return fail_errno("cannot watch a file of ckpt's");
  int before = -1;
  for (int now = 0; now > before && now < kMostEvents * kEvent; now = unread(inotify)) {
    before = now;
    for (int i = 0; i < kTouches; i++) file.touch();
  }
  // The queue is full: the event of the end of this watch is not added.
  file.remove_watch();
  return drop_events(inotify, unread(inotify) / kEvent - 1);
}

}  // namespace ckpt::tools
