/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a plugin of CRIU exports: the table that CRIU looks for under the name CR_PLUGIN_DESC, and
 * the numbers in it (criu/include/criu-plugin.h of CRIU 4.2, described here in our own words).
 */
#pragma once

/* The hooks' places in the table, and the stages in which a plugin is loaded. */
enum { RESUME_DEVICES_LATE = 9, PAUSE_DEVICES = 10, CHECKPOINT_DEVICES = 11, HOOKS = 12 };
enum { STAGE_DUMP = 0, STAGE_RESTORE = 2 };

struct plugin {
  const char *name;
  int (*init)(int stage);
  void (*exit)(int stage, int result);
  unsigned version;
  unsigned hooks_declared;
  int (*hooks[HOOKS])(int pid); /* of the three that are used, each has this type */
};
