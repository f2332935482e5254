/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * spank_ckpt.so: the option --ckpt[=every=10m,dir=FOLDER] of sbatch, srun and salloc.
 *
 * It sets CKPT_IMAGE and CKPT_EVERY, which are ckpt-run's defaults of --image and --every. It does
 * nothing else: a job that does not call ckpt-run is not changed. Slurm loads it into srun, sbatch,
 * salloc and slurmstepd, so it is small and calls only Slurm and the C library.
 */
#include <slurm/spank.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
