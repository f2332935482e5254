// SPDX-License-Identifier: Apache-2.0
#include "remote/transport/session_environment.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

using namespace ckpt::remote;

TEST_CASE("sessions get the variables of drivers, and no others") {
  for (const char *name :
       {"PATH", "LC_ALL", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "POCL_DEVICES",
        "OCL_ICD_VENDORS", "RUSTICL_ENABLE", "CKPT_SOFTCUDA_QUIET"})
    CHECK_MESSAGE(is_for_sessions(name), name);
  for (const char *name :
       {"", "SECRET", "AWS_SECRET_ACCESS_KEY", "PATHS", "LISTEN_PID", "DATABASE_URL"})
    CHECK_MESSAGE(!is_for_sessions(name), name);
}

TEST_CASE("all other variables leave the environment") {
  pid_t child = ::fork();
  if (child == 0) {
    ::setenv("SECRET", "x", 1);
    ::setenv("POCL_DEVICES", "basic", 1);
    ::setenv("TOKEN", "y", 1);
    keep_environment_for_sessions();
    ::_exit(::getenv("SECRET") || ::getenv("TOKEN") || !::getenv("POCL_DEVICES"));
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(status == 0);
}
