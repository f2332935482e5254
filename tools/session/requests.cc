// SPDX-License-Identifier: Apache-2.0
//
// What a session keeper does for those who connect to its socket.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include <nlohmann/json.hpp>

#include "common/base/log.h"
#include "tools/device/apis.h"
#include "tools/proc/command.h"
#include "tools/proc/sockets.h"
#include "tools/session/keeper.h"
#include "tools/session/tree.h"

namespace ckpt::tools {
namespace {

using protocol::Type;
using namespace std::chrono_literals;

constexpr auto kClientPatience = 5s;  // for the rest of a frame; a half one must not stop the loop
constexpr size_t kMaxRequestBytes = 64u << 10;

Result<> reply(int fd, const Result<> &result) {
  if (result) return send_message(fd, static_cast<u16>(Type::Ok));
  Writer w;
  w.str(result.error().what).str(result.error().hint);
  return send_message(fd, static_cast<u16>(Type::Failed), w.bytes());
}

nlohmann::json read_report(int fd) {
  std::string text(64 << 10, '\0');
  ssize_t n = ::pread(fd, text.data(), text.size(), 0);
  text.resize(n > 0 ? static_cast<size_t>(n) : 0);
  return nlohmann::json::parse(text, nullptr, false);
}

Error error_of_report(const nlohmann::json &j) {
  Error e{"ckpt-dump failed", ""};
  if (j.is_object() && j.contains("error") && j["error"].is_object())
    e = {j["error"].value("what", e.what), j["error"].value("hint", "")};
  return e;
}

// The agent listens again a moment after its program was woken.
void tell_agent(pid_t program, const Error &error) {
  Writer w;
  w.str(error.what).str(error.hint);
  for (auto end = std::chrono::steady_clock::now() + 20s; std::chrono::steady_clock::now() < end;) {
    for (const std::string &path :
         listening_sockets(program, std::string(protocol::kAgentSocketPrefix)))
      if (Result<UniqueFd> fd = connect_unix(path);
          fd && send_message(fd->get(), static_cast<u16>(Type::CheckpointFailed), w.bytes())) {
        (void)set_receive_timeout(fd->get(), kClientPatience);
        (void)receive_message(fd->get());
        return;
      }
    std::this_thread::sleep_for(50ms);
  }
}

}  // namespace

void Keeper::accept_client() {
  Result<UniqueFd> fd = accept_unix(listener_.get());
  if (!fd) return log::warn("session: {}", fd.error().what);
  (void)set_receive_timeout(fd->get(), kClientPatience);
  Result<ucred> credentials = peer_credentials(fd->get());
  pid_t peer = credentials ? credentials->pid : 0;
  clients_.push_back({std::move(*fd), peer});
}

bool Keeper::serve(Client &client) {
  Result<std::optional<Message>> m = receive_message(client.fd.get(), kMaxRequestBytes);
  if (m && *m) return answer(client, **m);
  if (!m) log::debug("session: {}", m.error().what);
  if (client.dumping) dump_hung_up();
  return false;
}

bool Keeper::answer(Client &client, Message &message) {
  Reader in = message.reader();
  Result<> result;
  bool keep = true;
  switch (static_cast<Type>(message.type)) {
    case Type::ProxyWanted:
    case Type::ProxyFor: {
      result = proxy_wanted(client, message);
      if (result) return false;  // the proxy has the connection now, and speaks first
      break;
    }
    case Type::ProxyAgain: {
      in.get<u32>();
      u64 token = in.get<u64>();
      result = in.ok() ? proxies_.adopt(token, client.fd.get()) : fail("malformed request");
      if (result) return false;
      break;
    }
    case Type::DumpBegin:
      if (!client.dumping) dumps_open_++;
      client.dumping = true;
      break;
    case Type::DumpDone:
      dumped_image_ = std::string(in.str());
      for (const Process &p : ProcessTable::read().tree(program_)) dying_.push_back(p.pid);
      break;
    case Type::ContentsKept: result = contents_kept(message); break;
    case Type::ContentsWanted:
      result = contents_wanted(client, message);
      if (result) return true;  // answered, with the file
      break;
    case Type::ProxyDrop: {
      in.get<u32>();
      u64 token = in.get<u64>();
      result = in.ok() ? proxies_.drop(token) : fail("malformed request");
      break;
    }
    case Type::DevicesChosen: result = devices_chosen(message); break;
    case Type::CheckpointWanted: result = checkpoint_wanted(client, message); break;
    case Type::Restored: {
      in.get<u32>();
      u32 agent = in.get<u32>();
      if (restored_ && in.ok()) {
        (void)set_receive_timeout(client.fd.get(), 0ms);
        restored_(std::move(client.fd), agent);
        return false;
      }
      result = fail("no restore is under way in this session");
      break;
    }
    default:
      result = fail("this ckpt (protocol {}) does not know request {}", protocol::kVersion,
                    message.type);
      keep = false;
  }
  return reply(client.fd.get(), result).has_value() && keep;
}

Result<> Keeper::proxy_wanted(Client &client, Message &message) {
  Reader in = message.reader();
  in.get<u32>();
  std::string api(in.str());
  std::optional<std::string> device;
  if (static_cast<Type>(message.type) == Type::ProxyFor) device = in.str();
  if (!in.ok() || message.fds.size() != 2) return fail("malformed request for a proxy");
  (void)set_receive_timeout(client.fd.get(), 0ms);
  return proxies_.start(api, client.fd.get(), message.fds[0].get(), message.fds[1].get(), device);
}

Result<> Keeper::contents_kept(Message &message) {
  Reader in = message.reader();
  in.get<u32>();
  u64 token = in.get<u64>();
  if (!in.ok() || message.fds.empty() || contents_.contains(token))
    return fail("malformed request");
  contents_[token] = std::move(message.fds);
  return {};
}

Result<> Keeper::contents_wanted(Client &client, Message &message) {
  Reader in = message.reader();
  in.get<u32>();
  auto found = contents_.find(in.get<u64>());
  if (!in.ok() || found == contents_.end()) return fail("there is no such device memory here");
  std::vector<int> files;
  for (const UniqueFd &file : found->second) files.push_back(file.get());
  CKPT_CHECK(send_message(client.fd.get(), static_cast<u16>(Type::Ok), {}, files));
  contents_.erase(found);
  return {};
}

Result<> Keeper::devices_chosen(Message &message) {
  Reader in = message.reader();
  in.get<u32>();
  DeviceChoice choice;
  for (u32 n = in.get<u32>(); n > 0 && in.ok(); n--) {
    std::vector<std::string> &ids = choice[std::string(in.str())];
    for (u32 k = in.get<u32>(); k > 0 && in.ok(); k--) ids.emplace_back(in.str());
  }
  if (!in.done()) return fail("malformed request");
  proxies_.choose(std::move(choice));
  return {};
}

// The tool that was dumping is gone, and so is its CRIU. Whatever it left stopped runs on; but if
// it had said that the image is complete, what it did not come to kill is killed here, since a
// program must not run on beside its image without being asked to.
void Keeper::dump_hung_up() {
  dumps_open_--;
  if (!program_ || ended_) return;
  if (dumped_image_)
    kill_tree(program_);
  else
    continue_tree(program_);
}

Result<> Keeper::checkpoint_wanted(Client &client, Message &message) {
  Reader in = message.reader();
  in.get<u32>();
  std::string image(in.str());
  u32 flags = in.get<u32>();
  if (!in.ok()) return fail("malformed request for a checkpoint");
  if (program_ == 0) return fail("the program is still being restored");
  std::vector<std::string> arguments{"--word-when-durable"};
  if (!image.empty()) arguments.insert(arguments.end(), {"-o", image});
  if (!(flags & protocol::kStopAfter)) arguments.push_back("--leave-running");
  if (flags & protocol::kOverwrite) arguments.push_back("--overwrite");
  pid_t asked = client.peer;
  return start_dump(arguments, working_folder_of(asked),
                    [asked](int wait_status, const nlohmann::json &report) {
                      if (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0) return;
                      std::thread(tell_agent, asked, error_of_report(report)).detach();
                    });
}

Result<> Keeper::start_dump(const std::vector<std::string> &arguments, const std::string &folder,
                            DumpEnded ended) {
  UniqueFd report(::memfd_create("ckpt-dump-report", MFD_CLOEXEC));
  UniqueFd nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
  Spawn spec{.argv = {sibling_tool("ckpt-dump"), std::to_string(program_), "--json"},
             .in = nothing.get(),
             .out = report.get(),
             .err = nothing.get(),
             .folder = folder,
             .own_group = true};
  spec.argv.insert(spec.argv.end(), arguments.begin(), arguments.end());
  CKPT_TRY(pid_t dump, spawn(spec));
  dump_requests_.push_back({dump, std::move(report), std::move(ended)});
  return {};
}

void Keeper::dump_over(pid_t pid, int wait_status) {
  for (auto it = dump_requests_.begin(); it != dump_requests_.end(); ++it) {
    if (it->dump != pid) continue;
    DumpRequest over = std::move(*it);
    dump_requests_.erase(it);
    return over.ended(wait_status, read_report(over.report.get()));
  }
}

}  // namespace ckpt::tools
