/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that checkpoints itself: after every EVERY steps it writes an image, and prints whether it
 * continues as the original or was restored.
 *
 * The first command runs 40 steps with checkpoints after steps 10, 20 and 30; the second one continues
 * from the last of them:
 *
 *   ckpt-run ./selfcheckpoint 40 10 /tmp/self.ckpt
 *   ckpt-restore /tmp/self.ckpt
 *
 * With STOP=1 in the environment it ends at the first checkpoint and can only be restored. Without
 * ckpt-run it computes the same and writes no image. The last line is the result, which does not
 * depend on the number of checkpoints and restores.
 */
#define _GNU_SOURCE
#include <ckpt/ckpt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { CELLS = 1 << 18, STEP_MILLISECONDS = 50 };

struct work {
  int step;
  uint64_t cells[CELLS];
  uint64_t *scratch; /* recomputed in every step, so the image need not contain it */
};

/* Mixes every cell with its neighbour: a lost or repeated step would change the result. */
static void compute_step(struct work *w) {
  for (int i = 0; i < CELLS; i++) {
    uint64_t x = w->cells[i] + 3 * w->cells[(i + 1) % CELLS] + (uint64_t)w->step;
    x ^= x >> 31;
    w->scratch[i] = x * UINT64_C(0x9e3779b97f4a7c15);
  }
  for (int i = 0; i < CELLS; i++) w->cells[i] = w->scratch[i];
  w->step++;
}

static uint64_t checksum(const struct work *w) {
  uint64_t sum = 0;
  for (int i = 0; i < CELLS; i++) sum = sum * 31 + w->cells[i];
  return sum;
}

/* A checkpoint interrupts a sleep, so repeat it until the clock has reached the time. */
static void wait_until(struct timespec until) {
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) != 0) {
  }
}

static struct timespec later(struct timespec t, long milliseconds) {
  t.tv_nsec += milliseconds * 1000000L;
  t.tv_sec += t.tv_nsec / 1000000000L;
  t.tv_nsec %= 1000000000L;
  return t;
}

static int before(void *user, const char **reason) {
  const struct work *w = user;
  (void)reason; /* to refuse the checkpoint, set it and return 1 */
  printf("step %d: about to be checkpointed\n", w->step);
  return 0;
}

static void checkpoint(const struct work *w, const char *image) {
  struct ckpt_result result;
  unsigned flags = CKPT_OVERWRITE | (getenv("STOP") ? CKPT_STOP : 0);
  switch (ckpt_checkpoint(image, flags, &result)) {
    case CKPT_CONTINUED:
      printf("step %d: image written, continuing after %.2f s\n", w->step, result.seconds);
      break;
    case CKPT_RESTORED:
      printf("step %d: restored from an image that is %.2f s old\n", w->step, result.seconds);
      break;
    default: printf("step %d: no checkpoint: %s\n", w->step, ckpt_last_error());
  }
}

int main(int argc, char **argv) {
  static struct work w;
  int steps = argc > 1 ? atoi(argv[1]) : 40;
  int every = argc > 2 ? atoi(argv[2]) : 10;
  const char *image = argc > 3 ? argv[3] : "selfcheckpoint.ckpt";
  if (argc > 4 || steps < 1 || every < 1) {
    fprintf(stderr, "usage: %s [STEPS [EVERY [IMAGE]]]\n", argv[0]);
    return 2;
  }
  setvbuf(stdout, NULL, _IOLBF, 0);
  w.scratch = malloc(sizeof w.cells);
  if (!w.scratch) return 1;
  for (int i = 0; i < CELLS; i++) w.cells[i] = (uint64_t)i;

  if (ckpt_on_checkpoint(before, NULL, &w) < 0) printf("no checkpoints: %s\n", ckpt_last_error());
  ckpt_exclude(w.scratch, sizeof w.cells);
  while (w.step < steps) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    compute_step(&w);
    if (w.step % every == 0 && w.step < steps) checkpoint(&w, image);
    wait_until(later(now, STEP_MILLISECONDS));
  }
  ckpt_include(w.scratch, sizeof w.cells);
  free(w.scratch);
  printf("result after %d steps: %016" PRIx64 "\n", w.step, checksum(&w));
  return 0;
}
