// SPDX-License-Identifier: Apache-2.0
#include "helper/vetting.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "common/ipc/unix_socket.h"
#include "helper/child.h"
#include "helper/core_file.h"

namespace ckpt::helper {
namespace {

constexpr size_t kMaxNameBytes = 4096;

// A message of the streamer's protocol, with its length in front.
Result<Bytes> receive_sized(int socket, size_t most) {
  u32 size = 0;
  CKPT_CHECK(read_exactly(socket, &size, sizeof size));
  if (size > most) return fail("a message of {} bytes is too long", size);
  Bytes message(sizeof size + size);
  std::memcpy(message.data(), &size, sizeof size);
  CKPT_CHECK(read_exactly(socket, message.data() + sizeof size, size));
  return message;
}

Result<Bytes> read_core(int pipe) {
  Bytes file;
  for (std::byte piece[4096];;) {
    ssize_t n = ::read(pipe, piece, sizeof piece);
    if (n < 0) return fail_errno("cannot read a core file");
    if (n == 0) return file;
    file.insert(file.end(), piece, piece + n);
    if (file.size() > kMaxCoreBytes) return fail("a core file of the image is too long");
  }
}

class Vetting {
 public:
  Vetting(int criu, int caller) : criu_(criu), caller_(caller) {}

  // Returns when one side has hung up.
  Result<> run() {
    for (;;) {
      Result<Bytes> request = receive_sized(criu_, kMaxNameBytes);
      if (!request) return {};  // CRIU has ended
      CKPT_TRY(bool exists, ask(*request));
      if (!exists) continue;
      CKPT_TRY(std::optional<UniqueFd> pipe, receive_descriptor(criu_));
      if (!pipe) return {};
      CKPT_CHECK(names(*request, kCoreFiles) ? pass_core(std::move(*pipe))
                                             : send_descriptor(caller_, pipe->get()));
    }
  }

 private:
  // { string filename = 1 }: the name follows a tag and a length of one byte.
  static bool names(const Bytes &request, std::string_view prefix) {
    constexpr size_t kNameAt = sizeof(u32) + 2;
    return request.size() > kNameAt && text(ByteView(request).subspan(kNameAt)).starts_with(prefix);
  }

  // { bool exists = 1 }
  Result<bool> ask(const Bytes &request) {
    constexpr u8 kTag = 1 << 3;
    Writer no;
    no.put<u32>(2).put<u8>(kTag).put<u8>(0);
    Bytes reply(no.bytes().begin(), no.bytes().end());
    if (!names(request, "creds-")) {
      CKPT_CHECK(write_all(caller_, request));
      CKPT_TRY(reply, receive_sized(caller_, 2));
    }
    if (reply.size() != no.bytes().size() || reply[sizeof(u32)] != std::byte{kTag} ||
        reply.back() > std::byte{1})
      return fail("the caller's answer to CRIU is malformed");
    CKPT_CHECK(write_all(criu_, reply));
    return reply.back() == std::byte{1};
  }

  Result<> pass_core(UniqueFd to) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) < 0) return fail_errno("cannot create a pipe");
    UniqueFd from(ends[0]), theirs(ends[1]);
    CKPT_CHECK(send_descriptor(caller_, theirs.get()));
    theirs.reset();
    CKPT_TRY(Bytes file, read_core(from.get()));
    CKPT_CHECK(check_core_file(file));
    return write_all(to.get(), file);
  }

  int criu_, caller_;
};

}  // namespace

Result<> check_core_file(ByteView file) {
  CKPT_TRY(std::optional<ThreadIdentity> t, identity_in_core(file));
  if (t && (t->inheritable | t->permitted | t->effective | t->ambient))
    return fail("the image's program would have capabilities, which only root can restore");
  return {};
}

// The forked process is forked once more, so that its parent need not wait for it.
Result<> start_vetting(UniqueFd criu, UniqueFd caller, const Identity &identity, int log) {
  pid_t child = ::fork();
  if (child < 0) return fail_errno("cannot fork");
  if (child > 0) {
    ::waitpid(child, nullptr, 0);
    return {};
  }
  if (::fork() != 0 || !become(identity, 0)) ::_exit(0);
  // Above all not the other end of `caller` and the worker's connections, whose ends could not be
  // seen then.
  close_all_but({criu.get(), caller.get(), log});
  Result<> done = Vetting(criu.get(), caller.get()).run();
  if (!done)
    (void)write_all(log, view(fmt::format("Error (ckpt-helper): ): {}\n", done.error().what)));
  ::_exit(0);
}

}  // namespace ckpt::helper
