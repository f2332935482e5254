/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ckpt.h: lets a program start its own checkpoints and take part in others.
 *
 * A program needs none of this to be checkpointed: `ckpt-run ./app` is enough. With it, a program
 * can choose a good moment, run code of its own before and after, and exclude memory whose contents
 * an image need not hold. See ckpt(3). Compile and link with `pkg-config --cflags --libs ckpt`.
 *
 * Sessions. The tools around the program make the checkpoint, so the program must have been started
 * by ckpt-run or ckpt-restore, which set CKPT_SESSION. Otherwise every function that needs them
 * returns CKPT_ERR_NO_SESSION, and the library starts no thread and opens no descriptor. In a
 * session, the first call starts one thread, "ckpt-agent", with all signals blocked.
 *
 * Threads. Every function may be called from any thread at any time, unless its description says
 * otherwise. Only ckpt_state(), ckpt_version() and ckpt_strerror() are async-signal-safe.
 *
 * Errors are negative numbers (enum ckpt_error); ckpt_last_error() describes the last one. Besides
 * those listed with a function, CKPT_ERR_NO_SESSION and CKPT_ERR_SYSTEM are returned by
 * ckpt_checkpoint(), ckpt_on_checkpoint(), ckpt_exclude() and ckpt_suspend(). The library never
 * ends the program, never throws, and prints nothing except warnings on standard error (CKPT_LOG in
 * ckpt-run(1)).
 *
 * Ownership. Strings that the library returns belong to it. Memory that the caller passes remains
 * the caller's; the library keeps no pointer to it, except the arguments of ckpt_on_checkpoint()
 * and the addresses given to ckpt_exclude().
 *
 * Fork. The child of a fork inherits neither callbacks nor exclusions, and its first call starts
 * its own agent.
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
  CKPT_CONTINUED = 0, /* the image is complete, and this is the original program */
  CKPT_RESTORED = 1,  /* this is a copy, started from the image */
  CKPT_FAILED = 2 /* there is no image, and the program continues as before. In rare cases, which
                     are logged, its devices are lost: every call of their API then fails */
};

enum ckpt_error {
  CKPT_ERR_NO_SESSION = -1,  /* the program was not started by ckpt-run or ckpt-restore */
  CKPT_ERR_BUSY = -2,        /* another thread of this process is in ckpt_checkpoint() */
  CKPT_ERR_INVALID = -3,     /* an argument is invalid */
  CKPT_ERR_FAILED = -4,      /* the operation failed; the program continues as before */
  CKPT_ERR_LOST = -5,        /* the devices are lost: every call of their API fails from now on */
  CKPT_ERR_UNKNOWN = -6,     /* no API knows the handle, or nothing was registered under the name */
  CKPT_ERR_IN_CALLBACK = -7, /* not possible inside a callback of ckpt_on_checkpoint() */
  CKPT_ERR_SYSTEM = -8       /* the agent could not be started */
};

/* The state of this process in the life cycle of a checkpoint. */
enum ckpt_state {
  CKPT_NO_AGENT = 0, /* no session, or neither this library nor a device API was used yet */
  CKPT_RUNNING = 1,
  CKPT_QUIESCED = 2, /* device calls wait, devices are idle */
  CKPT_SAVED = 3,    /* the contents of device memory are in the image */
  CKPT_DETACHED = 4, /* the process holds nothing of a device */
  CKPT_ATTACHED = 5, /* restored: the objects exist again on the new devices */
  CKPT_LOADED = 6,   /* restored: the contents of device memory are back */
  CKPT_SUSPENDED = 7 /* the process has given its devices back, or their memory, until
                        ckpt_resume() or ckpt-restore --resume */
};

/* Flags of ckpt_checkpoint(). */
#define CKPT_STOP 1u      /* end the program once the image is complete; only copies return */
#define CKPT_OVERWRITE 2u /* replace an existing image; without this flag, that is an error */
#define CKPT_TEMPLATE                                                          \
  4u /* copies can run at the same time, started by ckpt-start(1); what copies \
        cannot have is refused */
#define CKPT_WITH_FILES                                                       \
  8u /* the image carries the libraries and other files that the program only \
        reads, as that of ckpt-dump --with-files */

struct ckpt_result {
  int outcome;           /* enum ckpt_outcome; the same as the return value */
  double seconds;        /* CKPT_CONTINUED: for how long device calls of this process had to wait.
                            CKPT_RESTORED: wall-clock time since the checkpoint was made, >= 0 */
  uint64_t device_bytes; /* device memory of this process that was saved, in bytes */
  uint64_t reserved[5];  /* zero */
};

/*
 * Checkpoints the whole program, that is, every process that ckpt-run started, into the folder
 * `image`. A relative name is relative to the current directory. Blocks until the outcome is known;
 * other threads continue until the tools stop them. While the process is suspended, it waits.
 * `result` may be NULL; it is filled in only if the call returns an outcome.
 *
 * Returns CKPT_CONTINUED or CKPT_RESTORED, like fork(): once in the program, and once in every copy
 * that is started from the image. All `after` callbacks have returned by then. Otherwise an error:
 *   CKPT_ERR_BUSY         another thread is in this function; its checkpoint is not affected
 *   CKPT_ERR_INVALID      `image` is NULL or empty, or a flag is unknown
 *   CKPT_ERR_FAILED       refused or failed; ckpt_last_error() has the tool's message
 *   CKPT_ERR_LOST         the program continues without its devices
 *   CKPT_ERR_IN_CALLBACK  called on the agent's thread
 */
CKPT_API int ckpt_checkpoint(const char *image, unsigned flags, struct ckpt_result *result);

/*
 * Registers callbacks that run around every checkpoint and suspend of this process, however it was
 * started. Either may be NULL. `user` is passed to both. Returns a positive id, or an error.
 *
 * before: runs on the agent's thread while device calls still pass, in order of registration. It
 * may use devices and wait for other threads. It returns 0 to agree. Any other value refuses the
 * checkpoint; it may then set *reason to a string, which remains the callback's and must stay valid
 * until its next call. If it refuses, its own `after` is not called.
 *
 * Close in `before` what an image cannot hold, such as a TCP connection to another machine, or
 * RDMA. A dump that would be refused because of them is refused only if they are still open when
 * `before` has returned.
 *
 * after: runs on the agent's thread when device calls pass again, in the opposite order, once for
 * every `before` that agreed (a NULL `before` agrees). `outcome` is an enum ckpt_outcome.
 *
 * Callbacks must return. They must not throw or call ckpt_checkpoint(), and the child of a fork
 * that they make must end in _exit() or exec. A callback that is registered during a checkpoint is
 * first called in the next one.
 */
typedef int (*ckpt_before_fn)(void *user, const char **reason);
typedef void (*ckpt_after_fn)(void *user, int outcome);
CKPT_API int ckpt_on_checkpoint(ckpt_before_fn before, ckpt_after_fn after, void *user);

/*
 * Takes back the ckpt_on_checkpoint() that returned `id`. When this returns, neither callback is
 * running or will run again, and `user` may be freed. Called from the callback itself, it does not
 * wait. Returns 0 or CKPT_ERR_UNKNOWN.
 */
CKPT_API int ckpt_remove_callbacks(int id);

/*
 * Excludes memory from images: its contents need not be saved.
 *
 * bytes > 0: `bytes` bytes of host memory from `address` on. AFTER ANY CHECKPOINT, COMPLETE OR
 * FAILED, ALSO IN THE PROGRAM THAT CONTINUES, THE CONTENTS ARE UNDEFINED: whole pages inside the
 * range that are private and anonymous (from malloc() or mmap()) read as zero, all others keep
 * their contents. No other thread may rely on the contents across a checkpoint. Call ckpt_include()
 * before the memory is freed or serves another purpose.
 *
 * bytes == 0: `address` is a handle of a device API, namely a cl_mem, or a pointer from cudaMalloc.
 * The object survives; its contents are undefined in a restored copy and, for CUDA memory, also in
 * the program that continues. Valid until the object is released.
 *
 * Returns 0, CKPT_ERR_INVALID (NULL, or a range that wraps around) or CKPT_ERR_UNKNOWN (no API
 * knows the handle).
 */
CKPT_API int ckpt_exclude(const void *address, size_t bytes);

/*
 * Takes back a ckpt_exclude() with the same arguments, also that of a handle. Returns 0 or
 * CKPT_ERR_UNKNOWN.
 */
CKPT_API int ckpt_include(const void *address, size_t bytes);

/* What a process can learn about itself if ckpt-start has started it from a template. */
struct ckpt_copy {
  unsigned number;      /* of this copy among those of one ckpt-start, from 1 on */
  unsigned copies;      /* that were started together */
  uint64_t generation;  /* 1: a copy of the program, 2: a copy of a copy, and so on */
  uint64_t reserved[4]; /* zero */
};

/*
 * Returns 1 in a copy that ckpt-start has started, and 0 in any other process, also without a
 * session. `copy` may be NULL; otherwise it is filled in, with zeros where this is no copy. Call it
 * in an `after` callback with CKPT_RESTORED, or where ckpt_checkpoint() has returned it: before
 * that, a copy has the random numbers, keys and UUIDs of all others.
 */
CKPT_API int ckpt_copy_info(struct ckpt_copy *copy);

/*
 * The value of `ckpt-start --set NAME=VALUE`. NULL: there is none, or this is no copy. The string
 * stays valid.
 */
CKPT_API const char *ckpt_setting(const char *name);

/*
 * Suspends this process: it gives up its devices with all memory on them. The contents go into an
 * unnamed file in `folder`, or into host memory if `folder` is NULL. Waits for running device work,
 * 60 seconds at most. From then on, every call of a device API waits, in every thread, and so
 * does ckpt_checkpoint(). A suspended program cannot be dumped. The callbacks of
 * ckpt_on_checkpoint() are called: `before` now, `after` (with CKPT_CONTINUED) at the end of the
 * resume.
 *
 * Returns 0, CKPT_ERR_INVALID (`folder` is ""), CKPT_ERR_IN_CALLBACK, or CKPT_ERR_FAILED: the
 * process keeps its devices as before.
 */
CKPT_API int ckpt_suspend(const char *folder);

/*
 * The same, but gives back only memory, which is faster, both now and at the resume. What stays on
 * the device is the CUDA driver's own: contexts (about 0.5 GiB each), arrays, device variables, and
 * memory that ckpt does not serve (docs/CUDA.md). So the device cannot be reset or removed, and the
 * process cannot be moved before ckpt_suspend(), which gives back the rest: `folder` is then not
 * used, because the contents are kept already. OpenCL has one depth: it gives everything back.
 */
CKPT_API int ckpt_suspend_memory(const char *folder);

/*
 * Resumes this process on the same devices, with their contents. (On others: ckpt-restore --resume
 * PID --device N.) Returns 0; CKPT_ERR_NO_SESSION if there is no agent; CKPT_ERR_IN_CALLBACK; or
 * CKPT_ERR_FAILED, for example because the devices lack free memory: the process remains suspended,
 * and the call may be repeated.
 */
CKPT_API int ckpt_resume(void);

/* The state of this process now. Starts no agent. */
CKPT_API enum ckpt_state ckpt_state(void);

/* What the last failed call of this thread failed at, and what to do about it. One line, never
 * NULL, valid until the thread's next failing call; empty if no call has failed. */
CKPT_API const char *ckpt_last_error(void);

/* A description of an enum ckpt_error in one line; a constant, never NULL. */
CKPT_API const char *ckpt_strerror(int error);

/* The library's version, such as "0.1.0"; a constant. In a restored program, the version that the
 * program was started with. */
CKPT_API const char *ckpt_version(void);

#ifdef __cplusplus
}
#endif

#endif
