// SPDX-License-Identifier: Apache-2.0
//
// The requests of agents and tools to a keeper (agent/protocol.h): its socket, its connections, and
// the answers. A part of the keeper's loop, in the same thread.
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "common/ipc/listener.h"
#include "common/ipc/message_reader.h"
#include "tools/session/device_shares.h"
#include "tools/session/shared_events.h"

namespace ckpt::tools {

class Keeper;

class KeeperRequests {
 public:
  explicit KeeperRequests(Keeper &keeper);

  Result<> listen(const std::string &socket_path);
  int listener_fd() const { return listener_->fd(); }
  // When something has happened at the listener.
  void turn_listener();

  // The connections, in the order in which serve() gets the results of poll(2).
  void add_to(std::vector<pollfd> &fds) const;
  void serve(std::span<const pollfd> polled);
  // Before the keeper ends, which other processes of the program may outlive.
  void settle() { events_.settle(); }

 private:
  struct Client {
    Client(UniqueFd fd, Listener::Id newcomer, pid_t peer);
    UniqueFd fd;
    Listener::Id newcomer;
    pid_t peer;
    MessageReader requests;
    bool dumping = false;
  };
  // What to do after a request: reply Ok, do nothing (the reply is sent already), or close the
  // connection here, because another process or thread has taken it over.
  enum class Answer { Ok, Sent, Close };

  void accept(Listener::Connection connection);
  bool serve(Client &client);  // false: closes the connection
  bool answer(Client &client, Message &message);
  Result<Answer> handle(Client &client, Message &message);
  Result<Answer> start_proxy(Client &client, Message &message);
  Result<Answer> adopt_proxy(Client &client, Message &message);
  Result<Answer> drop_proxy(Message &message);
  Result<Answer> begin_dump(Client &client);
  Result<Answer> image_complete(Message &message);
  Result<Answer> note_image(Message &message);
  Result<Answer> keep_contents(Message &message);
  Result<Answer> return_contents(Client &client, Message &message);
  Result<Answer> choose_devices(Message &message);
  Result<Answer> tell_devices(Client &client, Message &message);
  Result<Answer> tell_checkpoint_flags(Client &client);
  Result<Answer> start_checkpoint(Client &client, Message &message);
  Result<Answer> accept_restored(Client &client, Message &message);
  Result<Answer> share_memory(Client &client, Message &message);
  Result<Answer> share_events(Client &client, Message &message);

  Keeper &keeper_;
  std::unique_ptr<Listener> listener_;
  std::list<Client> clients_;
  // Files with device contents of processes in a checkpoint, by token.
  std::map<u64, std::vector<UniqueFd>> contents_;
  DeviceShares shares_{share_user_lives};
  WatchedProcesses sharers_;
  SharedEvents events_;
};

}  // namespace ckpt::tools
