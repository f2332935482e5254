// SPDX-License-Identifier: Apache-2.0
//
// The folder of a job of several programs, on a file system that all its nodes share.
//
//   key                  32 random bytes, mode 0600: a process that can read it belongs to the job
//   lock                 held by the coordinator of a checkpoint
//   members/NAME         where the member listens; locked as long as its ckpt-run lives
//   ended/NAME           how the member's program has ended (ends.h)
//   finished             the newest checkpoint when all programs had finished
//   0001/NAME.img        the images of one checkpoint
//   0001/decision        whether they are one (decision.h)
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "storage/format/key.h"
#include "tools/job/decision.h"

namespace ckpt::tools {

// Where a member listens.
struct MemberAddress {
  std::vector<std::string> addresses;
  u16 port = 0;
  unsigned restoring = 0;  // the checkpoint that it waits to be restored from; 0: it runs
  unsigned programs = 0;   // how many the job has; 0: unknown
  std::string start;       // of the batch job; "": unknown
  bool lives = true;       // false: its ckpt-run was killed, or its node has failed
};

class JobFolder {
 public:
  // Creates the folder and the key where they are missing. A folder without a key that has other
  // contents is refused.
  static Result<JobFolder> create(const std::string &given);
  static Result<JobFolder> open(const std::string &given);

  const std::string &path() const { return path_; }
  const storage::Key &key() const { return key_; }
  // No other coordinator works until the lock is closed. Nothing: another one works.
  Result<std::optional<UniqueFd>> lock() const;
  // Fails if a checkpoint cannot be read now, as while a file system is out of order: an older one
  // must not be taken for the newest.
  Result<> check_readable() const;

  Result<std::map<std::string, MemberAddress>> members() const;
  std::string member_file(const std::string &member) const { return path_ + "/members/" + member; }

  std::string checkpoint(unsigned number) const;
  std::string image(unsigned number, const std::string &member) const;
  std::string decision(unsigned number) const { return checkpoint(number) + "/decision"; }
  // Of the complete ones, the newest first.
  std::vector<unsigned> complete() const;
  // The newest one when the programs last finished; 0: they have not. It and those before it are of
  // finished work.
  unsigned finished() const;
  Result<> mark_finished(unsigned number) const;
  // Makes the folder of the next one, and removes what is left of those that were abandoned. A
  // folder with anything else in it stays, whatever its name.
  Result<unsigned> begin_checkpoint() const;
  void remove_checkpoint(unsigned number) const;

 private:
  JobFolder(std::string path, const storage::Key &key) : path_(std::move(path)), key_(key) {}
  std::vector<unsigned> numbers() const;

  std::string path_;
  storage::Key key_;
};

// Of a complete checkpoint, in order.
std::vector<std::string> members_of(const nlohmann::json &decision);
// The error of a member that a checkpoint does not have.
Error not_in_checkpoint(const JobFolder &folder, unsigned checkpoint, const std::string &member,
                        const std::vector<std::string> &members);

// A name in the folder, which must not lead out of it.
Result<> check_member_name(const std::string &name);
// The host's name.
std::string usual_member_name();

// A member's file in the folder, for as long as this object lives.
class Registration {
 public:
  Registration() = default;
  Registration(Registration &&) = default;
  Registration &operator=(Registration &&) = default;
  ~Registration();
  // Refused if a living member has the name.
  static Result<Registration> make(const JobFolder &folder, const std::string &member,
                                   const MemberAddress &address);
  Result<> change(const MemberAddress &address);

 private:
  std::string path_;
  UniqueFd file_;  // locked, which shows that the member lives
};

}  // namespace ckpt::tools
