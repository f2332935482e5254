// SPDX-License-Identifier: Apache-2.0
//
// libFuzzer: a hostile session keeper. The input is what it answers, with descriptors of its own,
// when a program hands it the contents of its devices, takes them back, and reads them.
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "agent/ipc/session.h"
#include "agent/transfer/contents_store.h"
#include "common/base/log.h"
#include "common/ipc/unix_socket.h"
#include "tests/fuzz/scratch.h"

namespace {

using namespace ckpt;
using namespace ckpt::agent;

constexpr u64 kBytes = 3 << 20;

// Answers {u8 how, u8 type, u8 files, u8 bytes, bytes}. how & 1: with the files that it was given,
// otherwise with others; & 2: made shorter before.
class FakeKeeper {
 public:
  FakeKeeper(int listener, ByteView input) : listener_(listener), in_(input) {}

  // Until the listener is shut down.
  void run() {
    std::vector<UniqueFd> kept;
    while (Result<UniqueFd> socket = accept_unix(listener_)) {
      Result<std::optional<Message>> m = receive_message(socket->get());
      if (!m || !*m) continue;
      if (!(*m)->fds.empty()) kept = std::move((*m)->fds);
      answer(socket->get(), kept);
    }
  }

 private:
  void answer(int socket, const std::vector<UniqueFd> &kept) {
    if (in_.left() == 0) return;
    u8 how = in_.get<u8>();
    u16 type = in_.get<u8>();
    size_t files = in_.get<u8>() % (2 * ContentsStore::kFiles);
    ByteView body = in_.raw(std::min<size_t>(in_.get<u8>(), in_.left()));
    UniqueFd other = memory_file(body);
    std::vector<int> fds;
    for (size_t i = 0; i < files; i++)
      fds.push_back(how & 1 && i < kept.size() ? kept[i].get() : other.get());
    for (const UniqueFd &fd : kept)
      if (how & 2) (void)!::ftruncate(fd.get(), 0);
    (void)send_message(socket, type, body, fds);
  }

  int listener_;
  Reader in_;
};

void keep(u64 direct_bytes) {
  Result<ContentsStore> store = ContentsStore::create("", direct_bytes);
  if (!store || !store->region("memory", kBytes)) return;
  Bytes bytes(kBytes, std::byte{1});
  (void)store->write(0, bytes);
  if (!store->hand_to_keeper()) return;
  if (store->fetch_from_keeper()) (void)store->read(0, bytes);
}

// Moved to once: what it replaces is never freed, because other threads may read it.
const std::string &session() {
  static const std::string kPath = [] {
    std::string path = scratch_folder() + "/session.sock";
    move_to_session(path);
    return path;
  }();
  return kPath;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int LLVMFuzzerTestOneInput(const uint8_t *data,
                                                                             size_t size) {
  log::set_level(log::Level::Off);
  ::signal(SIGPIPE, SIG_IGN);
  if (size == 0) return 0;
  const std::string &path = session();
  // A new one for each input, so that no connection of an earlier one waits to be accepted.
  ::unlink(path.c_str());
  Result<UniqueFd> listener = listen_unix(path);
  if (!listener) std::abort();
  std::thread keeper([&] { FakeKeeper(listener->get(), view(data + 1, size - 1)).run(); });
  keep(data[0] & 1 ? kBytes : 0);
  ::shutdown(listener->get(), SHUT_RDWR);
  keeper.join();
  return 0;
}
