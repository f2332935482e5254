// SPDX-License-Identifier: Apache-2.0
#include "tools/criu/criu_by_helper.h"

#include <fcntl.h>
#include <pwd.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "common/ipc/unix_socket.h"
#include "tools/proc/command.h"

namespace ckpt::tools {
namespace {

// Not ckpt-helper's, which lets users dump the programs of the namespaces that are marked in its
// own.
constexpr const char *kRootsFolder = "/run/ckpt-root";

u64 capabilities_for(const CriuRights &rights) {
  u64 capabilities = helper::criu_capabilities();
  if (rights.connections) capabilities |= bit_of(CAP_NET_ADMIN);
  return capabilities;
}

Result<UniqueFd> start_own_helper(const CriuRights &rights, const Criu &criu) {
  CKPT_TRY(auto ends, socket_pair());
  UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  CKPT_TRY(pid_t ignored,
           spawn({.argv = {"/proc/self/exe", "--helper", std::to_string(ends.second.get()),
                           helper::to_text(rights.user),
                           fmt::format("{:x}", capabilities_for(rights)), criu.path, kRootsFolder},
                  .in = null.get(),
                  .out = null.get(),
                  .err = null.get(),
                  .keep = {ends.second.get()},
                  .own_group = true}));
  (void)ignored;
  return std::move(ends.first);
}

// A refusal is an error.
Result<Message> answer_of(helper::Type type, Result<std::optional<Message>> received) {
  CKPT_TRY(std::optional<Message> m, std::move(received));
  if (!m) return fail("ckpt-helper has ended without an answer");
  Reader in = m->reader();
  if (static_cast<helper::Type>(m->type) == helper::Type::Refused) {
    std::string what(in.str());
    return fail_with_hint("ckpt-helper: " + what, std::string(in.str()));
  }
  if (static_cast<helper::Type>(m->type) != type)
    return fail("this version of ckpt does not understand ckpt-helper's answer");
  return std::move(*m);
}

}  // namespace

Result<UniqueFd> connect_helper(const CriuRights &rights, const Criu &criu) {
  if (rights.way == CriuRights::Way::ForUser) return start_own_helper(rights, criu);
  return connect_unix(helper_socket());
}

bool is_helper(int argc, const char *const *argv) {
  return argc == 7 && std::string_view(argv[1]) == "--helper";
}

Result<HelperRun> request_run(int connection, const helper::Request &request) {
  Result<> sent = helper::send_request(connection, request);
  // A helper with too many requests answers before it has read this one, and closes.
  Result<std::optional<Message>> answer = receive_message(connection);
  if (!answer || !*answer) CKPT_CHECK(std::move(sent));
  CKPT_TRY(Message m, answer_of(helper::Type::Streams, std::move(answer)));
  Reader in = m.reader();
  HelperRun run{in.get<i32>(), {}};
  if (!in.done()) return fail("this version of ckpt does not understand ckpt-helper's answer");
  if (!m.fds.empty()) run.streams = std::move(m.fds[0]);
  return run;
}

Result<> ask_for_lazy() {
  CKPT_TRY(UniqueFd connection, connect_unix(helper_socket()));
  CKPT_CHECK(send_message(connection.get(), static_cast<u16>(helper::Type::Lazy)));
  return answer_of(helper::Type::Lazy, receive_message(connection.get()))
      .transform([](const Message &) {});
}

Result<UniqueFd> ask_for_userfaultfd(int connection, pid_t process) {
  constexpr helper::Type kType = helper::Type::Userfaultfd;
  Writer w;
  w.put<i32>(process);
  CKPT_CHECK(send_message(connection, static_cast<u16>(kType), w.bytes()));
  CKPT_TRY(Message m, answer_of(kType, receive_message(connection)));
  if (m.fds.size() != 1) return fail("ckpt-helper's answer has no userfaultfd");
  return std::move(m.fds[0]);
}

Result<> ask_no_more(int connection) {
  return send_message(connection, static_cast<u16>(helper::Type::Enough));
}

std::vector<helper::Inherited> copies_of(const std::vector<std::pair<int, u64>> &descriptors) {
  std::vector<helper::Inherited> copies;
  for (auto [fd, inode] : descriptors)
    copies.push_back({UniqueFd(::fcntl(fd, F_DUPFD_CLOEXEC, 3)), inode});
  return copies;
}

Result<> become_user(const helper::Identity &user) {
  if (!helper::become(user, 0)) return fail_errno("cannot become uid {}", user.uid);
  std::string runtime = fmt::format("/run/user/{}", user.uid);
  for (const char *name : {"CKPT_RUNTIME_DIR", "XDG_RUNTIME_DIR", "XDG_CACHE_HOME", "TMPDIR"})
    ::unsetenv(name);
  std::error_code ec;
  if (std::filesystem::is_directory(runtime, ec)) ::setenv("XDG_RUNTIME_DIR", runtime.c_str(), 1);
  const passwd *entry = ::getpwuid(user.uid);
  ::setenv("HOME", entry ? entry->pw_dir : "/", 1);
  if (entry) ::setenv("USER", entry->pw_name, 1);
  return {};
}

}  // namespace ckpt::tools
