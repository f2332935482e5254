// SPDX-License-Identifier: Apache-2.0
//
// libFuzzer: a hostile Manager. The input is what it says to a program that has connected to it.
#include <poll.h>
#include <signal.h>

#include "common/base/log.h"
#include "manager-client/manager_client.h"
#include "tests/fuzz/fake_peer.h"
#include "tests/fuzz/scratch.h"

namespace {

using namespace ckpt;

constexpr int kMostMessages = 64;

bool has_input(int fd) {
  pollfd p{fd, POLLIN, 0};
  return ::poll(&p, 1, 0) == 1;
}

void serve(ByteView says) {
  static const std::string path = scratch_folder() + "/manager.sock";
  static const Result<UniqueFd> listener = listen_unix(path);
  if (!listener) std::abort();
  agent::Lifecycle lifecycle([] { return std::vector<agent::Participant *>(); });
  manager_client::ManagerClient client(lifecycle, path);
  client.ready();
  client.dispatch(false);
  Result<UniqueFd> manager = accept_unix(listener->get());
  if (!manager || !write_all(manager->get(), says.first(std::min(says.size(), kMostSaid))))
    std::abort();
  ::shutdown(manager->get(), SHUT_WR);
  for (int i = 0; i < kMostMessages && client.fd() >= 0 && has_input(client.fd()); i++) {
    client.dispatch(true);
    client.freed(static_cast<u64>(i));
    (void)client.timeout();
  }
  client.exiting();
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int LLVMFuzzerTestOneInput(const uint8_t *data,
                                                                             size_t size) {
  log::set_level(log::Level::Off);
  ::signal(SIGPIPE, SIG_IGN);
  if (size == 0) return 0;
  ByteView bytes = view(data + 1, size - 1);
  if (data[0] & 1)
    serve(bytes);
  else
    serve(as_frames(bytes));
  return 0;
}
