// SPDX-License-Identifier: Apache-2.0
//
// What the driver prints in this process, such as the printf of kernels: it is the program's.
#pragma once

#include <sys/types.h>

#include <mutex>

#include "common/base/unique_fd.h"
#include "remote/transport/connection.h"

namespace ckpt::remote::cuda {

class Output {
 public:
  // From now on the standard streams of this process are read by this object.
  Result<> redirect();
  // Sends what has been printed so far.
  void forward(Connection &connection);

 private:
  struct Printed {
    int stream;
    UniqueFd file;
    off_t at = 0;  // what was sent
  };
  static void forward(Connection &connection, Printed &p);

  std::mutex mutex_;
  Printed printed_[2] = {{1, {}}, {2, {}}};
};

}  // namespace ckpt::remote::cuda
