// SPDX-License-Identifier: Apache-2.0
//
// What the random histories of memory have in common (shared.cc, svm.cc): steps against a model of
// each area's contents, a thread that writes all the time, and children that see copies. A test
// dumps and moves the program meanwhile, with whatever is under way there.
#pragma once

#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <thread>

#include "cl_test.h"

// A thread that writes to memory all the time, word after word, round after round. A write that a
// checkpoint loses is missing in the end.
class RoundsOfWrites {
 public:
  static constexpr size_t kWords = 1u << 18;

  void begin(unsigned *words) {
    words_ = words;
    std::fill_n(words_, kWords, 0u);
    thread_ = std::thread([this] { run(); });
  }
  void end() {
    stop_ = true;
    thread_.join();
    size_t lost = 0;
    for (size_t i = 0; i < kWords; i++) lost += words_[i] != (i < at_ ? round_ : round_ - 1);
    EXPECT(lost == 0);
  }
  unsigned *words() const { return words_; }

 private:
  void run() {
    for (; !stop_; ::usleep(50))
      for (int i = 0; i < 200; i++) {
        words_[at_++] = round_;
        if (at_ == kWords) at_ = 0, round_++;
      }
  }

  unsigned *volatile words_ = nullptr;
  size_t at_ = 0;
  unsigned round_ = 1;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

class RandomHistory : public Cl {
 protected:
  explicit RandomHistory(unsigned seed) : random_(seed) {}

  size_t pick(size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random_); }
  unsigned value() { return static_cast<unsigned>(pick(1u << 30)); }
  // A part of an area, in words.
  template <class Area>
  void region(const Area &a, size_t &at, size_t &count) {
    at = pick(a.model.size());
    count = 1 + pick(a.model.size() - at);
  }
  template <class Area>
  static void check(const Area &a, const unsigned *words, size_t at, size_t count) {
    size_t wrong = 0;
    for (size_t i = 0; i < count; i++) wrong += words[i] != a.model[at + i];
    EXPECT(wrong == 0);
  }
  // `look` and its checks, in a forked child.
  template <class F>
  void in_child(F look) {
    CL(clFinish(queue));
    pid_t pid = ::fork();
    if (pid == 0) {
      look();
      ::_exit(g_failures == 0 ? 0 : 1);
    }
    int status = 0;
    EXPECT(::waitpid(pid, &status, 0) == pid && status == 0);
  }

 private:
  std::mt19937 random_;
};

// `steps` 0: until the file $CKPT_TEST_GO exists.
template <class History>
int play(History &history, long steps) {
  std::printf("READY\n");
  std::fflush(stdout);
  const char *go = std::getenv("CKPT_TEST_GO");
  for (long i = 0; steps ? i < steps : ::access(go, F_OK) != 0; i++) history.step();
  return history.end();
}
