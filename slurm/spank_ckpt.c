/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * spank_ckpt.so: the option --ckpt[=every=10m,dir=FOLDER] of sbatch, srun and salloc.
 *
 * It sets CKPT_IMAGE and CKPT_EVERY, which are ckpt-run's defaults of --image and --every, and keeps
 * USR1 and USR2 for ckpt-run until it runs. It does nothing else: a job that does not call ckpt-run
 * is not changed. Slurm loads it into srun, sbatch, salloc and slurmstepd, so it is small and calls
 * only Slurm and the C library.
 */
#define _GNU_SOURCE
#include <slurm/slurm.h>
#include <slurm/spank.h>

#include <ctype.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

SPANK_PLUGIN(ckpt, 1)

static char folder[1024] = "images";
static char every[64];
static int wanted;

/* A value must fit, and is taken without its end being cut. */
static int keep(char *to, size_t size, const char *from) {
  if (*from == '\0' || strlen(from) >= size) return ESPANK_BAD_ARG;
  strcpy(to, from);
  return ESPANK_SUCCESS;
}

static int set_word(const char *word) {
  if (strncmp(word, "every=", 6) == 0) return keep(every, sizeof every, word + 6);
  if (strncmp(word, "dir=", 4) == 0) return keep(folder, sizeof folder, word + 4);
  return ESPANK_BAD_ARG;
}

static int on_option(int value, const char *argument, int remote) {
  char words[1200] = "", *rest = words;
  (void)value;
  (void)remote;
  wanted = 1;
  if (argument == NULL || *argument == '\0') return ESPANK_SUCCESS;
  if (keep(words, sizeof words, argument) == ESPANK_SUCCESS)
    for (char *word; (word = strsep(&rest, ",")) != NULL && set_word(word) == ESPANK_SUCCESS;)
      if (rest == NULL) return ESPANK_SUCCESS;
  slurm_error("--ckpt=%s: write --ckpt, or --ckpt=every=TIME,dir=FOLDER with one of them or both",
              argument);
  return ESPANK_BAD_ARG;
}

static struct spank_option option = {
    (char *)"ckpt", (char *)"every=TIME,dir=FOLDER",
    (char *)"checkpoint what ckpt-run starts: the images are in FOLDER/JOB (images/JOB), and one "
            "is written every TIME",
    2 /* the argument may be missing */, 0, on_option};

int slurm_spank_init(spank_t spank, int argc, char **argv) {
  (void)argc;
  (void)argv;
  return spank_option_register(spank, &option);
}

static void set(spank_t spank, const char *name, const char *value) {
  if (spank_remote(spank) == 1)
    spank_setenv(spank, name, value, 1);
  else
    setenv(name, value, 1);
}

/* The tasks of one step are programs of their own, with a series of images each. */
static const char *image_pattern(spank_t spank) {
  static char pattern[sizeof folder + 16];
  uint32_t tasks = 1;
  spank_get_item(spank, S_JOB_TOTAL_TASK_COUNT, &tasks);
  snprintf(pattern, sizeof pattern, tasks > 1 ? "%s/%%j/%%t" : "%s/%%j", folder);
  return pattern;
}

static int set_environment(spank_t spank) {
  if (!wanted) return ESPANK_SUCCESS;
  set(spank, "CKPT_IMAGE", image_pattern(spank));
  if (*every) set(spank, "CKPT_EVERY", every);
  return ESPANK_SUCCESS;
}

/* In sbatch, srun and salloc: salloc's shell has the environment of salloc. */
int slurm_spank_init_post_opt(spank_t spank, int argc, char **argv) {
  (void)argc;
  (void)argv;
  return spank_remote(spank) == 1 ? ESPANK_SUCCESS : set_environment(spank);
}

/* In slurmstepd, for each step. Slurm brings the option here unless it is sbatch --export=NONE. */
int slurm_spank_user_init(spank_t spank, int argc, char **argv) {
  (void)argc;
  (void)argv;
  return set_environment(spank);
}

/*
 * A signal that arrives before ckpt-run waits for it would end the job as failed. In a step of
 * `srun ckpt-run`, the signals are blocked: a blocked signal waits, also through execve(2), and
 * CKPT_HELD_SIGNALS tells ckpt-run to unblock them for its program. A batch script does not keep
 * them so, because dash unblocks all signals when it starts. There a process of ours stays between
 * Slurm and the script, and keeps them until the script has become ckpt-run.
 */
static const struct {
  int number;
  const char *name;
} to_hold[] = {{SIGUSR1, "USR1"}, {SIGUSR2, "USR2"}};

enum { SIGNALS_TO_HOLD = sizeof to_hold / sizeof *to_hold };
enum { SCRIPT_SIZE = 1 << 20 }; /* Only so much of a script is read. */
enum { LOOK_NS = 20 * 1000 * 1000 };

static int is_ckpt_run(const char *word, size_t length) {
  static const char name[] = "ckpt-run";
  size_t its = sizeof name - 1;
  return length >= its && memcmp(word + length - its, name, its) == 0 &&
         (length == its || word[length - its - 1] == '/');
}

static int is_part_of_word(char c) { return isalnum((unsigned char)c) || c == '_' || c == '-'; }

/* The next place behind `text` of this word; NULL: there is none. */
static const char *behind_word(const char *text, const char *word) {
  size_t length = strlen(word);
  for (const char *at = text; (at = strstr(at, word)) != NULL; at += length)
    if ((at == text || !is_part_of_word(at[-1])) && !is_part_of_word(at[length]))
      return at + length;
  return NULL;
}

/* `exec ckpt-run`, with or without a path. */
static int becomes_ckpt_run(const char *script) {
  for (const char *at = script; (at = behind_word(at, "exec")) != NULL;) {
    const char *word = at + strspn(at, " \t\"'");
    if (is_ckpt_run(word, strcspn(word, " \t\n\"'"))) return 1;
  }
  return 0;
}

/* A script that traps signals wants them itself. */
static int is_script_for_ckpt_run(const char *path) {
  int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), answer = 0;
  char *text = file < 0 ? NULL : calloc(1, SCRIPT_SIZE + 1);
  if (text != NULL && read(file, text, SCRIPT_SIZE) > 0 && strncmp(text, "#!", 2) == 0)
    answer = becomes_ckpt_run(text) && behind_word(text, "trap") == NULL;
  free(text);
  if (file >= 0) close(file);
  return answer;
}

static void block_signals(spank_t spank) {
  sigset_t before, held;
  char names[32] = "";
  sigprocmask(SIG_BLOCK, NULL, &before);
  sigemptyset(&held);
  for (int i = 0; i < SIGNALS_TO_HOLD; i++) {
    if (sigismember(&before, to_hold[i].number)) continue;
    sigaddset(&held, to_hold[i].number);
    strcat(strcat(names, *names ? "," : ""), to_hold[i].name);
  }
  if (*names && spank_setenv(spank, "CKPT_HELD_SIGNALS", names, 1) == ESPANK_SUCCESS)
    sigprocmask(SIG_BLOCK, &held, NULL);
}

/* ---- the process between Slurm and a batch script */

/* Ends as the script has ended, without a second core file. */
static void end_like(int status) {
  const struct rlimit none = {0, 0};
  sigset_t set;
  if (WIFEXITED(status)) _exit(WEXITSTATUS(status));
  setrlimit(RLIMIT_CORE, &none);
  signal(WTERMSIG(status), SIG_DFL);
  sigemptyset(&set);
  sigaddset(&set, WTERMSIG(status));
  sigprocmask(SIG_UNBLOCK, &set, NULL);
  raise(WTERMSIG(status));
  _exit(128 + WTERMSIG(status));
}

/* Whether the script has become ckpt-run (or then ckpt-restore), and that waits for this signal. */
static int waits_for(pid_t script, int signal) {
  char path[32], text[4096];
  snprintf(path, sizeof path, "/proc/%d/status", (int)script);
  int file = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t size = file < 0 ? 0 : read(file, text, sizeof text - 1);
  if (file >= 0) close(file);
  text[size > 0 ? size : 0] = '\0';
  if (strncmp(text, "Name:\tckpt-run\n", 15) != 0 && strncmp(text, "Name:\tckpt-restore\n", 19) != 0)
    return 0;
  const char *blocked = strstr(text, "\nSigBlk:\t");
  return blocked != NULL && (strtoull(blocked + 9, NULL, 16) >> (signal - 1) & 1) != 0;
}

static void keep_signals_for(pid_t script, const sigset_t *all) {
  const struct timespec soon = {0, LOOK_NS};
  int status, held[SIGNALS_TO_HOLD] = {0}, any = 0;
  for (;;) {
    int signal = any ? sigtimedwait(all, NULL, &soon) : sigwaitinfo(all, NULL);
    if (signal == SIGCHLD && waitpid(script, &status, WNOHANG) == script) end_like(status);
    any = 0;
    for (int i = 0; i < SIGNALS_TO_HOLD; i++) {
      held[i] |= signal == to_hold[i].number;
      if (held[i] && waits_for(script, to_hold[i].number))
        held[i] = kill(script, to_hold[i].number) != 0;
      any |= held[i];
    }
    if (signal > 0 && signal != SIGCHLD && signal != SIGUSR1 && signal != SIGUSR2)
      kill(script, signal);
  }
}

/* The child goes on to be the script, and its parent is what Slurm knows. */
static void stand_before_script(void) {
  sigset_t all, before;
  pid_t ours = getpid(), script;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, &before);
  signal(SIGCHLD, SIG_DFL);
  script = fork();
  if (script > 0) {
    prctl(PR_SET_NAME, "ckpt-hold");
    for (int fd = 0; fd < 1024; fd++) close(fd);
    keep_signals_for(script, &all);
  }
  if (script == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != ours) _exit(1);
  }
  sigprocmask(SIG_SETMASK, &before, NULL);
}

/* In each task, as the user, right before its execve(2). */
int slurm_spank_task_init(spank_t spank, int argc, char **argv) {
  int count = 0;
  char **words = NULL;
  (void)argc;
  (void)argv;
  if (!wanted || spank_get_item(spank, S_JOB_ARGV, &count, &words) != ESPANK_SUCCESS || count < 1)
    return ESPANK_SUCCESS;
  uint32_t step = 0;
  spank_get_item(spank, S_JOB_STEPID, &step);
  if (is_ckpt_run(words[0], strlen(words[0])))
    block_signals(spank);
  else if (step == SLURM_BATCH_SCRIPT && is_script_for_ckpt_run(words[0]))
    stand_before_script();
  return ESPANK_SUCCESS;
}
