// SPDX-License-Identifier: Apache-2.0
//
// The images of one program, numbered in a folder of their own: 0001.img, 0002.img, … A batch job
// that is started again with the same folder continues from the newest one (ckpt-run --image).
//
// A program that has ended with status 0 no longer needs its images. The file "finished" then holds
// the last number, and the next start begins from the beginning instead of repeating finished work.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/base/result.h"

namespace ckpt::tools {

// Whether an image can be the parent of the next one: it and its own parents can be read, and it
// has not as many of them as an image can have. Otherwise the next one has to be whole; a warning
// says why, unless the image is just gone.
bool can_be_parent(const std::string &image);

class Series {
 public:
  // `pattern`: the folder. %j stands for the batch job's number, %t for the task's, %% for %. A
  // missing folder is created, for this user only.
  static Result<Series> open(const std::string &pattern);

  const std::string &folder() const { return folder_; }
  // The complete images of the program that is not finished, the newest first.
  std::vector<std::string> images() const;
  static bool has_images(const std::string &folder);
  // A path that no image has, complete or not.
  std::string next() const;

  // The image that the program was restored from, or the last one that it has written: the parent
  // of the next one.
  const std::string &last() const { return last_; }
  void set_last(const std::string &image) { last_ = image; }

  // The program is being started or restored. Returns how often that has happened before, since it
  // last finished; the file "starts" holds the number.
  Result<unsigned> count_start() const;
  Result<> mark_finished() const;

 private:
  explicit Series(std::string folder) : folder_(std::move(folder)) {}
  unsigned highest() const;
  unsigned finished() const;
  unsigned number_in(const char *file) const;
  Result<> write_number(const char *file, unsigned n) const;

  std::string folder_, last_;
};

}  // namespace ckpt::tools
