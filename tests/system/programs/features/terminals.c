// SPDX-License-Identifier: Apache-2.0
// Terminals that the program has made itself.
#include "feature.h"

#include <pty.h>
#include <termios.h>

static char text[64];

static void own_pair(void) {
  int master, slave;
  NEED(openpty(&master, &slave, NULL, NULL, NULL) == 0);
  struct termios modes;
  CHECK(tcgetattr(slave, &modes) == 0);
  cfmakeraw(&modes);
  CHECK(tcsetattr(slave, TCSANOW, &modes) == 0);
  checkpoint_here();
  CHECK(tcgetattr(slave, &modes) == 0 && !(modes.c_lflag & ICANON));
  CHECK(write(master, "typed", 5) == 5 && read(slave, text, 5) == 5 && memcmp(text, "typed", 5) == 0);
}
static void two_pairs(void) {
  int first[2], second[2];
  NEED(openpty(&first[0], &first[1], NULL, NULL, NULL) == 0 && openpty(&second[0], &second[1], NULL, NULL, NULL) == 0);
  checkpoint_here();
  CHECK(write(first[0], "1\n", 2) == 2 && read(first[1], text, 10) == 2 && text[0] == '1');
  CHECK(write(second[0], "2\n", 2) == 2 && read(second[1], text, 10) == 2 && text[0] == '2');
}
// As script(1) and terminal emulators do.
static void child_on_it(void) {
  int master;
  struct winsize size = {40, 100, 0, 0};
  pid_t child = forkpty(&master, NULL, NULL, &size);
  NEED(child >= 0);
  if (child == 0) {
    while (fgets(text, sizeof text, stdin)) printf("got %s", text), fflush(stdout);
    _exit(0);
  }
  checkpoint_here();
  CHECK(write(master, "line\n", 5) == 5);
  char seen[256] = "";
  for (size_t n = 0; !strstr(seen, "got line") && n < sizeof seen - 1;) {
    ssize_t got = read(master, seen + n, sizeof seen - 1 - n);
    CHECK(got > 0);
    n += (size_t)got;
  }
  CHECK(ioctl(master, TIOCGWINSZ, &size) == 0 && size.ws_col == 100 && tcgetpgrp(master) == child);
}
static void by_dev_tty(void) {
  int master;
  pid_t child = forkpty(&master, NULL, NULL, NULL);
  NEED(child >= 0);
  if (child == 0) {
    int tty = open("/dev/tty", O_RDWR);
    while (access("go", F_OK) != 0) nap(5);
    _exit(write(tty, "by /dev/tty", 11) == 11 ? 0 : 1);
  }
  nap(50);
  checkpoint_here();
  CHECK(read(master, text, sizeof text) == 11 && memcmp(text, "by /dev/tty", 11) == 0);
}
static void master_only(void) {
  int master = posix_openpt(O_RDWR | O_NOCTTY);
  NEED(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
  checkpoint_here();
  int slave = open(ptsname(master), O_RDWR | O_NOCTTY);
  CHECK(slave >= 0 && write(master, "x\n", 2) == 2 && read(slave, text, 10) == 2);
}
static void slave_only(void) {
  int master, slave;
  NEED(openpty(&master, &slave, NULL, NULL, NULL) == 0 && close(master) == 0);
  checkpoint_here();
  CHECK(read(slave, text, 1) <= 0);
}
static void outer(void) {
  NEED(isatty(0));
  checkpoint_here();
  struct winsize size;
  CHECK(isatty(0) && ioctl(0, TIOCGWINSZ, &size) == 0);
}
static void outer_and_own(void) {
  NEED(isatty(0));
  own_pair();
  CHECK(isatty(0));
}

FEATURES({"own_pair", own_pair}, {"two_pairs", two_pairs}, {"child_on_it", child_on_it}, {"by_dev_tty", by_dev_tty},
         {"master_only", master_only}, {"slave_only", slave_only}, {"outer", outer}, {"outer_and_own", outer_and_own})
