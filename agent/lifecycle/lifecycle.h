// SPDX-License-Identifier: Apache-2.0
//
// The life cycle of design decision 2, over all participants of this process:
//
//   running → preflight → quiesced → saved → detached → (CRIU) → attached → loaded → running
//
// Every verb either takes all participants one state further or undoes what it did: a failure
// before "detached" leads back to running, one after it back to detached. Used by the agent's
// thread alone, but for state().
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <vector>

#include "agent/lifecycle/callbacks.h"
#include "agent/lifecycle/checkpoint_barrier.h"
#include "agent/lifecycle/exclusions.h"
#include "agent/lifecycle/pending_checkpoint.h"
#include "agent/participant/participant.h"
#include "agent/protocol.h"
#include "agent/transfer/contents_store.h"
#include "agent/transfer/sink.h"

namespace ckpt::agent {

class Lifecycle {
 public:
  // What the verbs work on, and what may be used from any thread.
  Callbacks callbacks;
  Exclusions exclusions;
  PendingCheckpoint wanted;
  CheckpointBarrier barrier;

  explicit Lifecycle(std::function<std::vector<Participant *>()> participants)
      : participants_(std::move(participants)) {}

  protocol::State state() const { return state_.load(std::memory_order_relaxed); }
  std::vector<std::string> participant_names() const;

  // Towards CRIU.
  std::vector<std::string> preflight();
  std::vector<std::string> remarks() const;
  Participant::Calls calls() const;  // of all participants together
  Result<> quiesce(std::chrono::milliseconds timeout);
  // Returns what a new device must offer: JSON.
  Result<std::string> save(Channel &tool, Staging &staging, const StagingSink::Lineage &lineage);
  // `our_fds` are the agent's own, which go last.
  Result<> detach(std::span<const int> our_fds);
  // In the place of save() and detach(): contents go into `folder`, or into memory where that is
  // empty, and the program waits for wake(). Returns how many bytes.
  Result<u64> suspend(const std::string &folder);
  std::string needs() const;
  // attach(), load() and resume() on the devices that were named. A failure leaves it suspended.
  Result<> wake(const std::string &session);
  Result<> use_devices(const std::string &participant, std::span<const DevicePair> map);
  // Of the first participant that has something to say; after a wake() that failed, and while
  // running.
  std::string unsuited() const;
  std::string place() const;
  // Back to running from any of these, because of `why`.
  void undo(const Error &why);

  // In a copy, after CRIU.
  Result<> attach(const std::string &session);
  Result<> load(Channel &tool, Staging &staging);
  void resume();

  // The end, in two halves, between which the agent opens its socket again: whoever hears of the
  // outcome may ask for the next checkpoint at once.
  void go_on();  // to the old devices
  void lose();   // no devices: every call of their API fails from now on
  void finish(Verdict verdict);

  u64 saved_bytes() const { return saved_bytes_; }
  double seconds_paused() const;
  double seconds_since_checkpoint() const;

 private:
  enum class Stage : u8 { Open, Gated, Detached, Attached };
  struct Member {
    Participant *who;
    Stage stage;
  };
  void muster();
  void open_gates();
  void take_back();
  Result<> save_one(Participant &who, StagingSink &sink);
  Result<> return_to_devices(Participant *who);
  Result<> load_kept(Participant *who);
  Result<> move_into_store();
  void detach_again();
  bool answered(std::string_view file) const;
  Result<> nothing_left(std::span<const int> our_fds) const;
  Failure undone(Error why);

  std::function<std::vector<Participant *>()> participants_;
  std::vector<Member> members_;        // of the checkpoint that is under way
  std::optional<ContentsStore> kept_;  // contents that some devices lose when they are detached
  std::atomic<protocol::State> state_{protocol::State::Running};
  bool devices_lost_ = false;
  std::atomic<u64> saved_bytes_{0};
  // Real time is the only clock that means the same in a copy.
  std::chrono::system_clock::time_point checkpoint_at_;
  std::chrono::steady_clock::time_point gated_at_;
  std::atomic<double> paused_{0}, age_{0};
};

}  // namespace ckpt::agent
