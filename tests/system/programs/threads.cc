// SPDX-License-Identifier: Apache-2.0
//
// threads [ROUNDS]
//
// Threads that take turns with a mutex and a condition variable. Prints each round.
#include <unistd.h>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <vector>

int main(int argc, char **argv) {
  const int rounds = argc > 1 ? atoi(argv[1]) : 50;
  constexpr int kThreads = 8;
  std::mutex mutex;
  std::condition_variable changed;
  int turn = 0;
  thread_local long mine = 0;
  long total = 0;
  std::vector<std::thread> threads;
  for (int id = 0; id < kThreads; id++)
    threads.emplace_back([&, id] {
      for (int r = 0; r < rounds; r++) {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return turn % kThreads == id; });
        mine += turn++;
        if (id == kThreads - 1) {
          dprintf(1, "%d\n", r);
          std::this_thread::sleep_for(std::chrono::milliseconds(20));
        }
        changed.notify_all();
      }
      std::lock_guard lock(mutex);
      total += mine;
    });
  for (auto &t : threads) t.join();
  long turns = static_cast<long>(kThreads) * rounds;
  dprintf(1, total == turns * (turns - 1) / 2 ? "right\n" : "wrong\n");
  return total == turns * (turns - 1) / 2 ? 0 : 98;
}
