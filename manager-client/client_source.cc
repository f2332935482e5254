// SPDX-License-Identifier: Apache-2.0
//
// How the client gets into the agent's thread: as its event source.
#include <cstdlib>

#include "agent/runtime/agent.h"
#include "manager-client/manager_client.h"

namespace ckpt::manager_client {
namespace {

class ClientSource final : public agent::EventSource {
 public:
  ClientSource(agent::Lifecycle &lifecycle, std::string socket_path)
      : client(lifecycle, std::move(socket_path)) {}
  int fd() const override { return client.fd(); }
  int timeout() override { return client.timeout(); }
  void dispatch(bool readable) override { client.dispatch(readable); }
  void pause() override { client.pause(); }
  void resume() override { client.resume(); }
  void exiting() override { client.exiting(); }

  ManagerClient client;
};

std::unique_ptr<agent::EventSource> make_source(agent::Lifecycle &lifecycle) {
  const char *path = ::secure_getenv(managed::kSocketVariable);
  return path ? std::make_unique<ClientSource>(lifecycle, path) : nullptr;
}

[[maybe_unused]] const bool kRegistered = agent::register_event_source(make_source);

}  // namespace

ManagerClient *get() {
  if (::secure_getenv(managed::kSocketVariable) == nullptr) return nullptr;
  Result<agent::Agent *> agent = agent::Agent::get();
  if (!agent) return nullptr;
  auto *source = static_cast<ClientSource *>((*agent)->event_source());  // of make_source()
  return source ? &source->client : nullptr;
}

}  // namespace ckpt::manager_client
