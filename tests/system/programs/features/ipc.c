// SPDX-License-Identifier: Apache-2.0
// System V and POSIX inter-process communication.
#include "feature.h"

#include <mqueue.h>
#include <semaphore.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>

static char name[64];
static const char *own_name(void) {
  snprintf(name, sizeof name, "/ckpt-feature-%d", (int)getpid());
  return name;
}

static void named_semaphore(void) {
  sem_t *s = sem_open(own_name(), O_CREAT | O_EXCL, 0600, 2);
  NEED(s != SEM_FAILED);
  CHECK(sem_wait(s) == 0);
  checkpoint_here();
  CHECK(sem_trywait(s) == 0 && sem_trywait(s) < 0 && errno == EAGAIN);
  sem_t *again = sem_open(name, 0);
  CHECK(again != SEM_FAILED && sem_post(again) == 0 && sem_trywait(s) == 0);
  sem_unlink(name);
}
static sem_t *changing;
static void change(void) { sem_wait(changing); }
static void named_semaphore_changed(void) {
  changing = sem_open(own_name(), O_CREAT | O_EXCL, 0600, 2);
  NEED(changing != SEM_FAILED);
  checkpoint_here_and_change(change);
  sem_unlink(name);
  CHECK(sem_trywait(changing) == 0 && sem_trywait(changing) == 0 && sem_trywait(changing) < 0);
}
static void unlinked_semaphore(void) {
  sem_t *s = sem_open(own_name(), O_CREAT | O_EXCL, 0600, 1);
  NEED(s != SEM_FAILED);
  CHECK(sem_unlink(name) == 0);
  pid_t child = fork();
  if (child == 0) {
    sem_wait(s);
    sem_wait(s);
    _exit(9);
  }
  nap(50);
  checkpoint_here();
  int status;
  CHECK(sem_post(s) == 0 && waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 9);
}
static void unnamed_semaphore(void) {
  sem_t *s = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(sem_init(s, 1, 1) == 0);
  checkpoint_here();
  CHECK(sem_trywait(s) == 0 && sem_trywait(s) < 0);
}
static void message_queue(void) {
  struct mq_attr a = {.mq_maxmsg = 4, .mq_msgsize = 64};
  mqd_t q = mq_open(own_name(), O_RDWR | O_CREAT | O_NONBLOCK, 0600, &a);
  NEED(q >= 0);
  mq_unlink(name);
  CHECK(mq_send(q, "queued", 7, 1) == 0);
  checkpoint_here();
  char text[64];
  CHECK(mq_receive(q, text, sizeof text, NULL) == 7 && strcmp(text, "queued") == 0);
}
static void sysv_memory(void) {
  int id = shmget(IPC_PRIVATE, 65536, IPC_CREAT | 0600);
  NEED(id >= 0);
  char *p = shmat(id, NULL, 0);
  shmctl(id, IPC_RMID, NULL);
  fill(p, 65536, 1);
  checkpoint_here();
  CHECK(filled(p, 65536, 1));
}
static void sysv_semaphores(void) {
  int id = semget(IPC_PRIVATE, 2, IPC_CREAT | 0600);
  NEED(id >= 0 && semctl(id, 1, SETVAL, 5) == 0);
  checkpoint_here();
  int value = semctl(id, 1, GETVAL);
  semctl(id, 0, IPC_RMID);
  CHECK(value == 5);
}
static void sysv_messages(void) {
  int id = msgget(IPC_PRIVATE, IPC_CREAT | 0600);
  struct {
    long type;
    char text[8];
  } m = {3, "queued"};
  NEED(id >= 0 && msgsnd(id, &m, 7, 0) == 0);
  checkpoint_here();
  ssize_t got = msgrcv(id, &m, 8, 3, IPC_NOWAIT);
  msgctl(id, IPC_RMID, NULL);
  CHECK(got == 7 && strcmp(m.text, "queued") == 0);
}

// The parent maps the name under which sem_open(3) has made it, the child the one that it has now.
static void semaphore_of_two_names(void) {
  char name[64], path[80];
  snprintf(name, sizeof name, "/ckpt-feature-%d", getpid());
  snprintf(path, sizeof path, "/dev/shm/sem.%s", name + 1);
  sem_t *mine = sem_open(name, O_CREAT | O_EXCL, 0600, 0);
  NEED(mine != SEM_FAILED);
  write_file("volatile", path);
  pid_t child = fork();
  if (child == 0) {
    int fd = open(path, O_RDWR);
    sem_t *same = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    write_file("child", "");
    while (same != MAP_FAILED && sem_wait(same) != 0) {
    }
    _exit(same == MAP_FAILED);
  }
  while (faccessat(start_folder, "child", F_OK, 0) != 0) nap(5);
  checkpoint_here();
  int status = -1;
  CHECK(sem_post(mine) == 0 && waitpid(child, &status, 0) == child && status == 0);
  sem_unlink(name);
}
FEATURES({"named_semaphore", named_semaphore}, {"named_semaphore_changed", named_semaphore_changed},
         {"unlinked_semaphore", unlinked_semaphore}, {"unnamed_semaphore", unnamed_semaphore},
         {"message_queue", message_queue}, {"sysv_memory", sysv_memory},
         {"sysv_semaphores", sysv_semaphores}, {"sysv_messages", sysv_messages},
         {"semaphore_of_two_names", semaphore_of_two_names})
