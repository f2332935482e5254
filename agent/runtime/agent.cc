// SPDX-License-Identifier: Apache-2.0
#include "agent/runtime/agent.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include <cstdlib>

#include "agent/ipc/session.h"
#include "agent/runtime/dialogue.h"
#include "common/base/log.h"
#include "common/base/shortage.h"
#include "common/ipc/unix_socket.h"

namespace ckpt::agent {

using protocol::Type;

namespace {

// The dump holds a lock on its marker. If it and the keeper were killed, the marker is left without
// a lock.
bool is_locked(const std::string &marker) {
  UniqueFd file(::open(marker.c_str(), O_RDONLY | O_CLOEXEC));
  return file && ::flock(file.get(), LOCK_EX | LOCK_NB) < 0;
}

// An agent starts only when no dump is under way. CRIU may dump this process meanwhile, and its
// copy continues here. So a lock or a descriptor is held only for moments; a dump that finds one in
// a process is started again (tools/dump/dump_marker.h).
void wait_until_no_dump() {
  constexpr timespec kPause{0, 5'000'000};
  constexpr int kLooksPerLock = 100;
  std::string marker = session_folder() + "/" + std::string(protocol::kDumpMarker);
  for (int look = 1; ::access(marker.c_str(), F_OK) == 0; look++) {
    ::nanosleep(&kPause, nullptr);
    if (look % kLooksPerLock == 0 && !is_locked(marker)) return;
  }
}

}  // namespace

// The agent of this process, for the handlers of fork() and exit().
struct AgentProcess {
  static constinit std::mutex mutex;  // also guards participants_ and the path of listener_
  static constinit std::atomic<Agent *> agent;
  static constinit bool handlers_set;

  static Result<> set_handlers();
  static void before_fork();
  static void after_fork();
  static void in_child();
  static void wait_for_others_contents(Agent &current);
  static void at_exit();
};

constinit std::mutex AgentProcess::mutex;
constinit std::atomic<Agent *> AgentProcess::agent{nullptr};
constinit bool AgentProcess::handlers_set = false;

// ---- fork and exit

Result<> AgentProcess::set_handlers() {
  if (std::exchange(handlers_set, true)) return {};
  if (int error = ::pthread_atfork(before_fork, after_fork, in_child); error != 0)
    return fail("cannot watch for forks: {}", std::strerror(error));
  std::atexit(at_exit);
  return {};
}

// The locks are held during the fork, so that the child finds a consistent list of participants and
// table of descriptors. It uses nothing else of its parent's agent: it has its own agent, or none.
void AgentProcess::before_fork() {
  mutex.lock();
  if (Agent *current = agent)
    for (Participant *p : current->participants_) p->before_fork();
  fork_gate().lock();
}

void AgentProcess::after_fork() {
  fork_gate().unlock();
  mutex.unlock();
}

void AgentProcess::in_child() {
  if (Agent *of_parent = agent.exchange(nullptr))
    for (Participant *p : of_parent->participants_) p->forked();
  close_own_fds_in_child();
  after_fork();
}

// Only this process can load what it has exported, and others may come back to that memory. A
// signal handler that calls exit() may have interrupted the holder of the lock.
void AgentProcess::wait_for_others_contents(Agent &current) {
  constexpr timespec kPause{0, 10'000'000};
  auto is_needed = [](Participant *p) { return p->others_need(); };
  while (current.lifecycle.state() != protocol::State::Running) {
    std::unique_lock lock(mutex, std::try_to_lock);
    if (lock && std::ranges::none_of(current.participants_, is_needed)) return;
    lock = {};
    ::nanosleep(&kPause, nullptr);
  }
}

// The agent's thread runs until the process ends, so only the file of its socket is removed. If a
// signal handler that interrupted the holder of the lock calls exit(), the session keeper removes
// it. So it does after a checkpoint or a suspend that began before exit(): a library's own handler
// may call a device and then waits for the resume, which a tool requests by this socket.
void AgentProcess::at_exit() {
  Agent *current = agent.load();
  if (current) wait_for_others_contents(*current);
  if (!current || current->busy_ || current->lifecycle.state() != protocol::State::Running) return;
  if (current->source_) current->source_->exiting();
  std::unique_lock lock(mutex, std::try_to_lock);
  if (lock && !current->listener_.path().empty()) ::unlink(current->listener_.path().c_str());
}

// ---- start

Agent *Agent::running() { return AgentProcess::agent.load(std::memory_order_acquire); }

Result<Agent *> Agent::get() {
  if (Agent *agent = running()) return agent;
  if (session_socket().empty())
    return fail_with_hint("this program has no session", "start it with ckpt-run");
  wait_until_no_dump();
  std::scoped_lock lock(AgentProcess::mutex);
  if (Agent *agent = running()) return agent;
  CKPT_CHECK(AgentProcess::set_handlers());
  Agent *agent = new Agent;
  if (Result<> started = agent->start(); !started) {
    delete agent;
    return Failure(std::move(started).error());
  }
  AgentProcess::agent.store(agent, std::memory_order_release);
  return agent;
}

Agent::Agent()
    : lifecycle([this] { return participants(); }), source_(make_event_source(lifecycle)) {}

// The thread blocks all signals, which belong to the application.
Result<> Agent::start() {
  CKPT_CHECK(listener_.open(session_folder()));
  sigset_t all, old;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &old);
  int error = ::pthread_create(&thread_, nullptr, thread, this);
  ::pthread_sigmask(SIG_SETMASK, &old, nullptr);
  if (error == 0) return {};
  listener_.close();
  return fail("cannot start the agent's thread: {}", std::strerror(error));
}

void *Agent::thread(void *self) {
  ::pthread_setname_np(::pthread_self(), protocol::kAgentThread);
  // get() holds the lock until the agent is complete.
  { std::scoped_lock lock(AgentProcess::mutex); }
  static_cast<Agent *>(self)->run();
  return nullptr;
}

Result<> Agent::add(Participant *participant, const std::function<bool()> &start) {
  if (on_its_thread() && lifecycle.state() != protocol::State::Running)
    return fail("an API cannot be added by a callback in the middle of a checkpoint");
  CheckpointBarrier::Pass pass(lifecycle.barrier);
  if (!start()) return {};
  std::scoped_lock lock(AgentProcess::mutex);
  participants_.push_back(participant);
  return {};
}

Result<Channel> Agent::connect_to_self() {
  std::string path;
  {
    std::scoped_lock lock(AgentProcess::mutex);
    path = listener_.path();
  }
  CKPT_TRY(OwnFd socket, OwnFd::make([&] { return connect_unix(path); }));
  Channel self(std::move(socket));
  CKPT_CHECK(self.send(Type::Hello, Writer().put(protocol::kVersion).str("the program itself")));
  CKPT_TRY(Incoming welcome, self.answer());
  return self;
}

std::vector<Participant *> Agent::participants() {
  std::scoped_lock lock(AgentProcess::mutex);
  return participants_;
}

// ---- the thread

void Agent::run() {
  for (;;)
    if (wait_for_tool()) serve_next_tool();
}

// False: the event source had its turn instead.
bool Agent::wait_for_tool() {
  pollfd fds[] = {{listener_.fd(), POLLIN, 0},
                  {source_ ? source_->fd() : -1, POLLIN, 0},
                  {keeper_.fd(), POLLIN, 0}};
  int n = ::poll(fds, 3, source_ ? source_->timeout() : -1);
  if (n < 0 && errno == EINTR) return false;
  if (n > 0 && fds[0].revents != 0) return true;
  if (n < 0 || listener_.fd() < 0) return true;
  if (fds[2].revents != 0) {
    keeper_.hang_up();
    if (lifecycle.state() == protocol::State::Suspended) lifecycle.wake_without_keeper();
  }
  if (source_) source_->dispatch(fds[1].revents != 0);
  return false;
}

void Agent::serve_next_tool() {
  Result<Channel> tool = listener_.accept();
  if (tool) {
    busy_ = true;
    serve(std::move(*tool));
    busy_ = false;
    return;
  }
  log::warn("a tool cannot connect to this program: {}", tool.error().what);
  timespec second{1, 0};
  ::nanosleep(&second, nullptr);
  if (listener_.fd() < 0) listen();
}

void Agent::serve(Channel tool) {
  bool paused = false;
  converse(std::move(tool), [&] {
    paused = true;
    if (source_) source_->pause();
  });
  if (paused && source_) source_->resume();
}

void Agent::converse(Channel tool, std::function<void()> before_changes) {
  bool was_suspended = lifecycle.state() == protocol::State::Suspended;
  Dialogue dialogue(lifecycle, tool, {listener_.fd()}, std::move(before_changes));
  // If there is no memory for a request, the application continues as if the tool had hung up.
  Result<Dialogue::End> end = guarded([&]() -> Result<Dialogue::End> { return dialogue.run(); });
  if (end && *end == Dialogue::End::Detached) {
    stop_listening();
    tool.hang_up();
    return after_detach(dialogue.take_outcome_pipe());
  }
  bool finished = lifecycle.state() == protocol::State::Running ||
                  lifecycle.state() == protocol::State::Suspended;
  const char *hung_up = "the tool hung up before the image was complete";
  if (!finished) lifecycle.undo(end ? Error{hung_up, {}} : end.error());
  lifecycle.undo_lock();
  if (lifecycle.state() != protocol::State::Suspended)
    keeper_.hang_up();
  else if (!was_suspended)
    watch_keeper();
}

// After a tool's suspend, since only a tool can resume the program then. What the Manager has
// evicted, it resumes.
void Agent::watch_keeper() {
  Result<Channel> keeper = connect_to_session();
  // The keeper does not keep the connection of a peer that says nothing.
  if (keeper && keeper->send(Type::StaysSuspended, Writer().put(protocol::kVersion)))
    keeper_ = std::move(*keeper);
  else
    lifecycle.wake_without_keeper();
}

// CRIU dumps this process while this thread waits in read_outcome().
void Agent::after_detach(OwnFd outcome_pipe) {
  PipeIdentity original(outcome_pipe);
  CheckpointOutcome read = read_outcome(outcome_pipe);
  bool copy = !original.is_still(outcome_pipe);
  outcome_pipe.close();
  if (read.outcome == protocol::Outcome::Restored) return arrive(read);
  if (copy)
    lose_as_copy({read.text, "restore the image again"});
  else
    lifecycle.reattach(read.outcome == protocol::Outcome::Continue);
  listen();
  if (read.continues())
    lifecycle.finish({CKPT_CONTINUED, {}});
  else
    lifecycle.finish({CKPT_ERR_FAILED, {read.text, {}}});
}

// This process is a copy, and its restore failed. The devices and the proxy that it remembers
// belong to the original, which may be running.
void Agent::lose_as_copy(const Error &why) {
  log::error("this restored program has lost its devices: {}", why.what);
  lifecycle.lose_devices(why);
}

// This process is a restored copy. The keeper of its new session tells it which devices to use. If
// that conversation fails, the host side continues and every device call returns an error.
void Agent::arrive(const CheckpointOutcome &outcome) {
  move_to_session(outcome.text);
  Result<Channel> keeper = connect_to_session();
  Result<> restored = keeper ? restore(*keeper, outcome) : Failure(keeper.error());
  Verdict verdict{CKPT_RESTORED, {}};
  if (!restored) {
    log::error("this restored program has lost its devices: {}", restored.error().what);
    lifecycle.lose_devices(restored.error());
    verdict = {CKPT_ERR_LOST, {restored.error().what, "restore the image again"}};
  }
  listen();
  if (keeper) (void)keeper->send(Type::Ok);  // the answer to Resume; after a hang-up it is lost
  if (keeper) keeper->hang_up();
  lifecycle.finish(std::move(verdict));
}

Result<> Agent::restore(Channel &keeper, const CheckpointOutcome &outcome) {
  Writer restored;
  restored.put(protocol::kVersion).put(outcome.agent);
  bool resumed = keeper.send(Type::Restored, restored) &&
                 Dialogue(lifecycle, keeper, {}).run() == Dialogue::End::Resumed;
  if (!resumed) return fail("the tool hung up before the restore was complete");
  return {};
}

void Agent::listen() {
  std::string folder = session_folder();
  std::scoped_lock lock(AgentProcess::mutex);
  if (Result<> r = listener_.open(folder); !r)
    log::error(std::move(r.error()).in("this program can no longer be checkpointed"));
}

void Agent::stop_listening() {
  std::scoped_lock lock(AgentProcess::mutex);
  listener_.close();
}

// ---- what participants call

Result<> start_participant(Participant *participant, const std::function<bool()> &start) {
  CKPT_TRY(Agent * agent, Agent::get());
  return agent->add(participant, start);
}

Result<> add_participant(Participant *participant) {
  return start_participant(participant, [] { return true; });
}

}  // namespace ckpt::agent
