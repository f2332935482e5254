// SPDX-License-Identifier: Apache-2.0
//
// Records that a `.api` table describes: one line for each field, with its type and its name. The
// file is included once for each use. One of them is a specialisation of Fields, through which
// every encoder and decoder visits the fields: of messages as bytes (common/managed/messages.cc),
// of the manifest as JSON (common/api/json_record.h).
#pragma once

namespace ckpt::api {

// What a field that is missing means, and when it is written.
enum class Presence {
  Required,   // always written; a record without it is refused
  Defaulted,  // always written; missing, it has its default
  Omitted,    // only written if it is not empty; missing, it is empty
  Note,       // for readers: as Defaulted, and one that cannot be read is as good as missing
};

struct Field {
  const char *name;
  Presence presence = Presence::Required;
};

// Specialised by a table. each(record, visit) calls visit(Field, member) for every field in the
// order of the table, until one returns false. kIsRow: it is written without names.
template <class R>
struct Fields;

template <class R>
concept Record = requires {
  Fields<R>::kIsRow;
};
template <class R>
constexpr bool is_row() {
  if constexpr (Record<R>) return Fields<R>::kIsRow;
  return false;
}

}  // namespace ckpt::api
