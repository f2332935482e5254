// SPDX-License-Identifier: Apache-2.0
//
// Device memory that processes of one program share (cuIpc*), as their keeper knows it: the handle
// of each piece, the processes that use it, and which one of them saves its contents.
//
// The problem. A process that maps memory of another one cannot be checkpointed by its driver, so
// all processes give shared memory back before that, each in its own time, and map it again
// afterwards. The first that returns must not find memory without contents, and if the others have
// not left yet, it must find the memory that they still use.
//
// How it works. The keeper holds the handle of a piece until all its users are *away*. Then there
// is no memory any more, and the next handle comes from the piece's *owner*, which has saved the
// contents: first the process that has exported the piece, and when that has gone, the first user
// that asks. Others wait until the owner says that the contents are loaded.
//
//   exporter   offer ── own ─── away ──┐            offer ── load ── loaded
//   importer    want ────────── away ──┴─ no memory ── want: pending … want: there
//
// A process that has ended uses nothing. The keeper looks for that whenever it is asked, because it
// may notice an end later than another process does. The memory stays, though, as long as a user
// may come back to it: the owner may load it, go on and end before the others have been resumed.
//
// In a restored program the keeper is a new one. It learns of a piece by its owner's offer, and of
// the others because they say that they are away; all do so before the first of them goes on.
#pragma once

#include <sys/types.h>

#include <array>
#include <functional>
#include <map>
#include <string>

#include "common/base/bytes.h"
#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace ckpt::tools {

using ShareId = std::array<u64, 2>;

class DeviceShares {
 public:
  struct User {
    u64 token = 0;  // chosen by the process
    pid_t pid = 0;  // 0: not visible here
    u64 start = 0;  // when it has started: another process may get its PID
  };
  // Whether the process of a user still runs.
  using Lives = std::function<bool(const User &)>;
  explicit DeviceShares(Lives lives) : lives_(std::move(lives)) {}

  struct Piece {
    u64 bytes = 0;
    std::string device;     // its UUID
    bool exported = false;  // the process that offers it has exported it
    bool loaded = false;    // it has its contents
  };
  // The numbers of protocol::ShareState.
  enum class State : u8 { Unknown, Pending, There, Lost };
  struct Found {
    State state = State::Unknown;
    const Piece *piece = nullptr;  // There
    int memory = -1;               // the handle
  };

  // `user` owns the piece from now on, and each process that asks for it gets this handle.
  Result<> offer(const ShareId &id, const User &user, const Piece &piece, UniqueFd memory);
  // `had`: it has used the piece before. A new user needs its exporter.
  Found want(const ShareId &id, const User &user, bool had);
  // Whether `user` owns the piece, from now on if it had no owner.
  Result<bool> own(const ShareId &id, const User &user);
  void loaded(const ShareId &id, const User &user);
  // `user` has given the memory back, or it has not got it yet in a restored program.
  void away(const ShareId &id, const User &user);
  // `user` uses the piece no more.
  void done(const ShareId &id, const User &user);
  // The user with this token has ended.
  void ended(u64 token);

 private:
  struct Use {
    User user;
    bool away = false;
  };
  struct Shared {
    Piece piece;
    UniqueFd memory;
    u64 owner = 0, exporter = 0;  // tokens; 0: none
    std::map<u64, Use> uses;      // by token
  };
  using Pieces = std::map<ShareId, Shared>;
  Shared *find(const ShareId &id);
  void expect(const ShareId &id, const User &user);
  bool forget_the_unused(Pieces::iterator piece);

  Lives lives_;
  Pieces all_;
};

// Reads when the process has started.
DeviceShares::User share_user(u64 token, pid_t pid);
bool share_user_lives(const DeviceShares::User &user);

}  // namespace ckpt::tools
