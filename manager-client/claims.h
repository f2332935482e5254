// SPDX-License-Identifier: Apache-2.0
//
// What the program asks the Manager for: a GPU, and memory on it.
#pragma once

#include <string>

#include "manager-client/assignment.h"
#include "manager-client/memory_account.h"

namespace ckpt::manager_client {

struct Claims {
  Assignment assignment;
  MemoryAccount memory;

  // A new Manager is asked for what the program still waits for.
  void ask_again();
  // Ticket 0: the GPU.
  void deny(u32 ticket, const std::string &why);
  // Without a Manager no thread waits.
  void grant_all();
};

}  // namespace ckpt::manager_client
