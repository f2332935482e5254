// SPDX-License-Identifier: Apache-2.0
#include "helper/protocol.h"

namespace ckpt::helper {
namespace {

constexpr size_t kMaxRequestBytes = 4096;  // of one frame
constexpr size_t kMaxPathBytes = 1024;
constexpr size_t kMaxInherited = 1024;

Failure malformed() { return fail("the request is malformed"); }

Result<bool> add_inherited(Request &request, Message frame) {
  Reader in = frame.reader();
  if (frame.fds.empty() || request.inherited.size() + frame.fds.size() > kMaxInherited)
    return malformed();
  for (UniqueFd &fd : frame.fds) request.inherited.push_back({std::move(fd), in.get<u64>()});
  return in.done() ? Result<bool>(false) : malformed();
}

bool is_path(const std::string &path) {
  return path.empty() || (path.size() <= kMaxPathBytes && path.front() == '/' &&
                          path.find('\0') == std::string::npos);
}

Result<bool> finish_dump(Request &request, Message frame) {
  Reader in = frame.reader();
  request.root = in.get<i32>();
  request.flags = in.get<u8>();
  if (!in.done() || request.root <= 1 || request.flags > kErrorsOnly || frame.fds.size() != 1)
    return malformed();
  request.log = std::move(frame.fds[0]);
  return true;
}

Result<bool> finish_restore(Request &request, Message frame) {
  constexpr u8 kAllFlags = kErrorsOnly | kTerminal | kOwnTerminals | kLazy;
  Reader in = frame.reader();
  request.root = in.get<i32>();
  request.last_pid = in.get<i32>();
  request.flags = in.get<u8>();
  request.seen_from = in.str();
  request.seen_as = in.str();
  size_t fds = request.flags & kTerminal ? 2 : 1;
  if (!in.done() || request.root <= 1 || request.last_pid < 0 || request.flags > kAllFlags ||
      !is_path(request.seen_from) || !is_path(request.seen_as) || frame.fds.size() != fds)
    return malformed();
  request.log = std::move(frame.fds[0]);
  if (fds == 2) request.terminal = std::move(frame.fds[1]);
  return true;
}

}  // namespace

Result<bool> add_frame(Request &request, Message frame) {
  request.type = static_cast<Type>(frame.type);
  switch (request.type) {
    case Type::Inherit: return add_inherited(request, std::move(frame));
    case Type::Dump: return finish_dump(request, std::move(frame));
    case Type::Restore: return finish_restore(request, std::move(frame));
    case Type::Lazy:
      return frame.body.empty() && frame.fds.empty() ? Result<bool>(true) : malformed();
    default: return fail("this version of ckpt-helper does not know request {}", frame.type);
  }
}

Result<Request> receive_request(int connection) {
  Request request;
  for (bool complete = false; !complete;) {
    CKPT_TRY(std::optional<Message> frame, receive_message(connection, kMaxRequestBytes));
    if (!frame) return fail("the caller has hung up");
    CKPT_TRY(complete, add_frame(request, std::move(*frame)));
  }
  return request;
}

Result<> send_request(int connection, const Request &request) {
  for (size_t at = 0; at < request.inherited.size();) {
    Writer w;
    std::vector<int> fds;
    for (; fds.size() < kMaxMessageFds && at < request.inherited.size(); at++) {
      w.put<u64>(request.inherited[at].inode);
      fds.push_back(request.inherited[at].fd.get());
    }
    CKPT_CHECK(send_message(connection, static_cast<u16>(Type::Inherit), w.bytes(), fds));
  }
  Writer w;
  w.put<i32>(request.root);
  if (request.type == Type::Restore) w.put<i32>(request.last_pid);
  w.put<u8>(request.flags);
  if (request.type == Type::Restore) w.str(request.seen_from).str(request.seen_as);
  std::vector<int> fds{request.log.get()};
  if (request.flags & kTerminal) fds.push_back(request.terminal.get());
  return send_message(connection, static_cast<u16>(request.type), w.bytes(), fds);
}

void refuse(int connection, const Error &why) {
  Writer w;
  w.str(why.what).str(why.hint);
  (void)send_message(connection, static_cast<u16>(Type::Refused), w.bytes());
}

}  // namespace ckpt::helper
