// SPDX-License-Identifier: Apache-2.0
//
// Records of a table (record.h) as JSON: an object with a member for each field, or a list if the
// record is a row. A reader ignores members that the table does not have. What it reads is hostile
// input: a member of another type or out of range is an error, and nothing throws.
#pragma once

#include <concepts>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "common/api/record.h"
#include "common/base/bytes.h"
#include "common/base/result.h"

namespace ckpt::api {

// A type that has another form in JSON, such as a text. Specialised with `Form`, form_of(value),
// and from(form), which is empty if the form means no such value.
template <class T>
struct JsonForm;
template <class T>
concept HasJsonForm = requires {
  typename JsonForm<T>::Form;
};

namespace detail {

template <class T>
constexpr bool kIsOptional = false;
template <class T>
constexpr bool kIsOptional<std::optional<T>> = true;
template <class T>
constexpr bool kIsMap = false;
template <class T>
constexpr bool kIsMap<std::map<std::string, T>> = true;
template <class T>
constexpr bool kIsPair = false;
template <class T, class U>
constexpr bool kIsPair<std::pair<T, U>> = true;

// What is as good as missing.
inline bool is_nothing(const nlohmann::json &j) {
  return j.is_null() || j == nlohmann::json(false) || j == nlohmann::json(0) ||
         j == nlohmann::json("") || (j.is_structured() && j.empty());
}

}  // namespace detail

template <class T>
nlohmann::json json_of(const T &value);

class RecordWriter {
 public:
  template <class T>
  bool operator()(const Field &f, const T &value) {
    if constexpr (detail::kIsOptional<T>) {
      if (value) put(f, json_of(*value));
    } else if (nlohmann::json j = json_of(value);
               f.presence != Presence::Omitted || !detail::is_nothing(j)) {
      put(f, std::move(j));
    }
    return true;
  }
  nlohmann::json object = nlohmann::json::object(), list = nlohmann::json::array();
  bool as_list = false;

 private:
  void put(const Field &f, nlohmann::json j) {
    if (as_list)
      list.push_back(std::move(j));
    else
      object[f.name] = std::move(j);
  }
};

template <class T>
nlohmann::json json_of(const T &value) {
  if constexpr (Record<T>) {
    RecordWriter out{.as_list = is_row<T>()};
    Fields<T>::each(value, out);
    return is_row<T>() ? std::move(out.list) : std::move(out.object);
  } else if constexpr (HasJsonForm<T>) {
    return json_of(JsonForm<T>::form_of(value));
  } else if constexpr (detail::kIsPair<T>) {
    return nlohmann::json::array({json_of(value.first), json_of(value.second)});
  } else if constexpr (detail::kIsMap<T> || std::same_as<T, std::string> || std::integral<T> ||
                       std::floating_point<T> || std::same_as<T, nlohmann::json>) {
    return nlohmann::json(value);
  } else {
    nlohmann::json list = nlohmann::json::array();
    for (const auto &item : value) list.push_back(json_of(item));
    return list;
  }
}

class JsonReader {
 public:
  template <class T>
  bool read(const nlohmann::json &j, T &value) {
    if constexpr (Record<T>) {
      return read_record(j, value);
    } else if constexpr (HasJsonForm<T>) {
      return read_form(j, value);
    } else if constexpr (detail::kIsOptional<T>) {
      return read(j, value.emplace());
    } else if constexpr (detail::kIsPair<T>) {
      return is_pair(j) && read(j[0], value.first) && read(j[1], value.second);
    } else if constexpr (detail::kIsMap<T>) {
      return read_map(j, value);
    } else if constexpr (std::same_as<T, nlohmann::json>) {
      value = j;
      return true;
    } else if constexpr (std::same_as<T, std::string>) {
      return take(j.is_string(), j, value, "text");
    } else if constexpr (std::same_as<T, bool>) {
      return take(j.is_boolean(), j, value, "true or false");
    } else if constexpr (std::floating_point<T>) {
      return take(j.is_number(), j, value, "number");
    } else if constexpr (std::integral<T>) {
      return take(in_range<T>(j), j, value, "whole number in its range");
    } else {
      return read_list(j, value);
    }
  }

  // Why a read has failed: "processes[2].pid is missing".
  const std::string &why() const { return why_; }

 private:
  // Visits the fields of one record, or the items of one row.
  struct Visit {
    JsonReader &reader;
    const nlohmann::json &j;
    size_t item = 0;
    bool is_row = false;

    template <class T>
    bool operator()(const Field &f, T &value) {
      const nlohmann::json *member = find(f.name);
      if (!member) return f.presence != Presence::Required || reader.is_missing(f.name);
      T kept = value;
      if (reader.read(*member, value)) return true;
      if (f.presence != Presence::Note) return reader.is_in(f.name);
      value = std::move(kept);
      reader.why_.clear();
      return true;
    }
    const nlohmann::json *find(const char *name) {
      if (is_row) return item < j.size() ? &j[item++] : nullptr;
      auto it = j.find(name);
      return it == j.end() ? nullptr : &*it;
    }
  };

  template <class T>
  bool take(bool sound, const nlohmann::json &j, T &value, const char *what) {
    if (!sound) return is_no(what);
    j.get_to(value);
    return true;
  }

  template <class T>
  static bool in_range(const nlohmann::json &j) {
    if (j.is_number_unsigned()) return std::in_range<T>(j.get<u64>());
    return j.is_number_integer() && std::in_range<T>(j.get<i64>());
  }

  template <class T>
  bool read_record(const nlohmann::json &j, T &value) {
    if (is_row<T>() ? !j.is_array() : !j.is_object()) return is_no(is_row<T>() ? "list" : "object");
    Visit visit{*this, j, 0, is_row<T>()};
    return Fields<T>::each(value, visit);
  }

  template <class T>
  bool read_form(const nlohmann::json &j, T &value) {
    typename JsonForm<T>::Form form{};
    if (!read(j, form)) return false;
    std::optional<T> meant = JsonForm<T>::from(form);
    if (!meant) return is_no(JsonForm<T>::kName);
    value = std::move(*meant);
    return true;
  }

  template <class T>
  bool read_map(const nlohmann::json &j, std::map<std::string, T> &value) {
    if (!j.is_object()) return is_no("object");
    for (const auto &[name, item] : j.items())
      if (!read(item, value[name])) return is_in(name.c_str());
    return true;
  }

  template <class T>
  bool read_list(const nlohmann::json &j, T &value) {
    if (!j.is_array()) return is_no("list");
    for (size_t i = 0; i < j.size(); i++) {
      typename T::value_type item{};
      if (!read(j[i], item)) return is_at(i);
      value.insert(value.end(), std::move(item));
    }
    return true;
  }

  bool is_pair(const nlohmann::json &j) { return (j.is_array() && j.size() >= 2) || is_no("pair"); }
  bool is_missing(const char *name) {
    why_ = std::string(name) + " is missing";
    return false;
  }
  bool is_no(const char *what) {
    why_ = std::string(" is no ") + what;
    return false;
  }
  // The names from the inside to the outside: "pid is missing", "[2].pid is missing" …
  bool is_in(const char *name) { return put_before(name); }
  bool is_at(size_t i) { return put_before("[" + std::to_string(i) + "]"); }
  bool put_before(const std::string &name) {
    bool joins = why_.starts_with(' ') || why_.starts_with('[');
    why_ = name + (joins ? "" : ".") + why_;
    return false;
  }

  std::string why_;
};

template <class T>
Result<T> from_json(const nlohmann::json &j) {
  T value{};
  JsonReader reader;
  if (!reader.read(j, value)) return fail("{}", reader.why());
  return value;
}

}  // namespace ckpt::api
