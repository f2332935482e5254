// SPDX-License-Identifier: Apache-2.0
//
// A link with a delay between two network namespaces: a network device of type TAP in each, and
// this process, which forwards each frame some time after it came. (The kernel's tc-netem(8) does
// the same, but is not in every kernel.) Its rate is what one process can forward. Prints "up".
//
//   delay NAMESPACE NAMESPACE DEVICE MS
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kFrameBytes = 1 << 16, kWaiting = 1 << 16;
constexpr int kFramesAtOnce = 64;  // before frames that are due are written

int check(int result, const char *what) {
  if (result >= 0) return result;
  std::perror(what);
  std::exit(1);
}

int tap(const std::string &name_space, const char *device) {
  int space =
      check(::open(("/run/netns/" + name_space).c_str(), O_RDONLY | O_CLOEXEC), "namespace");
  check(::setns(space, CLONE_NEWNET), "setns");
  ::close(space);
  int fd = check(::open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC), "/dev/net/tun");
  ifreq request{};
  request.ifr_flags = IFF_TAP | IFF_NO_PI;
  std::strncpy(request.ifr_name, device, IFNAMSIZ - 1);
  check(::ioctl(fd, TUNSETIFF, &request), "TUNSETIFF");
  return fd;
}

// Frames on their way to `to`, in the order in which they are due.
class Direction {
 public:
  Direction(int from, int to, Clock::duration delay) : from_(from), to_(to), delay_(delay) {}

  void receive() {
    for (int i = 0; i < kFramesAtOnce; i++) {
      std::vector<char> frame(kFrameBytes);
      ssize_t n = ::read(from_, frame.data(), frame.size());
      if (n <= 0) return;
      if (frames_.size() >= kWaiting) continue;  // lost, as in a full switch
      frame.resize(static_cast<size_t>(n));
      frame.shrink_to_fit();
      frames_.push_back({Clock::now() + delay_, std::move(frame)});
    }
  }
  void send(Clock::time_point now) {
    for (; !frames_.empty() && frames_.front().due <= now; frames_.pop_front())
      (void)!::write(to_, frames_.front().bytes.data(), frames_.front().bytes.size());
  }
  Clock::time_point next() const {
    return frames_.empty() ? Clock::time_point::max() : frames_.front().due;
  }

 private:
  struct Frame {
    Clock::time_point due;
    std::vector<char> bytes;
  };
  int from_, to_;
  Clock::duration delay_;
  std::deque<Frame> frames_;
};

void set_timer(int timer, Clock::time_point when) {
  itimerspec spec{};
  if (when != Clock::time_point::max()) {
    auto ns = std::chrono::nanoseconds(when.time_since_epoch()).count();
    spec.it_value = {ns / 1'000'000'000, ns % 1'000'000'000};
  }
  check(::timerfd_settime(timer, TFD_TIMER_ABSTIME, &spec, nullptr), "timerfd_settime");
}

}  // namespace

int main(int argc, char **argv) {
  if (argc != 5) return 2;
  auto delay = std::chrono::duration_cast<Clock::duration>(
      std::chrono::duration<double, std::milli>(std::atof(argv[4])));
  int a = tap(argv[1], argv[3]), b = tap(argv[2], argv[3]);
  Direction there(a, b, delay), back(b, a, delay);
  int timer = check(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC), "timerfd");
  std::puts("up");
  std::fflush(stdout);
  for (;;) {
    there.send(Clock::now());
    back.send(Clock::now());
    set_timer(timer, std::min(there.next(), back.next()));
    pollfd wanted[] = {{a, POLLIN, 0}, {b, POLLIN, 0}, {timer, POLLIN, 0}};
    check(::poll(wanted, 3, -1), "poll");
    there.receive();
    back.receive();
  }
}
