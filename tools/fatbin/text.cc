// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "common/base/units.h"
#include "tools/fatbin/commands.h"
#include "tools/image/text.h"

namespace ckpt::tools {
namespace {

using namespace fatbin;

constexpr size_t kMaxLines = 12;       // of a list, before "... and N more"
constexpr size_t kMaxNameChars = 120;  // of a shown name
constexpr size_t kMaxParameters = 12;

// A name from the file, safe for a terminal and shortened unless `all`.
std::string shown(std::string_view text, bool all) {
  if (all || text.size() <= kMaxNameChars) return printable(text);
  return printable(text.substr(0, kMaxNameChars)) + "...";
}

std::string joined(const std::set<std::string> &words) {
  std::string out;
  for (const std::string &w : words) out += (out.empty() ? "" : " ") + printable(w);
  return out;
}

class Page {
 public:
  explicit Page(bool all) : all_(all) {}

  void line(const char *name, const std::string &value) {
    out_ += fmt::format("{:<13}{}\n", name, value);
  }
  void gap() { out_ += '\n'; }
  // One line for each item; the first stands beside `name`.
  template <class C, class F>
  void list(const char *name, const C &items, F describe) {
    if (items.empty()) return line(name, "none");
    size_t i = 0;
    for (const auto &item : items) {
      if (!all_ && i == kMaxLines) break;
      line(i++ == 0 ? name : "", describe(item));
    }
    if (items.size() > i) line("", fmt::format("... and {} more (--all)", items.size() - i));
  }
  std::string take() { return std::move(out_); }

 private:
  std::string out_;
  const bool all_;
};

// Entries that look alike in the page: one line counts them.
struct Group {
  size_t entries = 0;
  u64 stored_bytes = 0, bytes = 0;
};

std::string group_name(const Container &c, const Entry &e) {
  return fmt::format("{:<14} {:<7} {:<8} {:<7}{}", e.target(), name_of(e.kind),
                     name_of(e.compression), c.role == Role::Unit ? "unit" : "loaded",
                     e.debug() ? " debug" : "");
}

void put_entries(Page &page, const Image &image) {
  std::map<std::string, Group> groups;
  for (const Container &c : image.containers())
    for (const Entry &e : c.entries) {
      Group &g = groups[group_name(c, e)];
      ++g.entries;
      g.stored_bytes += e.stored_bytes;
      g.bytes += e.bytes;
    }
  page.list("entries", groups, [](const auto &item) {
    const auto &[name, g] = item;
    return fmt::format("{:>6} {}  {} of {}", g.entries, name, human_bytes(g.stored_bytes),
                       human_bytes(g.bytes));
  });
}

std::string parameters_text(const Kernel &k, bool all) {
  std::string out;
  for (size_t i = 0; i < k.parameters.size(); ++i) {
    if (!all && i == kMaxParameters) return out + " ...";
    const Parameter &p = k.parameters[i];
    out += fmt::format("{}{}@{}", i ? " " : "", p.bytes, p.offset);
  }
  return out;
}

void put_names(Page &page, const Summary &s, bool all) {
  page.gap();
  page.list("kernels", s.kernels, [&](const auto &item) {
    const KernelSummary &k = item.second;
    return fmt::format("{} ({}) {}{}", shown(k.kernel.name, all), parameters_text(k.kernel, all),
                       joined(k.targets), k.differs ? ", differs between targets" : "");
  });
  page.list("variables", s.variables, [&](const auto &item) {
    const Variable &v = item.second.variable;
    return fmt::format("{} {}, {} {}{}", shown(v.name, all), name_of(v.space), human_bytes(v.bytes),
                       joined(item.second.targets),
                       item.second.differs ? ", differs between targets" : "");
  });
  if (!s.references.empty())
    page.list("references", s.references, [&](const auto &item) {
      return fmt::format("{} {}", name_of(item.second), shown(item.first, all));
    });
  if (!s.unexamined.empty())
    page.list("not examined", s.unexamined, [&](const Unexamined &u) {
      return fmt::format("{}.{}: {}", u.container, u.entry, printable(u.reason));
    });
}

std::string runtime_text(const RuntimeFact &fact) {
  std::string name = name_of(fact.runtime);
  return fact.reason.empty() ? name : fmt::format("{}: {}", name, printable(fact.reason));
}

bool is_host_file(Form form) {
  return form == Form::Executable || form == Form::SharedLibrary || form == Form::Object;
}

}  // namespace

std::string show_text(const std::string &path, const Image &image, const Summary &s, bool all) {
  Page page(all);
  page.line("file", printable(path));
  page.line("form", fmt::format("{}, {}", name_of(image.form()), human_bytes(image.bytes())));
  if (is_host_file(image.form())) page.line("runtime", runtime_text(image.runtime()));
  page.line("fat binaries", fmt::format("{}", image.containers().size()));
  put_entries(page, image);
  page.line("device heap", fmt::format("{}: {}", name_of(s.heap.use), printable(s.heap.reason)));
  page.line("printf", s.prints ? "yes" : "no");
  page.line("launches", s.launches ? "yes: kernels launch kernels" : "no");
  page.line("textures", name_of(s.textures));
  page.line("surfaces", name_of(s.surfaces));
  put_names(page, s, all);
  return page.take();
}

std::string entries_text(const Image &image) {
  std::string out = fmt::format("{:>7} {:<14} {:<7} {:<8} {:<7} {:>12} {:>12}  {}\n", "entry",
                                "target", "kind", "stored", "role", "bytes", "raw", "options");
  for (size_t i = 0; i < image.containers().size(); ++i) {
    const Container &c = image.containers()[i];
    for (size_t k = 0; k < c.entries.size(); ++k) {
      const Entry &e = c.entries[k];
      std::string line = fmt::format(
          "{:>7} {:<14} {:<7} {:<8} {:<7} {:>12} {:>12}  {}", fmt::format("{}.{}", i, k),
          e.target(), name_of(e.kind), name_of(e.compression),
          c.role == Role::Unit ? "unit" : "loaded", e.stored_bytes, e.bytes, printable(e.options));
      out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
    }
  }
  return out;
}

}  // namespace ckpt::tools
