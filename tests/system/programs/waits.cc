// SPDX-License-Identifier: Apache-2.0
//
// Waits without a limit in five ways, one thread each, until there is a file "finish". A call that
// returns early is printed, with its error. SIGUSR2 has a handler, in the thread of poll(2).
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/sem.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <functional>
#include <thread>
#include <vector>

static std::atomic<bool> finished{false};
static std::atomic<int> failures{0};

static void wait_in(const char *name, const std::function<bool()> &wait) {
  bool woken = wait();
  if (woken && finished) return;
  failures++;
  dprintf(1, "%s %d\n", name, woken ? 0 : errno);
}

int main() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  sigaddset(&set, SIGUSR2);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  struct sigaction action {};
  action.sa_handler = [](int) {};
  sigaction(SIGUSR2, &action, nullptr);
  sigdelset(&set, SIGUSR2);

  int ends[2], semaphores = semget(IPC_PRIVATE, 1, 0600);
  int epoll = epoll_create1(0);
  epoll_event event{EPOLLIN, {}};
  sem_t semaphore;
  sem_init(&semaphore, 0, 0);
  if (pipe(ends) != 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, ends[0], &event) != 0) return 2;

  std::vector<std::thread> threads;
  threads.emplace_back([&] {
    sigset_t handled;
    sigemptyset(&handled);
    sigaddset(&handled, SIGUSR2);
    pthread_sigmask(SIG_UNBLOCK, &handled, nullptr);
    wait_in("poll", [&] {
      pollfd p{ends[0], POLLIN, 0};
      return poll(&p, 1, -1) == 1;
    });
  });
  threads.emplace_back(
      [&] { wait_in("epoll_wait", [&] { return epoll_wait(epoll, &event, 1, -1) == 1; }); });
  threads.emplace_back([&] {
    sembuf down{0, -1, 0};
    wait_in("semop", [&] { return semop(semaphores, &down, 1) == 0; });
  });
  threads.emplace_back([&] {
    timespec end{time(nullptr) + 100000, 0};
    wait_in("sem_timedwait", [&] { return sem_timedwait(&semaphore, &end) == 0; });
  });
  threads.emplace_back(
      [&] { wait_in("sigwaitinfo", [&] { return sigwaitinfo(&set, nullptr) == SIGUSR1; }); });
  dprintf(1, "waits\n");
  while (access("finish", F_OK) != 0) usleep(10'000);
  finished = true;
  sembuf up{0, 1, 0};
  if (write(ends[1], "x", 1) != 1 || semop(semaphores, &up, 1) != 0) return 2;
  sem_post(&semaphore);
  kill(getpid(), SIGUSR1);
  for (std::thread &t : threads) t.join();
  semctl(semaphores, 0, IPC_RMID);
  return failures ? 1 : 0;
}
