/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ckpt.h: a program's own say in its checkpoints.
 *
 * A program needs none of this: `ckpt-run ./app` makes it checkpointable as it is. With it, it can
 * checkpoint itself at a good moment, be told before and after, and name memory that an image need
 * not hold. See ckpt.h(3); link with `pkg-config --cflags --libs ckpt`.
 *
 * Sessions. A checkpoint is made by the tools around the program, so it has to run under ckpt-run
 * or ckpt-restore (which set CKPT_SESSION). Without them every function that needs a session
 * returns CKPT_ERR_NO_SESSION, and the library costs nothing: no thread, no descriptor. Under a
 * session the first call starts one thread, "ckpt-agent", with all signals blocked.
 *
 * Threads. Every function may be called from any thread at any time, except where it says
 * otherwise. None is async-signal-safe but ckpt_state(), ckpt_version() and ckpt_strerror().
 *
 * Errors are negative numbers; ckpt_last_error() says more. Nothing here ends the program, prints
 * (but for warnings on standard error, see CKPT_LOG in ckpt-run(1)) or throws.
 *
 * Fork. The child of a fork has no part in its parent's checkpoints: callbacks and exclusions are
 * forgotten, and its first call starts an agent of its own.
 */
#ifndef CKPT_CKPT_H
#define CKPT_CKPT_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define CKPT_API __attribute__((visibility("default")))
#else
#define CKPT_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* How a checkpoint ended for this process. */
enum ckpt_outcome {
  CKPT_CONTINUED = 0, /* the image is written; this is the program that wrote it, running on */
  CKPT_RESTORED = 1,  /* this is a copy of it, started from the image */
  CKPT_FAILED = 2     /* there is no image; the program runs on as before. Or (rare, logged) its
                         devices could not be had again, and every call of their API fails */
};

enum ckpt_error {
  CKPT_ERR_NO_SESSION = -1, /* not started by ckpt-run or ckpt-restore */
  CKPT_ERR_BUSY = -2,       /* another ckpt_checkpoint() of this process is under way */
  CKPT_ERR_INVALID = -3,    /* an argument is wrong */
  CKPT_ERR_FAILED = -4,     /* there is no image; the program runs on as before */
  CKPT_ERR_LOST = -5,    /* the contents of the devices are gone; every call of their API fails */
  CKPT_ERR_UNKNOWN = -6, /* not a handle of an API that is kept, or nothing by that name */
  CKPT_ERR_IN_CALLBACK = -7, /* not possible inside a callback of ckpt_on_checkpoint() */
  CKPT_ERR_SYSTEM = -8       /* the agent could not be started */
};

/* Where this process stands. */
enum ckpt_state {
  CKPT_NO_AGENT = 0, /* no session, or nothing that is kept was used yet */
  CKPT_RUNNING = 1,
  CKPT_QUIESCED = 2, /* device calls wait, devices are idle */
  CKPT_SAVED = 3,    /* device memory is in the image */
  CKPT_DETACHED = 4, /* nothing of a device is in the process */
  CKPT_ATTACHED = 5, /* restored: new devices, objects rebuilt */
  CKPT_LOADED = 6,   /* restored: device memory is back */
  CKPT_SUSPENDED = 7 /* it holds no device, until ckpt_resume() or ckpt-restore --resume */
};

/* Flags of ckpt_checkpoint(). */
#define CKPT_STOP 1u      /* end the program once the image is written; only copies return */
#define CKPT_OVERWRITE 2u /* replace an existing image; without it, that is an error */

struct ckpt_result {
  int outcome;           /* enum ckpt_outcome */
  double seconds;        /* CONTINUED: how long this process, or its device calls, had to wait.
                            RESTORED: wall-clock time since the checkpoint was made, >= 0 */
  uint64_t device_bytes; /* device memory of this process that went into the image */
  uint64_t reserved[5];  /* zero */
};

/*
 * Checkpoints the whole program (every process that ckpt-run started) into the folder `image`; a
 * relative name counts from the current directory. Blocks until the outcome is known; other threads
 * run on until the tools stop them. `result` may be NULL; it is the caller's, and is filled in only
 * when the call returns an outcome.
 *
 * Returns CKPT_CONTINUED or CKPT_RESTORED, like fork() once in the program and once in every copy
 * that is ever started from the image, or an error:
 *   CKPT_ERR_BUSY         another thread is in this function; its checkpoint goes on
 *   CKPT_ERR_INVALID      image is NULL or empty, or an unknown flag
 *   CKPT_ERR_FAILED       refused or failed; ckpt_last_error() holds the tools' words
 *   CKPT_ERR_LOST         the program goes on, but without its devices
 *   CKPT_ERR_IN_CALLBACK  called on the agent's thread
 * All `after` callbacks have returned when this does.
 */
CKPT_API int ckpt_checkpoint(const char *image, unsigned flags, struct ckpt_result *result);

/*
 * Has `before` and `after` (either may be NULL) called around every checkpoint of this process,
 * whoever asks for it. Returns a positive id, or an error.
 *
 * before: on the agent's thread, before any device call is held back, in the order of
 * registration. It may use the device and wait for other threads. Returns 0 to agree. Anything else
 * refuses the checkpoint: set *reason to a string, which stays the callback's and must live until
 * this callback's next call, or leave it NULL. If it refuses, its own `after` is not called.
 *
 * after: on the agent's thread, in the opposite order, once for every `before` that agreed, when
 * device calls go through again. `outcome` is an enum ckpt_outcome.
 *
 * Callbacks must return; they must not call ckpt_checkpoint() or throw, and if they fork the child
 * must end in _exit() or exec. A callback registered during a checkpoint is first called in the
 * next.
 */
typedef int (*ckpt_before_fn)(void *user, const char **reason);
typedef void (*ckpt_after_fn)(void *user, int outcome);
CKPT_API int ckpt_on_checkpoint(ckpt_before_fn before, ckpt_after_fn after, void *user);

/*
 * Undoes ckpt_on_checkpoint(). When it returns, neither callback is running or will run again, and
 * `user` may be freed; called from the callback itself it does not wait. Returns 0, or
 * CKPT_ERR_UNKNOWN.
 */
CKPT_API int ckpt_remove_callbacks(int id);

/*
 * Says that the contents of some memory are not worth keeping: images become smaller.
 *
 * bytes > 0: host memory from `address` on. AFTER ANY CHECKPOINT, FINISHED OR FAILED, ALSO IN THE
 * PROGRAM THAT GOES ON, ITS CONTENTS ARE UNDEFINED (whole pages inside the range that are private
 * and anonymous, from malloc() or mmap(), read as zero; everything else keeps its contents). Call
 * ckpt_include() before the memory is freed or used for something else. No other thread may count
 * on its contents across a checkpoint.
 *
 * bytes == 0: `address` is a handle of a device API (cl_mem) or a pointer of its (cudaMalloc). The
 * object survives, its contents in a restored copy are undefined; those of CUDA memory also in the
 * program that goes on. Valid until the object is released.
 *
 * Returns 0, CKPT_ERR_NO_SESSION, CKPT_ERR_INVALID (NULL, or a range that wraps around) or
 * CKPT_ERR_UNKNOWN (no API knows the handle).
 */
CKPT_API int ckpt_exclude(const void *address, size_t bytes);

/* Takes back a ckpt_exclude() with the same arguments. Returns 0 or CKPT_ERR_UNKNOWN. */
CKPT_API int ckpt_include(const void *address, size_t bytes);

/*
 * Gives up the devices of this process, with all memory on them; the contents go into a file
 * without a name in `folder`, or into host memory where that is NULL. Waits for what runs on the
 * devices, at most a minute. From then on every call of a device API waits, in whatever thread, and
 * so does ckpt_checkpoint(); the program cannot be dumped meanwhile. Callbacks of
 * ckpt_on_checkpoint() are called, `before` now and `after` (CKPT_CONTINUED) at the end of
 * ckpt_resume().
 *
 * Returns 0, CKPT_ERR_NO_SESSION, CKPT_ERR_INVALID (folder is ""), CKPT_ERR_IN_CALLBACK, or
 * CKPT_ERR_FAILED: it has its devices as before.
 */
CKPT_API int ckpt_suspend(const char *folder);

/*
 * Takes the same devices again, and what was in their memory. (On others: ckpt-restore --resume
 * PID --device N.) Returns 0, or CKPT_ERR_FAILED: there is no room, say; the process stays
 * suspended, and may try again.
 */
CKPT_API int ckpt_resume(void);

/* Where this process stands now. Starts nothing. */
CKPT_API enum ckpt_state ckpt_state(void);

/* What the last failed call on this thread failed of, and what to do about it: one line, never
 * NULL, the library's, valid until the thread's next failing call. Empty: nothing has failed. */
CKPT_API const char *ckpt_last_error(void);

/* One line for an enum ckpt_error; a constant of the library, never NULL. */
CKPT_API const char *ckpt_strerror(int error);

/* "0.1.0"; a constant of the library. In a restored program: that of the day it was started. */
CKPT_API const char *ckpt_version(void);

#ifdef __cplusplus
}
#endif

#endif
