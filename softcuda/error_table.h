// SPDX-License-Identifier: Apache-2.0
//
// The names and descriptions of an API's errors. The driver and the runtime API each have a table
// of their own, an .api file of ERROR(name, text) lines.
#pragma once

namespace ckpt::softcuda {

template <class Error>
struct ErrorName {
  Error error;
  const char *name;
  const char *text;
};

// nullptr: the table has no such error.
template <class Error, unsigned long N>
const ErrorName<Error> *find_error(const ErrorName<Error> (&table)[N], Error error) {
  for (const ErrorName<Error> &e : table)
    if (e.error == error) return &e;
  return nullptr;
}

}  // namespace ckpt::softcuda
