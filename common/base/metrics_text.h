// SPDX-License-Identifier: Apache-2.0
//
// Prometheus's text exposition format, version 0.0.4.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace ckpt {

class MetricsText {
 public:
  using Labels = std::vector<std::pair<const char *, std::string>>;

  // Starts a metric; its samples follow.
  MetricsText &metric(const char *name, const char *type, const char *help) {
    name_ = name;
    out_ += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
    return *this;
  }
  // The values of labels must be UTF-8: readers refuse a whole text otherwise (printable.h).
  template <class Value>
  MetricsText &sample(Value value, const Labels &labels = {}, const char *suffix = "") {
    out_ += fmt::format("{}{}{} {}\n", name_, suffix, in_braces(labels), value);
    return *this;
  }
  // The samples of a histogram. `counts`: those up to each of the `limits`, and of the rest.
  template <class Counts, class Limits>
  MetricsText &histogram(const Counts &counts, const Limits &limits, double sum) {
    unsigned long long up_to = 0;
    for (size_t i = 0; i < std::size(counts); i++) {
      up_to += counts[i];
      bool last = i == std::size(limits);
      sample(up_to, {{"le", last ? "+Inf" : fmt::format("{}", limits[i])}}, "_bucket");
    }
    return sample(sum, {}, "_sum").sample(up_to, {}, "_count");
  }
  std::string take() { return std::move(out_); }

 private:
  static std::string escaped(const std::string &value) {
    std::string out;
    for (char c : value) {
      if (c == '\\' || c == '"') out += '\\';
      if (c == '\n')
        out += "\\n";
      else
        out += c;
    }
    return out;
  }
  static std::string in_braces(const Labels &labels) {
    std::string all;
    for (auto &[name, value] : labels)
      all += fmt::format("{}{}=\"{}\"", all.empty() ? "" : ",", name, escaped(value));
    return all.empty() ? all : "{" + all + "}";
  }
  std::string name_, out_;
};

}  // namespace ckpt
