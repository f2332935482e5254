// SPDX-License-Identifier: Apache-2.0
//
// A participant is an API that keeps state on a device: OpenCL, CUDA. It implements the verbs of
// the life cycle (design decision 2) and knows no other participant:
//
//   running → preflight → quiesce → save → detach → (CRIU) → attach → load → resume → running
//
// The agent calls the verbs from its own thread, one at a time, except that the load() of several
// participants run at once, each on a thread of its own. Everything up to detach can be undone:
// attach_again() and resume() then find the old device state as it was. Both follow a detach() that
// failed, too.
#pragma once

#include <array>
#include <chrono>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/result.h"

namespace ckpt::agent {

// A piece of staging memory, shared by the tool, the agent and a driver proxy.
struct Slot {
  u32 index = 0;              // its number; it stands at index × slot size in the staging memfd
  std::byte *data = nullptr;  // where this process sees it
};

// An image's uuid, as tools tell it; zeros: none.
using ImageId = std::array<u8, 16>;

// Where save() puts device memory; used by one thread at a time. Slots are few: acquire() waits
// until the tool has freed one.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual int staging_fd() const = 0;  // the memfd, to be handed to a proxy; stays the sink's
  virtual u32 slot_bytes() const = 0;  // also the alignment of every offset
  virtual u32 slot_count() const = 0;
  // Names a region ("mem-17") of `bytes` bytes; unique within the participant.
  virtual Result<u32> region(const std::string &name, u64 bytes) = 0;
  virtual Result<Slot> acquire() = 0;
  // `slot` holds `bytes` bytes of `region` at `offset` (a multiple of slot_bytes); it is the tool's
  // from now on. Order does not matter.
  virtual Result<> put(u32 region, u64 offset, Slot slot, u32 bytes) = 0;

  // For increments. The image that this save is for, and the one that it is an increment on. A
  // participant that remembers image() of its last save, and what was written since, may call
  // same() in the place of region() and put() for what was not, if parent() is that image: its
  // bytes need not be read. (An image that came to nothing never is a parent, and a restored copy
  // remembers the image that it was restored from.)
  virtual ImageId image() const { return {}; }
  virtual ImageId parent() const { return {}; }
  virtual Result<> same(const std::string &name, u64) {
    return fail("\"{}\" cannot be taken from an earlier image here", name);
  }
};

// Where load() gets device memory from, in whatever order the image yields it; used by one thread
// at a time.
class Source {
 public:
  struct Piece {
    std::string region;  // the name that save() gave it
    u64 offset = 0;
    Slot slot;
    u32 bytes = 0;
  };
  virtual ~Source() = default;
  virtual int staging_fd() const = 0;
  virtual u32 slot_bytes() const = 0;
  virtual u32 slot_count() const = 0;
  // The next piece; false at the end. Pieces not yet released are bounded by slot_count().
  virtual Result<bool> next(Piece &piece) = 0;
  virtual Result<> release(Slot slot) = 0;
};

// A device of this process and the one that shall stand for it, by their names in --list-devices.
struct DevicePair {
  std::string from, to;
};

class Participant {
 public:
  virtual ~Participant() = default;
  virtual const char *name() const = 0;  // "ocl"; the prefix of its regions in an image
  // Whether attach_again() finds the contents of device memory where detach() left them. Otherwise
  // the agent keeps what save() gave, and load()s it after attach_again().
  virtual bool keeps_contents() const { return true; }
  // Of that one: what save() will write at most, in bytes.
  virtual u64 contents_bytes() const { return 0; }
  // `file` is mapped here and is a driver's: does it stay while nothing of a device is in it?
  virtual bool answers_for(std::string_view) const { return false; }

  // Calls that have given the devices work (modulo 2^32), and when the last one did, nanoseconds of
  // CLOCK_MONOTONIC_COARSE (0: none since this was first asked); bytes that they copied between the
  // host and a device. From any thread.
  struct Calls {
    u32 count = 0;
    i64 last = 0;
    u64 copied = 0;
  };
  virtual Calls calls() { return {}; }

  // Appends every reason why a checkpoint would fail; touches nothing.
  virtual void preflight(std::vector<std::string> &reasons) = 0;
  // Appends what whoever manages the node or looks at the program should know of its use of
  // devices, a sentence each; touches nothing.
  virtual void remarks(std::vector<std::string> &) {}
  // Closes the gate: new calls wait. Returns when no call is inside and the devices are idle, or
  // fails at the deadline (the agent then calls resume()).
  virtual Result<> quiesce(std::chrono::steady_clock::time_point deadline) = 0;
  // Writes the contents of device memory.
  virtual Result<> save(Sink &sink) = 0;
  // JSON object: what another device must offer to take this process over; the tool hands it to
  // `ckpt-<name>-proxy --check` before a restore.
  virtual std::string needs() = 0;
  // Unmaps and closes all that belongs to devices: rings, sockets, drivers. Also takes back an
  // attach(), when the restore fails later on.
  virtual Result<> detach() = 0;

  // After detach(): attach_again() will not be called, so what it needs may go. For a suspended
  // program.
  virtual void release_devices() {}
  // Ahead of attach(): which devices stand for which. An API that maps its devices itself has no
  // use for it.
  virtual Result<> use_devices(std::span<const DevicePair>) { return {}; }
  // After an attach() that failed: why those devices can never take this process over. Empty: they
  // might, another time.
  virtual std::string unsuited() const { return {}; }
  // The UUID of the one device that it uses; empty: of none, of several, or it cannot tell.
  virtual std::string place() const { return {}; }

  // After a dump that left the program alive: back to the devices it had, contents and all.
  virtual Result<> attach_again() = 0;
  // In a restored copy, or behind release_devices(): connect through `session` and rebuild every
  // object on the new devices.
  virtual Result<> attach(const std::string &session) = 0;
  virtual Result<> load(Source &source) = 0;
  // Opens the gate. While detached (attach() or attach_again() failed, or was taken back): every
  // call gets the API's own device error from now on.
  virtual void resume() = 0;

  // `handle` is an object of this API whose contents are not worth keeping. False: not mine.
  // From any thread, at any time; so is include(), which takes it back.
  virtual bool exclude(const void *handle) = 0;
  virtual bool include(const void *) { return false; }
  // In the child of a fork, before anything else runs: forget the devices, close descriptors.
  // Async-signal-safe.
  virtual void forked() = 0;
};

// Registers `participant` (which lives as long as the process) and starts the agent if it does not
// run yet. Fails when the process was not started by ckpt-run. Waits while a checkpoint is under
// way. Thread-safe; exported by libckpt.so.
[[gnu::visibility("default")]] Result<> add_participant(Participant *participant);

// The session socket that this process belongs to now: CKPT_SESSION, or the last restore's.
// Empty: none. Thread-safe; exported by libckpt.so.
[[gnu::visibility("default")]] std::string session_socket();

}  // namespace ckpt::agent
