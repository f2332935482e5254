// SPDX-License-Identifier: Apache-2.0
#include "remote/transport/munge.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <memory>

#include "common/base/timed_call.h"

namespace ckpt::remote {
namespace {

// libmunge's interface (munge(3), munge_ctx(3)).
constexpr int kOptSocket = 8, kOptUidRestriction = 9;
enum Status {
  kSuccess = 0,
  kSocket = 6,
  kBadVersion = 9,
  kBadRealm = 13,
  kInvalid = 14,
  kExpired = 15,
  kRewound = 16,
  kReplayed = 17,
  kUnauthorized = 18,
};

struct Library {
  void *(*create)() = nullptr;
  void (*destroy)(void *) = nullptr;
  int (*set)(void *, int, ...) = nullptr;
  int (*get)(void *, int, ...) = nullptr;
  const char *(*context_error)(void *) = nullptr;
  const char *(*status_text)(int) = nullptr;
  int (*encode)(char **, void *, const void *, int) = nullptr;
  int (*decode)(const char *, void *, void **, int *, uid_t *, gid_t *) = nullptr;
  bool complete = false;
};

template <class Function>
bool find(void *library, const char *name, Function &function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

// Never unloaded: a call that is late may still be in it.
const Library &library() {
  static const Library loaded = [] {
    Library l;
    void *so = ::dlopen("libmunge.so.2", RTLD_NOW | RTLD_LOCAL);
    l.complete = so && find(so, "munge_ctx_create", l.create) &&
                 find(so, "munge_ctx_destroy", l.destroy) && find(so, "munge_ctx_set", l.set) &&
                 find(so, "munge_ctx_get", l.get) &&
                 find(so, "munge_ctx_strerror", l.context_error) &&
                 find(so, "munge_strerror", l.status_text) && find(so, "munge_encode", l.encode) &&
                 find(so, "munge_decode", l.decode);
    return l;
  }();
  return loaded;
}

struct FreeMungeContext {
  void operator()(void *context) const { library().destroy(context); }
};
using MungeContext = std::unique_ptr<void, FreeMungeContext>;

struct FreeMemory {
  void operator()(void *p) const { ::free(p); }
};
template <class T>
using Allocated = std::unique_ptr<T, FreeMemory>;

// Messages reach the other node, so they name the node on which munge has failed.
std::string this_node() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "this node";
}

std::string hint_for(int status, const std::string &node) {
  if (status >= kBadVersion && status <= kBadRealm)
    return "the munge of the two nodes differ in version or settings";
  switch (status) {
    case kSocket:
      return "start or restart munged on " + node +
             "; CKPT_MUNGE_SOCKET or --munge-socket names its socket";
    case kInvalid:
      return "the two nodes have different munge keys: give them the same /etc/munge/munge.key and "
             "restart munged, or use certificates";
    case kExpired:
    case kRewound:
      return "compare the clocks of the two nodes: a credential is valid for some minutes "
             "(munged --max-ttl)";
    case kReplayed:
      return "a credential counts once, and this one was used before; if it happens again, "
             "something on the way repeats messages";
    case kUnauthorized:
      return "the credential is for another user than the one that has received it";
    default: return "the log of munged on " + node + " may say why";
  }
}

Result<MungeContext> new_context(const std::string &socket) {
  MungeContext context(library().create());
  if (!context || library().set(context.get(), kOptSocket, socket.c_str()) != kSuccess)
    return fail("munge on {} has no memory", this_node());
  return context;
}

Failure failed(int status, const char *step, void *context) {
  const char *detail = library().context_error(context);
  return Failure(
      munge_error(status, step, detail ? detail : library().status_text(status), this_node()));
}

Result<std::string> encode_now(const std::string &socket, const Bytes &payload, uid_t reader) {
  CKPT_TRY(MungeContext context, new_context(socket));
  library().set(context.get(), kOptUidRestriction, reader);
  char *text = nullptr;
  int status =
      library().encode(&text, context.get(), payload.data(), static_cast<int>(payload.size()));
  Allocated<char> credential(text);
  if (status != kSuccess) return failed(status, "makes no credential", context.get());
  return std::string(text);
}

Result<CredentialService::Content> decode_now(const std::string &socket, const std::string &text) {
  CKPT_TRY(MungeContext context, new_context(socket));
  void *data = nullptr;
  int size = 0;
  CredentialService::Content content;
  gid_t gid = 0;
  int status = library().decode(text.c_str(), context.get(), &data, &size, &content.uid, &gid);
  Allocated<void> payload(data);
  if (status != kSuccess) return failed(status, "does not accept the credential", context.get());
  ByteView bytes = view(data, static_cast<size_t>(size));
  content.payload.assign(bytes.begin(), bytes.end());
  return content;
}

// libmunge waits 2 s for each message of munged and tries five times, so one call may take 20 s.
// The call owns what it uses, since it goes on if it is late.
template <class T>
Result<T> in_time(std::function<Result<T>()> call, CredentialService::Deadline deadline) {
  CKPT_TRY(TimedCall<Result<T>> made, TimedCall<Result<T>>::begin(std::move(call)));
  if (Result<T> *result = made.wait_until(deadline)) return std::move(*result);
  std::string node = this_node();
  return fail_with_hint(fmt::format("munged on {} does not answer", node),
                        fmt::format("restart munged on {}; its log may say why", node));
}

}  // namespace

Error munge_error(int status, const std::string &step, const std::string &detail,
                  const std::string &node) {
  return {fmt::format("munge on {} {}: {}", node, step, detail), hint_for(status, node)};
}

Result<Munge> Munge::load(const std::string &socket) {
  if (!library().complete)
    return fail_with_hint(
        fmt::format("{} has no munge: libmunge.so.2 cannot be loaded", this_node()),
        "install munge (Debian: munge, which brings libmunge2), or use certificates");
  if (!socket.empty()) return Munge(socket);
  MungeContext context(library().create());
  const char *usual = nullptr;
  if (!context || library().get(context.get(), kOptSocket, &usual) != kSuccess || !usual)
    return fail("libmunge names no socket of munged");
  return Munge(usual);
}

Result<std::string> Munge::encode(ByteView payload, uid_t reader, Deadline deadline) const {
  return in_time<std::string>([socket = socket_, own = Bytes(payload.begin(), payload.end()),
                               reader] { return encode_now(socket, own, reader); },
                              deadline);
}

Result<CredentialService::Content> Munge::decode(const std::string &credential,
                                                 Deadline deadline) const {
  return in_time<Content>([socket = socket_, credential] { return decode_now(socket, credential); },
                          deadline);
}

}  // namespace ckpt::remote
