// SPDX-License-Identifier: Apache-2.0
#include "agent/runtime/agent.h"

#include <poll.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <cstdlib>

#include "agent/ipc/session.h"
#include "agent/runtime/dialogue.h"
#include "common/base/log.h"
#include "common/ipc/unix_socket.h"

namespace ckpt::agent {

using protocol::Type;

// What a fork and the end of the process have to know: which agent there is.
struct AgentProcess {
  static constinit std::mutex mutex;  // also guards the agent's participants_ and listener_'s path
  static constinit std::atomic<Agent *> agent;
  static constinit bool handlers_set;

  static Result<> set_handlers();
  static void before_fork();
  static void after_fork();
  static void in_child();
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

// Held over the fork, so that the child finds the list of participants and the table of descriptors
// whole. Everything else of the agent is left behind: the child has an agent of its own, or none.
void AgentProcess::before_fork() {
  mutex.lock();
  fork_gate().lock();
}

void AgentProcess::after_fork() {
  fork_gate().unlock();
  mutex.unlock();
}

void AgentProcess::in_child() {
  if (Agent *parents = agent.exchange(nullptr))
    for (Participant *p : parents->participants_) p->forked();
  close_own_fds_in_child();
  after_fork();
}

// The agent's thread lives on until the process is gone; only the file is tidied away. Whoever
// calls exit() may be interrupting the holder of the lock: then the session keeper tidies up.
void AgentProcess::at_exit() {
  Agent *parting = agent.load();
  if (parting) parting->manager.fin();
  std::unique_lock lock(mutex, std::try_to_lock);
  if (lock && parting && !parting->listener_.path().empty())
    ::unlink(parting->listener_.path().c_str());
}

// ---- start

Agent *Agent::running() { return AgentProcess::agent.load(std::memory_order_acquire); }

Result<Agent *> Agent::get() {
  if (Agent *agent = running()) return agent;
  if (session_socket().empty())
    return fail_with_hint("this program has no session", "start it with ckpt-run");
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

// All signals are the application's.
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
  // Whoever started us holds the lock until the agent is complete.
  { std::scoped_lock lock(AgentProcess::mutex); }
  static_cast<Agent *>(self)->run();
  return nullptr;
}

Result<> Agent::add(Participant *participant) {
  if (on_its_thread() && life.state() != protocol::State::Running)
    return fail("an API was first used in the middle of a checkpoint");
  BarrierPass visit(life.barrier);
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
  for (;;) {
    if (!wait_for_tool()) continue;
    Result<Channel> tool = listener_.accept();
    if (tool) {
      manager.pause();
      serve(std::move(*tool));
      manager.go_on();
      continue;
    }
    log::warn("a tool was turned away: {}", tool.error().what);
    timespec second{1, 0};
    ::nanosleep(&second, nullptr);
    if (listener_.fd() < 0) listen();
  }
}

// False: it was the Manager's turn.
bool Agent::wait_for_tool() {
  pollfd fds[] = {{listener_.fd(), POLLIN, 0}, {manager.fd(), POLLIN, 0}};
  int n = ::poll(fds, 2, manager.timeout());
  if (n < 0 && errno == EINTR) return false;
  if (n > 0 && fds[0].revents != 0) return true;
  if (n < 0 || listener_.fd() < 0) return true;
  manager.turn(fds[1].revents != 0);
  return false;
}

void Agent::serve(Channel tool) {
  Dialogue dialogue(life, tool, {listener_.fd()});
  if (dialogue.run() == Dialogue::End::Detached) {
    stop_listening();
    tool.hang_up();
    return after_detach(dialogue.take_word_pipe());
  }
  bool stays =
      life.state() == protocol::State::Running || life.state() == protocol::State::Suspended;
  if (!stays) life.undo({"the tool hung up before the image was complete", {}});
}

// CRIU looks at this process while it waits here.
void Agent::after_detach(OwnFd outcome_pipe) {
  CheckpointOutcome heard = read_outcome(outcome_pipe);
  outcome_pipe.close();
  if (heard.word == protocol::Outcome::Restored) return arrive(heard);
  life.go_on();
  listen();
  if (heard.word == protocol::Outcome::Continue)
    life.finish({CKPT_CONTINUED, {}});
  else
    life.finish({CKPT_ERR_FAILED, {heard.text, {}}});
}

// A copy comes to life: its new session keeper tells it which devices to use. Without an end to
// that conversation the program cannot go on faithfully: the host part runs, device calls report
// errors.
void Agent::arrive(const CheckpointOutcome &heard) {
  move_to_session(heard.text);
  Result<Channel> keeper = connect_to_session();
  Verdict verdict{CKPT_RESTORED, {}};
  if (!keeper || !restore(*keeper, heard)) {
    std::string why = keeper ? "the tool hung up before the restore was complete"
                             : std::move(keeper.error().what);
    log::error("this restored program has lost its devices: {}", why);
    life.lose();
    verdict = {CKPT_ERR_LOST, {std::move(why), "restore the image once more"}};
  }
  listen();
  if (keeper) (void)keeper->send(Type::Ok);  // answers Resume; otherwise nobody listens
  if (keeper) keeper->hang_up();
  life.finish(std::move(verdict));
}

bool Agent::restore(Channel &keeper, const CheckpointOutcome &heard) {
  Writer restored;
  restored.put(protocol::kVersion).put(heard.agent);
  if (!keeper.send(Type::Restored, restored)) return false;
  return Dialogue(life, keeper, {}).run() == Dialogue::End::Resumed;
}

void Agent::listen() {
  std::string folder = session_folder();
  std::scoped_lock lock(AgentProcess::mutex);
  if (Result<> r = listener_.open(folder); !r)
    log::error(std::move(r.error()).in("this program cannot be checkpointed from now on"));
}

void Agent::stop_listening() {
  std::scoped_lock lock(AgentProcess::mutex);
  listener_.close();
}

// ---- what participants call

Result<> add_participant(Participant *participant) {
  CKPT_TRY(Agent * agent, Agent::get());
  return agent->add(participant);
}

}  // namespace ckpt::agent
