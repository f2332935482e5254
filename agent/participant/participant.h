// SPDX-License-Identifier: Apache-2.0
//
// A participant is an API that keeps state on a device: OpenCL, CUDA. It implements the verbs of
// the life cycle and knows no other participant. This is the life cycle of one process:
//
//            quiesce            save         detach             CRIU
//   running ─────────► quiesced ────► saved ────────► detached ──────► detached (in a copy)
//      ▲                   │            │                 │                 │ attach
//      ├───── resume ──────┴────────────┘                 │                 ▼
//      │                                                  │             attached
//      ├───── resume ◄── attach_again ◄───────────────────┘                 │ load
//      │                                                                    ▼
//      └───── resume ◄─────────────────────────────────────────────────  loaded
//
//   quiesce   closes the gate of the API and waits until the devices are idle
//   save      copies the contents of device memory into the image
//   detach    removes every trace of devices from the process, because CRIU cannot save a mapped
//             driver, a shared ring or a socket to another process (agent/lifecycle/residue.h)
//   attach    connects the copy to the devices of its machine and recreates all objects there
//   load      copies the contents from the image into the new objects
//   resume    opens the gate
//
// Example: an application calls clFinish() while ckpt-dump runs. Its thread leaves the gate
// (agent/participant/gate.h); quiesce() waits for the kernel; save() and detach() follow, CRIU
// dumps the process, and the tool reports success in the outcome pipe. attach_again() restores the
// connection to the same devices, resume() opens the gate, and clFinish() returns. In a restored
// copy, attach() and load() take the place of attach_again(), and clFinish() returns there, too.
//
// A suspended program follows the path of a copy, without CRIU: save() writes into a contents
// store, detach() and release_devices() follow, and later attach(), load() and resume(). If only
// memory is to be given back, release_memory() takes the place of detach(), which may follow later
// (a *deepening*).
//
// The agent calls the verbs from its own thread, one at a time. The exception is load(): the
// participants of a process load at the same time, each on a thread of its own. Everything up to
// detach() can be undone: attach_again() and resume() then find the old device state as it was. The
// agent calls both also after a detach() that failed.
#pragma once

#include <array>
#include <chrono>
#include <compare>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "agent/participant/traffic.h"
#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "common/base/result.h"

namespace ckpt::agent {

// The alignment of regions that are stored in one place: a page.
inline constexpr u64 kRegionAlign = 4096;

// The contents of device memory are cut into chunks of this size, from the beginning of each region
// (docs/FORMAT.md).
inline constexpr u64 kChunkBytes = u64{1} << 20;

// The index of host memory that is not a slot of staging memory.
inline constexpr u32 kNoSlot = ~u32{0};

// A piece of staging memory, shared by the tool, the agent and a driver proxy.
struct Slot {
  u32 index = 0;              // its number; it stands at index × slot size in the staging memfd
  std::byte *data = nullptr;  // its address in this process
};

// The UUID of an image; zeros: none.
using ImageId = std::array<u8, 16>;

// Of a chunk, in an image and its parents (docs/FORMAT.md).
struct ChunkAddress {
  u64 low = 0, high = 0;
  auto operator<=>(const ChunkAddress &) const = default;
};

// What a participant knows of its device memory because it has looked before copying.
struct Looked {
  u64 zero_bytes = 0;              // passed to Sink::zeros()
  std::vector<std::string> blind;  // why it could not look somewhere, one sentence each
};

// The target of save(), for one thread at a time. The number of slots is limited: acquire() waits
// until the tool has emptied one.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual int staging_fd() const = 0;  // the memfd, to be passed to a proxy; owned by the sink
  virtual u32 slot_bytes() const = 0;  // also the alignment of every offset
  virtual u32 slot_count() const = 0;
  // Names a region ("mem-17") of `bytes` bytes; unique within the participant.
  virtual Result<u32> region(const std::string &name, u64 bytes) = 0;
  virtual Result<Slot> acquire() = 0;
  // `slot` holds `bytes` bytes of `region` at `offset` (a multiple of slot_bytes). The slot passes
  // to the tool. The pieces may come in any order.
  virtual Result<> put(u32 region, u64 offset, Slot slot, u32 bytes) = 0;

  // Instead of acquire() and put(), for a device that copies to any host memory: memory that keeps
  // at most `bytes` bytes of `region` from `offset` on, page-locked by lock_pages(). Empty: this
  // sink has no (more) such memory, so the rest of the region takes slots.
  virtual Result<std::span<std::byte>> place(u32, u64, u64) { return std::span<std::byte>(); }
  // The device has written the place. In the order of place().
  virtual Result<> placed(u32, u64, std::span<std::byte>) {
    return fail("this save has no memory for direct copies");
  }

  // For a device that can look at its memory before it copies: whether zeros() may be called.
  virtual bool takes_zeros() const { return false; }
  // Instead of put() or placed(): these bytes are zero. `offset` is a multiple of kChunkBytes, and
  // so is `bytes`, except at the end of the region.
  virtual Result<> zeros(u32, u64, u64) { return fail("this save cannot take zeros"); }
  // The seed of chunk addresses; none: same_chunk() must not be called.
  virtual std::optional<u64> seed() const { return {}; }
  // Whether the parent image has the chunk with this address.
  virtual bool knows(const ChunkAddress &) const { return false; }
  // Instead of put() or placed(), for a chunk that it has.
  virtual Result<> same_chunk(u32, u64, u32, const ChunkAddress &) {
    return fail("this save cannot take chunks from the parent image");
  }
  // After the save, for the tool's report.
  virtual void looked(const Looked &) {}

  // For device memory that another process copies after this save (driver-checkpoint/owner/):
  // whether later() may be called.
  virtual bool takes_later() const { return false; }
  // Instead of place() and placed(): at most `bytes` bytes of `region` from `offset` on will be
  // written to `at` of later_file(). Empty: there is no room.
  struct Later {
    u64 at = 0, bytes = 0;
  };
  virtual Result<Later> later(u32, u64, u64) { return Later{}; }
  struct File {
    int fd = -1;  // owned by the sink
    u64 bytes = 0;
  };
  virtual File later_file() const { return {}; }
  // Before the first later(): `socket` is that process's, and tells the tool what is there. `owed`,
  // if takes_owed(): the program may run on meanwhile.
  virtual Result<> begin_later(int, bool) {
    return fail("this save has no memory for later copies");
  }

  // Whether contents may come while the program runs on: by begin_later(), if takes_later(), or
  // else by begin_owed().
  virtual bool takes_owed() const { return false; }
  // Before the first owed(): that process writes to `file`, and `socket` tells the tool what is
  // there.
  virtual Result<> begin_owed(File, int) { return fail("this save takes no owed contents"); }
  // Instead of acquire() and put(): these bytes of `region` will be at `at` of the file.
  virtual Result<> owed(u32, u64, u64, u64) { return fail("this save takes no owed contents"); }

  // For increments: the image that this save writes, and its parent. A participant may remember the
  // image() of its last save and track what was written since. If parent() is that image, it may
  // call same() instead of region() and put() for a region that was not written, which saves
  // reading it. (A failed image never becomes a parent, and a restored copy remembers the image
  // that it was restored from.)
  virtual ImageId image() const { return {}; }
  virtual ImageId parent() const { return {}; }
  virtual Result<> same(const std::string &name, u64) {
    return fail("this save cannot take \"{}\" from the parent image", name);
  }
};

// The source of load(), for one thread at a time. Pieces come in the order of the image.
class Source {
 public:
  struct Piece {
    std::string region;  // its name in save()
    u64 offset = 0;
    Slot slot;  // kNoSlot: host memory that is page-locked already
    u32 bytes = 0;
    bool zeros = false;  // instead of a slot; only for participants with loads_zeros()
  };
  virtual ~Source() = default;
  virtual int staging_fd() const = 0;
  virtual u32 slot_bytes() const = 0;
  virtual u32 slot_count() const = 0;
  // The next piece; false at the end. At most slot_count() pieces may be unreleased.
  virtual Result<bool> next(Piece &piece) = 0;
  virtual Result<> release(Slot slot) = 0;
};

// The contents of a region that its device gets while the program runs (Participant::load_later()).
struct LaterRegion {
  std::string name;  // as in save()
  u64 bytes = 0;
};

// A device of this process and the device that replaces it, by their names in --list-devices.
struct DevicePair {
  std::string from, to;
};

// Page-locks host memory for copies of devices, and the reverse. From several threads at a time,
// while no call of the program reaches the devices. Where a driver refuses, copies are only slower.
class PageLocker {
 public:
  virtual ~PageLocker() = default;
  virtual void lock_pages(std::span<std::byte>) {}
  virtual void unlock_pages(std::span<std::byte>) {}
};

class Participant : public PageLocker {
 public:
  virtual const char *name() const = 0;  // "ocl"; the prefix of its regions in an image
  // Whether device memory keeps its contents from detach() to attach_again(). If not, the agent
  // keeps a copy of what save() delivers, and calls load() with it after attach_again().
  virtual bool keeps_contents() const { return true; }
  // An upper bound of what save() will write to places, in bytes, each region rounded up to
  // kRegionAlign. Also while the program runs. 0: it takes slots only.
  virtual u64 contents_bytes() const { return 0; }
  // Without keeps_contents(): about how many bytes the agent has to keep.
  virtual u64 lost_bytes() const { return contents_bytes(); }
  // Whether save() looks at device memory before it copies.
  virtual bool looks() const { return false; }
  // Whether load() accepts pieces of zeros, for which it has devices write zeros themselves.
  virtual bool loads_zeros() const { return false; }
  // Whether load() accepts pieces that are in no slot (kNoSlot).
  virtual bool loads_places() const { return false; }
  // Before quiesce(): starts a process that will own device memory while this one has no devices,
  // so that save() need not copy it. False: the program was not started for that.
  virtual Result<bool> start_owner() { return false; }
  // After attach_again(): whether device memory has its contents, so that load() need not follow.
  virtual bool has_contents() const { return keeps_contents(); }
  // `file` is a driver that is mapped into this process. True: this participant guarantees that the
  // driver holds no device state after detach(), so that it may stay mapped.
  virtual bool answers_for(std::string_view) const { return false; }

  // The calls that have given work to devices: their number (modulo 2^32), the time of the last one
  // in nanoseconds of CLOCK_MONOTONIC_COARSE (0: none since the first calls()), and the bytes that
  // they copied between host and devices. From any thread.
  struct Calls {
    u32 count = 0;
    i64 last = 0;
    u64 copied = 0;
  };
  virtual Calls calls() { return {}; }

  // For a tool that predicts a move, while the program runs. What the way to the devices costs; no
  // value: the driver is in the process. From any thread.
  virtual std::optional<Traffic> traffic() const { return {}; }
  // About how many bytes save() would write.
  virtual u64 held_bytes() { return contents_bytes(); }
  // requirements(), as of now.
  virtual Result<std::string> requirements_now() {
    return fail("what the program needs of {} devices is known only when it is suspended", name());
  }

  // Appends the blockers: every reason why a checkpoint would fail. Changes nothing.
  virtual void preflight(std::vector<std::string> &blockers) = 0;
  // Appends remarks on the program's use of devices for users and administrators, one sentence
  // each. Changes nothing.
  virtual void remarks(std::vector<std::string> &) {}
  // Appends the names of the devices that the process uses. Changes nothing.
  virtual void devices(std::vector<std::string> &) {}
  // While the program runs: copies at most `most` bytes of contents, in at most `rounds` rounds, so
  // that save() has to fetch only what has changed. May do nothing. Ends soon if stop() is true.
  // What save() does not take is dropped by drop_ahead().
  virtual void copy_ahead(u32, u64, const std::function<bool()> &) {}
  virtual void drop_ahead() {}
  // Closes the gate, so that new calls wait. Returns when no call is inside and the devices are
  // idle, or fails at the deadline (the agent then calls resume()).
  virtual Result<> quiesce(Clock::time_point deadline) = 0;
  // Writes the contents of device memory.
  virtual Result<> save(Sink &sink) = 0;
  // A JSON object: what another device must offer to take over this process. The tool passes it to
  // `ckpt-<name>-proxy --check` before a restore.
  virtual std::string requirements() = 0;
  // After save(): what must have been done in every process of the program before any of them is
  // detached. A tool asks all agents for it first; detach() does it where none has asked. Undone as
  // detach() is.
  virtual Result<> lock() { return {}; }
  // Unmaps and closes everything that belongs to devices: rings, sockets, drivers. Also undoes an
  // attach() when a later step of the restore fails.
  virtual Result<> detach() = 0;
  // Instead of detach(), in a program that is suspended: gives back the memory that save() has
  // written, and nothing else. An API that cannot do that gives everything back.
  virtual Result<> release_memory() { return detach(); }
  // After release_memory(): something is still on the devices, and detach() would remove it.
  virtual bool on_devices() const { return false; }
  // After a lock() or detach() in that state that failed, or that nothing follows: undoes it.
  virtual void undo_lock() {}

  // After detach(), in a suspended program: attach_again() will not follow, so what only it needs
  // may be freed.
  virtual void release_devices() {}
  // Before attach(): which device replaces which. An API that maps its devices itself ignores it.
  virtual Result<> use_devices(std::span<const DevicePair>) { return {}; }
  // After an attach() that failed: why these devices can never take over this process. Empty: a
  // later attempt may succeed.
  virtual std::string unsuited() const { return {}; }
  // After an attach() that failed: no attach() can succeed any more.
  virtual bool lost() const { return false; }
  // The UUID of the device that it uses; empty: it uses none or several, or the UUID is not known.
  virtual std::string place() const { return {}; }

  // After a dump that left the program alive: takes the same devices again, with their contents.
  virtual Result<> attach_again() = 0;
  // In a restored copy, or after release_devices(): connects through `session` and recreates every
  // object on the new devices.
  virtual Result<> attach(const std::string &session) = 0;
  // Of the last attach(): the time in which the program's kernels were compiled.
  virtual std::chrono::milliseconds compiled() const { return {}; }
  virtual Result<> load(Source &source) = 0;
  // Before load(): which of these regions the devices take over `socket` (ContentsArrive in
  // agent/protocol.h), while the program runs. What needs their contents waits for them, and load()
  // gets the others. Empty: none.
  virtual std::vector<bool> load_later(std::span<const LaterRegion>, int) { return {}; }
  // Opens the gate. If the participant is still detached (attach() or attach_again() failed, or was
  // undone), every call returns the API's own device error from now on.
  virtual void resume() = 0;

  // While it is checkpointed: whether other processes of the program need contents that only this
  // one has. Then exit() waits for the devices.
  virtual bool others_need() { return false; }

  // The contents of the object `handle` need not be saved; include() undoes this. False: `handle`
  // is no object of this API. Both from any thread, at any time.
  virtual bool exclude(const void *handle) = 0;
  virtual bool include(const void *) { return false; }
  // In the parent, before each fork. Not while the participant is being added.
  virtual void before_fork() {}
  // In the child of a fork, before any other code runs: forgets the devices and closes descriptors.
  // Async-signal-safe.
  virtual void forked() = 0;
};

// Registers `participant`, which must live as long as the process, and starts the agent if it is
// not running yet. Waits while a checkpoint is in progress. Fails in a process that was not started
// by ckpt-run. Thread-safe; exported by libckpt.so.
Result<> add_participant(Participant *participant);

// The same for an API that starts its driver: calls `start`, and registers `participant` if it
// returns true. A checkpoint that begins meanwhile waits for both, so it meets the driver's sockets
// only together with the participant that closes them.
[[gnu::visibility("default")]] Result<> start_participant(Participant *participant,
                                                          const std::function<bool()> &start);

// The socket of the session that this process belongs to: CKPT_SESSION, or that of the last
// restore. Empty: none. Thread-safe; exported by libckpt.so.
[[gnu::visibility("default")]] std::string session_socket();

}  // namespace ckpt::agent
