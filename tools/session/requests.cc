// SPDX-License-Identifier: Apache-2.0
#include "tools/session/requests.h"

#include <sys/wait.h>

#include <chrono>
#include <thread>

#include <nlohmann/json.hpp>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/shortage.h"
#include "tools/device/apis.h"
#include "tools/proc/process_root.h"
#include "tools/proc/sockets.h"
#include "tools/session/keeper.h"

namespace ckpt::tools {
namespace {

using protocol::Type;
using namespace std::chrono_literals;

// Processes of one program, which may all come at once. A suspended process with an older agent is
// silent for as long as it stays suspended, and goes on when its connection is closed: so their
// number is bounded, and not their time.
constexpr Newcomers::Limits kNewcomers{.waiting = 256,
                                       .waiting_of_source = 256,
                                       .greeting = 64,
                                       .greeting_of_source = 64,
                                       .time = std::chrono::years(1)};

constexpr auto kReportTimeout = 5s;
constexpr size_t kMaxRequestBytes = 64u << 10;

Result<> reply(int fd, const Result<> &result) {
  if (result) return send_message_at_once(fd, static_cast<u16>(Type::Ok));
  Writer w;
  w.str(result.error().what).str(result.error().hint);
  return send_message_at_once(fd, static_cast<u16>(Type::Failed), w.bytes());
}

// The agent listens again shortly after its program was woken, so connecting is retried.
void report_failure(pid_t program, const Error &error) {
  Writer w;
  w.str(error.what).str(error.hint);
  for (auto end = Clock::now() + 20s; Clock::now() < end;) {
    for (const std::string &path :
         listening_sockets(program, std::string(protocol::kAgentSocketPrefix)))
      if (Result<UniqueFd> fd = connect_unix_of(program, path);
          fd && send_message(fd->get(), static_cast<u16>(Type::CheckpointFailed), w.bytes())) {
        (void)set_receive_timeout(fd->get(), kReportTimeout);
        (void)receive_message(fd->get());
        return;
      }
    std::this_thread::sleep_for(50ms);
  }
}

// If no thread can be started, the program is not informed, but continues.
void report_in_background(pid_t program, const Error &error) {
  auto report = [program, error] {
    Result<> done =
        guarded([&]() -> Result<> { return report_failure(program, error), Result<>(); });
    if (!done) log::warn("a failed checkpoint was not reported: {}", done.error().what);
  };
  if (Result<std::thread> thread = start_thread(report))
    thread->detach();
  else
    log::warn("a failed checkpoint was not reported: {}", thread.error().text());
}

WatchedProcesses::Watch watch_of(Keeper &keeper) {
  return [&keeper](int fd, auto f) { keeper.watch(fd, std::move(f)); };
}

}  // namespace

KeeperRequests::KeeperRequests(Keeper &keeper)
    : keeper_(keeper),
      sharers_(watch_of(keeper), [this](u64 token) { shares_.ended(token); }),
      events_(watch_of(keeper)) {}

KeeperRequests::Client::Client(UniqueFd fd, Listener::Id newcomer, pid_t peer)
    : fd(std::move(fd)), newcomer(newcomer), peer(peer), requests(kMaxRequestBytes) {}

Result<> KeeperRequests::listen(const std::string &socket_path) {
  CKPT_TRY(listener_, Listener::create("the session", kNewcomers));
  CKPT_TRY(UniqueFd socket, listen_unix(socket_path));
  return listener_->listen(std::move(socket));
}

void KeeperRequests::add_to(std::vector<pollfd> &fds) const {
  for (const Client &c : clients_) fds.push_back({c.fd.get(), POLLIN, 0});
}

// New clients are added at the end, behind those that were polled.
void KeeperRequests::serve(std::span<const pollfd> polled) {
  auto c = clients_.begin();
  for (const pollfd &p : polled) c = p.revents && !serve(*c) ? clients_.erase(c) : ++c;
}

void KeeperRequests::turn_listener() {
  Listener::Turn turn = listener_->turn(Clock::now());
  for (const Listener::Expelled &e : turn.expelled)
    std::erase_if(clients_, [&](const Client &c) { return e.handed_out && c.newcomer == e.id; });
  for (Listener::Connection &c : turn.spoke) accept(std::move(c));
}

void KeeperRequests::accept(Listener::Connection c) {
  Result<ucred> peer = peer_credentials(c.socket.get());
  Result<> allowed = check_client(c.socket.get());
  if (peer && allowed) {
    clients_.emplace_back(std::move(c.socket), c.id, peer->pid);
    return;
  }
  listener_->left(c.id);
  log::debug("refused a connection to the session's socket");
}

// However the connection of a dump ends, the dump is over: by a hang-up, by a request of which only
// a part arrives, or because the tool was killed before its answer.
bool KeeperRequests::serve(Client &client) {
  Result<bool> more = client.requests.receive(client.fd.get(), MSG_DONTWAIT);
  if (more && *more && !client.requests.ready()) return true;
  listener_->left(client.newcomer);
  if (!more) log::debug("closed a connection to the session's socket: {}", more.error().what);
  if (more && *more) {
    Message m = client.requests.take();
    if (answer(client, m)) return true;
  }
  if (client.dumping) keeper_.dump_disconnected();
  return false;
}

bool KeeperRequests::answer(Client &client, Message &message) {
  Result<Answer> answer = guarded([&] { return handle(client, message); });
  if (answer && *answer == Answer::Sent) return true;
  if (answer && *answer == Answer::Close) return false;
  Result<> outcome;
  if (!answer) outcome = Failure(answer.error());
  return reply(client.fd.get(), outcome).has_value();
}

Result<KeeperRequests::Answer> KeeperRequests::handle(Client &client, Message &message) {
  switch (static_cast<Type>(message.type)) {
    case Type::ProxyWanted:
    case Type::ProxyFor:
    case Type::ProxyIn: return start_proxy(client, message);
    case Type::ProxyAgain: return adopt_proxy(client, message);
    case Type::ProxyDrop: return drop_proxy(message);
    case Type::DumpBegin: return begin_dump(client);
    case Type::DumpDone: return image_complete(message);
    case Type::ImageWritten: return note_image(message);
    case Type::ContentsKept: return keep_contents(message);
    case Type::ContentsWanted: return return_contents(client, message);
    case Type::DevicesChosen: return choose_devices(message);
    case Type::ChosenWanted: return tell_devices(client, message);
    case Type::CheckpointWanted: return start_checkpoint(client, message);
    case Type::CheckpointFlagsWanted: return tell_checkpoint_flags(client);
    case Type::Restored: return accept_restored(client, message);
    case Type::ShareOffered:
    case Type::ShareWanted:
    case Type::ShareOwned:
    case Type::ShareLoaded:
    case Type::ShareAway:
    case Type::ShareDone: return share_memory(client, message);
    case Type::EventBoardWanted: return share_events(client, message);
    case Type::FilesWanted: keeper_.files_.write_missing(); return Answer::Ok;
    case Type::StaysSuspended: return Answer::Sent;
    default: break;
  }
  (void)reply(client.fd.get(),
              fail("this version of ckpt (protocol {}) does not support request {}",
                   protocol::kVersion, message.type));
  return client.dumping ? Answer::Sent : Answer::Close;
}

Result<KeeperRequests::Answer> KeeperRequests::adopt_proxy(Client &client, Message &message) {
  Reader in = message.reader();
  in.get<u32>();
  u64 token = in.get<u64>();
  if (!in.ok()) return fail("malformed request for a parked proxy");
  CKPT_CHECK(keeper_.proxies_.adopt(token, client.fd.get()));
  return Answer::Close;
}

Result<KeeperRequests::Answer> KeeperRequests::drop_proxy(Message &message) {
  Reader in = message.reader();
  in.get<u32>();
  u64 token = in.get<u64>();
  if (!in.ok()) return fail("malformed request to end a proxy");
  CKPT_CHECK(keeper_.proxies_.drop(token));
  return Answer::Ok;
}

Result<KeeperRequests::Answer> KeeperRequests::begin_dump(Client &client) {
  keeper_.dump_begins(!client.dumping);
  client.dumping = true;
  return Answer::Ok;
}

Result<KeeperRequests::Answer> KeeperRequests::image_complete(Message &message) {
  Reader in = message.reader();
  std::string image(in.str());
  std::optional<std::string> moved_to;
  if (in.left() > 0) moved_to = in.str();
  keeper_.image_complete(std::move(image), std::move(moved_to));
  return Answer::Ok;
}

Result<KeeperRequests::Answer> KeeperRequests::note_image(Message &message) {
  keeper_.image_written(std::string(message.reader().str()));
  return Answer::Ok;
}

Result<KeeperRequests::Answer> KeeperRequests::accept_restored(Client &client, Message &message) {
  Reader in = message.reader();
  in.get<u32>();
  u32 agent = in.get<u32>();
  if (!keeper_.hooks_.restored || !in.ok()) return fail("this session is not restoring a program");
  keeper_.hooks_.restored(std::move(client.fd), agent);
  return Answer::Close;
}

Result<KeeperRequests::Answer> KeeperRequests::start_proxy(Client &client, Message &message) {
  Reader in = message.reader();
  in.get<u32>();
  auto type = static_cast<Type>(message.type);
  std::string api(in.str());
  bool one_device = type == Type::ProxyFor || (type == Type::ProxyIn && in.get<u8>() != 0);
  std::optional<std::string> device;
  if (one_device) device = in.str();
  size_t files = message.fds.size();
  bool sound = type == Type::ProxyIn ? files == 3 || files == 4 : files == 2;
  if (!in.ok() || !sound) return fail("malformed request for a proxy");
  Proxies::Request r{api, client.fd.get(), message.fds[0].get(), message.fds[1].get(), device};
  // The proxy runs with the rights of this process, so only the same user may choose its
  // environment.
  Result<ucred> peer = peer_credentials(client.fd.get());
  bool same_user = peer && peer->uid == ::geteuid();
  if (same_user && files >= 3) r.folder = message.fds[2].get();
  if (same_user && files >= 4) r.environment = message.fds[3].get();
  CKPT_CHECK(keeper_.proxies_.start(r));
  return Answer::Close;
}

Result<KeeperRequests::Answer> KeeperRequests::keep_contents(Message &message) {
  Reader in = message.reader();
  in.get<u32>();
  u64 token = in.get<u64>();
  if (!in.ok() || message.fds.empty() || contents_.contains(token))
    return fail("malformed request to keep device contents");
  contents_[token] = std::move(message.fds);
  return Answer::Ok;
}

Result<KeeperRequests::Answer> KeeperRequests::return_contents(Client &client, Message &message) {
  Reader in = message.reader();
  in.get<u32>();
  auto found = contents_.find(in.get<u64>());
  if (!in.ok() || found == contents_.end())
    return fail("the keeper has no device contents with this token");
  std::vector<int> files;
  for (const UniqueFd &file : found->second) files.push_back(file.get());
  CKPT_CHECK(send_message_at_once(client.fd.get(), static_cast<u16>(Type::Ok), {}, files));
  contents_.erase(found);
  return Answer::Sent;
}

Result<KeeperRequests::Answer> KeeperRequests::choose_devices(Message &message) {
  Reader in = message.reader();
  in.get<u32>();
  DeviceChoice choice;
  for (u32 n = in.get<u32>(); n > 0 && in.ok(); n--) {
    std::vector<std::string> &ids = choice[std::string(in.str())];
    for (u32 k = in.get<u32>(); k > 0 && in.ok(); k--) ids.emplace_back(in.str());
  }
  if (!in.done()) return fail("malformed choice of devices");
  keeper_.proxies_.choose(std::move(choice));
  return Answer::Ok;
}

Result<KeeperRequests::Answer> KeeperRequests::tell_devices(Client &client, Message &message) {
  Reader in = message.reader();
  in.get<u32>();
  std::string api(in.str());
  if (!in.done()) return fail("malformed question for the chosen devices");
  std::vector<std::string> ids = keeper_.proxies_.chosen(api);
  Writer w;
  w.put(static_cast<u32>(ids.size()));
  for (const std::string &id : ids) w.str(id);
  CKPT_CHECK(send_message_at_once(client.fd.get(), static_cast<u16>(Type::Ok), w.bytes()));
  return Answer::Sent;
}

Result<KeeperRequests::Answer> KeeperRequests::tell_checkpoint_flags(Client &client) {
  CKPT_CHECK(send_message_at_once(client.fd.get(), static_cast<u16>(Type::Ok),
                                  Writer().put(protocol::kCheckpointFlags).bytes()));
  return Answer::Sent;
}

Result<KeeperRequests::Answer> KeeperRequests::start_checkpoint(Client &client, Message &message) {
  Reader in = message.reader();
  in.get<u32>();
  std::string image(in.str());
  u32 flags = in.get<u32>();
  if (!in.ok()) return fail("malformed request for a checkpoint");
  if (flags & ~protocol::kCheckpointFlags)
    return fail("this version of ckpt does not know the flags {:#x} of a checkpoint",
                flags & ~protocol::kCheckpointFlags);
  if (keeper_.program() == 0) return fail("the program is still being restored");
  std::vector<std::string> arguments{"--outcome-when-durable"};
  if (!image.empty()) arguments.insert(arguments.end(), {"-o", image});
  if (!(flags & protocol::kStopAfter)) arguments.push_back("--leave-running");
  if (flags & protocol::kOverwrite) arguments.push_back("--overwrite");
  if (flags & protocol::kAsTemplate) arguments.push_back("--template");
  if (flags & protocol::kWithFiles) arguments.push_back("--with-files");
  pid_t requester = client.peer;
  CKPT_CHECK(keeper_.start_dump(arguments, working_folder_of(requester),
                                [requester](int wait_status, const nlohmann::json &report) {
                                  if (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0)
                                    return;
                                  report_in_background(requester, dump_error(report));
                                }));
  return Answer::Ok;
}

}  // namespace ckpt::tools
