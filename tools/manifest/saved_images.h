// SPDX-License-Identifier: Apache-2.0
//
// What a folder of images holds: for ckpt-image list, and for ckpt-restore --all, which starts the
// newest complete image of each program. Everything that comes from an image is untrusted text.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/result.h"
#include "storage/format/format.h"
#include "storage/format/key.h"

namespace ckpt::tools {

struct SavedImage {
  enum class State {
    Complete,
    Damaged,     // it cannot be read, or a byte of it is wrong
    Locked,      // encrypted, and there is no key or another one
    Unusable,    // undamaged, but no restore could succeed (restorable.h)
    Incomplete,  // of a dump that was killed or is under way
    Ended        // complete, but the program has ended by itself since
  };
  std::string path;
  State state = State::Complete;
  std::string why;      // if it is damaged, locked or unusable
  std::string program;  // the command line
  std::string created;  // "2026-11-22T15:03:34Z"
  // The same as seconds since 1970; without it, when the files were written.
  i64 created_time = 0;
  std::vector<std::string> devices;
  u64 raw_bytes = 0, stored_bytes = 0;
  u64 disk_bytes = 0;  // of its own files
  bool encrypted = false;
  u64 generation = 0;  // 0: it needs no other image
  std::string parent;  // the name of the image that it is an increment of
  storage::Uuid uuid{};
  std::vector<storage::ParentEntry> parents;  // all images that it needs
  // All are kept through any number of restores, and so identify a program. Another user's program
  // could have the folder and the PID once they are free.
  std::string session_folder;
  pid_t root_pid = 0;
  std::optional<uid_t> owner;  // of older images and of programs of several users: unknown

  bool is_of_program(const SavedImage &other) const {
    bool other_user = owner && other.owner && *owner != *other.owner;
    return session_folder == other.session_folder && root_pid == other.root_pid && !other_user;
  }
};

const char *state_name(SavedImage::State state);

enum class Thoroughness {
  Index,     // the index is whole, and the chunks of the image and its parents have their sizes
  EveryByte  // also the checksums of all stored bytes, and whether a restore could succeed
};
// In the order of their names. Partial folders come with the others.
Result<std::vector<SavedImage>> images_in(const std::string &folder, const storage::Key *key,
                                          Thoroughness thoroughness);

}  // namespace ckpt::tools
