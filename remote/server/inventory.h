// SPDX-License-Identifier: Apache-2.0
//
// What the devices of this node have answered to OpenCL programs' questions (questions.h).
//
// Loading the drivers takes tenths of a second and tens of MiB in each proxy, and most programs
// begin with the same questions. So the first program of a user gets a proxy at once, and the
// session passes its answers to ckpt-devd. The sessions of later programs take the answers from
// there, and start a proxy at the first command that is no question, or whose answer is not known.
// Then they ask the proxy everything again that they have answered. If an answer is another one
// now, the devices have changed: the program gets an error, and ckpt-devd forgets the answers.
//
// Answers are kept for each user, because users may have different devices, and one user's session
// must not tell another one's program anything. They are forgotten, too, when a list of devices
// (ckpt-run makes one before it starts a program) differs from the one before it.
#pragma once

#include <list>
#include <map>
#include <string>

#include "common/base/bytes.h"

namespace ckpt::remote {

struct Inventory {
  struct Answer {
    i32 status = 0;
    Bytes bytes;
    bool operator==(const Answer &) const = default;
  };
  Bytes platforms;                  // the proxy's greeting; empty: nothing is known
  std::map<Bytes, Answer> answers;  // by Questions::key()

  Bytes encoded() const;
  static Inventory read(Reader r);
};

// Those of all users, which ckpt-devd keeps. Bounded, whatever is reported.
class Inventories {
 public:
  // `devices`: what the user's proxy was started with.
  struct Owner {
    std::string user, devices;
    bool operator==(const Owner &) const = default;
  };
  // Null: nothing is known.
  const Inventory *find(const Owner &owner) const;
  void greeted(const Owner &owner, ByteView platforms);
  void answered(const Owner &owner, ByteView key, Inventory::Answer answer);
  void forget(const Owner &owner);
  // What the user's last list of devices was.
  void listed(const std::string &user, u64 hash);

 private:
  struct Entry {
    Owner owner;
    size_t bytes = 0;
    Inventory inventory;
  };
  Entry *entry(const Owner &owner);

  std::list<Entry> entries_;  // the newest first
  std::map<std::string, u64> lists_;
};

}  // namespace ckpt::remote
