// SPDX-License-Identifier: Apache-2.0
//
// The life cycle of agent/participant/participant.h, over all participants of this process:
//
//   running → preflight → quiesced → saved → detached → (CRIU) → attached → loaded → running
//
// Every verb either takes all participants one state further or undoes what it did: a failure
// before "detached" leads back to running, one after it back to detached. Only the agent's thread
// may call the verbs; state() and the public members may be used from any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <vector>

#include "agent/lifecycle/callbacks.h"
#include "agent/lifecycle/checkpoint_barrier.h"
#include "agent/lifecycle/exclusions.h"
#include "agent/lifecycle/pending_checkpoint.h"
#include "agent/participant/participant.h"
#include "agent/protocol.h"
#include "agent/transfer/contents_store.h"
#include "agent/transfer/sink.h"
#include "common/base/clock.h"

namespace ckpt::agent {

// "cuda cannot {verb}: {why}"
Error cannot(const char *verb, const Participant *p, Error why);

class Lifecycle {
 public:
  Callbacks callbacks;
  Exclusions exclusions;
  PendingCheckpoint pending;
  CheckpointBarrier barrier;

  explicit Lifecycle(std::function<std::vector<Participant *>()> participants)
      : participants_(std::move(participants)) {}

  protocol::State state() const { return state_.load(std::memory_order_relaxed); }
  std::vector<std::string> participant_names() const;

  // ---- before CRIU

  std::vector<std::string> preflight();  // the blockers
  std::vector<std::string> remarks() const;
  std::vector<std::string> devices() const;
  Participant::Calls calls() const;  // summed over all participants
  // Participant::traffic() of each since open_gates(), and what a move would take along; of a
  // program that runs or is suspended.
  struct Traffics {
    struct One {
      std::string participant;
      std::optional<Traffic> traffic;
    };
    u64 held_bytes = 0;
    std::chrono::nanoseconds time{};
    std::vector<One> all;
  };
  Traffics traffic() const;
  // Allocates at most `most` bytes of host memory for the contents while the program still runs, so
  // that the copies need not wait for it. finish(), undo() and drop_prepared() free it.
  void prepare(u64 most);
  // Participant::copy_ahead(). finish(), undo() and drop_prepared() free the copies.
  void copy_ahead(u32 rounds, const std::function<bool()> &stop);
  void drop_prepared();
  // Participant::start_owner(). Whether one of them has started it. finish(), undo() and
  // drop_prepared() end it.
  Result<bool> start_owner();
  // Whether a participant looks at its device memory before it copies.
  bool looks() const;
  Result<> quiesce(std::chrono::milliseconds timeout);
  // For how long quiesce() waited: for "callbacks", and for each participant by its name.
  struct Wait {
    std::string name;
    std::chrono::milliseconds time;
  };
  const std::vector<Wait> &waits() const { return waits_; }
  // After attach(): for how long each participant has compiled kernels.
  std::vector<Wait> compiled() const;
  // Returns the requirements.
  Result<std::string> save(Channel &tool, Staging &staging, const StagingSink::Lineage &lineage);
  // Participant::lock(), after save() or keep(). detach() and suspend() do it where none has.
  Result<> lock();
  // `our_fds` are descriptors of the agent that may still be open.
  Result<> detach(std::span<const int> our_fds);
  // A JSON array: what a new device must offer to each participant. Of a program that runs, as of
  // now.
  std::string requirements() const;
  Result<std::string> requirements_now() const;
  // Returns from any of these states to running, because of `why`.
  void undo(const Error &why);

  // ---- suspended: instead of save() and detach()

  // The contents go into files in `folder`, or into host memory if it is empty. Returns the number
  // of bytes.
  Result<u64> keep(const std::string &folder);
  // Whether suspend() may be called: after quiesce(), or after keep().
  bool can_suspend() const {
    return state_ == protocol::State::Quiesced || (kept_ && state_ == protocol::State::Saved);
  }
  // keep(), unless that was called, and the program waits for wake(). Returns the number of bytes.
  Result<u64> suspend(const std::string &folder, protocol::Depth depth = protocol::Depth::Full);
  // What has been reached: an API may have no other depth than Full.
  protocol::Depth depth() const;
  // From Depth::Memory to Depth::Full, in two steps, as detach() has with lock(). After a failure
  // the program is where it was. undo_lock(): the second step does not follow. Returns the number
  // of bytes.
  Result<> lock_suspended();
  Result<u64> deepen();
  void undo_lock();
  // attach(), load() and resume() on the devices of use_devices(). After a failure the program is
  // still suspended, or has lost its devices: its session has no keeper any more, or
  // Participant::lost(). `before_it_runs` is called once nothing can fail any more.
  Result<> wake(const std::string &session, const std::function<void()> &before_it_runs = {});
  // After wake(): frees the memory of the contents. That takes a while, so report the end of wake()
  // first.
  void release_spent() { spent_.reset(); }
  // The session keeper of a suspended program has ended.
  void wake_without_keeper();
  Result<> use_devices(const std::string &participant, std::span<const DevicePair> map);
  // Participant::unsuited() and Participant::place() of the first participant that returns a text.
  std::string unsuited() const;
  std::string place() const;

  // ---- in a restored copy, after CRIU

  Result<> attach(const std::string &session);
  // Whether load() accepts zeros without slots.
  bool loads_zeros() const;
  // The participant that may load from a file of the tool's; null: none.
  Participant *place_loader() const;
  // Before load(), which gets the rest: which of these regions, named as in an image, come over
  // `socket` while the program runs.
  std::vector<bool> load_later(std::span<const LaterRegion> regions, int socket);
  // `file`: of the tool's; null: there is none.
  Result<> load(Channel &tool, Staging &staging, DirectMemory *file = nullptr);
  void resume();

  // ---- the end of a checkpoint, in two steps

  // Between them the agent opens its socket again, because a thread that learns the outcome may
  // request the next checkpoint at once.
  // The same devices again. `complete`: contents that come after the save are all in the store.
  void reattach(bool complete = false);
  void lose_devices(const Error &why);  // none: every call of their API fails from now on
  void finish(Verdict verdict);

  // Why the program has lost its devices; empty: it has them.
  const std::string &lost_because() const { return lost_because_; }

  u64 saved_bytes() const { return saved_bytes_; }
  double seconds_paused() const { return paused_; }
  double seconds_since_checkpoint() const { return age_; }

 private:
  enum class Stage : u8 { Open, Gated, Detached, Attached };
  struct Member {
    Participant *participant;
    Stage stage;
  };
  void collect_members();
  static std::string joined(const std::vector<std::string> &requirements);
  void open_gates();
  void begin_counting();
  void reattach_members(bool complete);
  Result<> reattach(Participant *participant, bool complete);
  Result<> load_kept(Participant *participant, bool complete);
  void lose_suspended(const Error &why);
  void detach_again();
  Result<> detach_members();
  Result<> leave(Participant &participant);
  Result<> deepen_members(const std::function<Result<>(Participant &)> &step);
  Result<> keep_with_keeper();
  Result<> check_residue(std::span<const int> our_fds) const;
  Result<> save_one(Participant &participant, StagingSink &sink);
  Result<> create_store();
  Result<> open_store(const std::string &folder);
  u64 direct_bytes() const;
  Result<> move_into_store();
  Result<> load_from_store(Participant *participant);
  bool answered_for(std::string_view file) const;
  Failure undo_and_fail(Error why);

  std::function<std::vector<Participant *>()> participants_;
  std::vector<Member> members_;  // of the checkpoint in progress, in order of registration
  // The contents of devices that lose them in detach(), until the checkpoint has ended.
  std::optional<ContentsStore> store_;
  std::optional<ContentsStore> spent_;             // of the last wake()
  std::optional<ContentsStore> prepared_;          // for the next one
  u64 prepared_bytes_ = 0;                         // for which it has room
  bool kept_ = false;                              // by keep(), in the checkpoint in progress
  bool locked_ = false;                            // by lock_suspended()
  protocol::Depth depth_ = protocol::Depth::Full;  // to which members leave their devices
  std::atomic<protocol::State> state_{protocol::State::Running};
  std::vector<Wait> waits_;
  bool devices_lost_ = false;  // in the checkpoint in progress
  std::string lost_because_;
  std::atomic<u64> saved_bytes_{0};
  u64 later_bytes_ = 0;  // of the next load(), by load_later()
  // Real time: a copy may be restored on another machine, with another monotonic clock.
  std::chrono::system_clock::time_point checkpoint_at_;
  Clock::time_point gated_at_;
  // When the program got its devices, and what each participant had counted by then.
  Clock::time_point opened_at_ = Clock::now();
  std::map<const Participant *, Traffic> counted_before_;
  std::atomic<double> paused_{0}, age_{0};  // seconds
};

}  // namespace ckpt::agent
