// SPDX-License-Identifier: Apache-2.0
//
// nvcc emits calls of these functions, and no module defines them: vprintf, malloc, free,
// __assertfail (CUDA C++ Programming Guide, "Formatted Output", "Dynamic Global Memory Allocation",
// "Assertion").
#include "softcuda/vm/builtins.h"

#include <bit>
#include <cstdio>
#include <cstring>

#include "common/base/result.h"
#include "softcuda/vm/access.h"
#include "softcuda/vm/arguments.h"
#include "softcuda/vm/device_runtime.h"
#include "softcuda/vm/services.h"
#include "softcuda/vm/warp.h"

namespace ckpt::softcuda::vm {
namespace {

constexpr size_t kMaxString = 4096;

bool read_memory(Warp &w, const Op &op, u32 lane, u64 address, void *out, u32 bytes) {
  char *p = host_address(w, op.site, lane, address, bytes, false);
  if (p != nullptr) std::memcpy(out, p, bytes);
  return p != nullptr;
}

bool read_string(Warp &w, const Op &op, u32 lane, u64 address, std::string &out) {
  for (char c; out.size() < kMaxString; out.push_back(c)) {
    if (!read_memory(w, op, lane, address + out.size(), &c, 1)) return false;
    if (c == '\0') return true;
  }
  return true;
}

// One conversion of a printf format, such as "%-8.3lf".
struct Conversion {
  std::string spec;  // without length modifiers
  int stars = 0;
  char kind = 0;
  bool wide = false;  // ll, l, z, j, t
};

Conversion parse_conversion(const std::string &format, size_t &at) {
  Conversion c;
  c.spec = "%";
  for (++at; at < format.size(); ++at) {
    char ch = format[at];
    if (ch == 'l' || ch == 'z' || ch == 'j' || ch == 't') {
      c.wide = true;
    } else if (ch != 'h' && ch != 'L') {
      c.spec += ch;
      c.stars += ch == '*';
      bool part_of_it = (ch >= '0' && ch <= '9') || ch == '.' || ch == '*' || ch == '-' ||
                        ch == '+' || ch == ' ' || ch == '#';
      if (!part_of_it) {
        c.kind = ch;
        ++at;
        return c;
      }
    }
  }
  return c;
}

class Formatter {
 public:
  Formatter(Warp &w, const Op &op, u32 lane, u64 args) : w_(w), op_(op), lane_(lane), args_(args) {}

  bool format(const std::string &f, std::string &out) {
    for (size_t at = 0; at < f.size();) {
      if (f[at] != '%') {
        out += f[at++];
        continue;
      }
      Conversion c = parse_conversion(f, at);
      if (c.kind == 0) return true;
      if (c.kind == '%')
        out += '%';
      else if (!convert(c, out))
        return false;
    }
    return true;
  }

 private:
  // vprintf's arguments lie in one buffer, each aligned to its size.
  template <class T>
  bool next(T &v) {
    args_ = (args_ + sizeof(T) - 1) & ~(u64{sizeof(T)} - 1);
    bool ok = read_memory(w_, op_, lane_, args_, &v, sizeof(T));
    args_ += sizeof(T);
    return ok;
  }

  bool convert(Conversion &c, std::string &out) {
    for (; c.stars > 0; --c.stars) {
      i32 n = 0;
      if (!next(n)) return false;
      c.spec.replace(c.spec.find('*'), 1, std::to_string(n));
    }
    switch (c.kind) {
      case 's': return string(c, out);
      case 'p': return as<u64>(c, out, "");
      case 'c': return as<i32>(c, out, "");
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
      case 'a':
      case 'A': return as<double>(c, out, "");
      case 'd':
      case 'i':
      case 'u':
      case 'o':
      case 'x':
      case 'X': return c.wide ? as<i64>(c, out, "ll") : as<i32>(c, out, "");
      default: out += c.spec; return true;
    }
  }

  bool string(const Conversion &c, std::string &out) {
    u64 address = 0;
    if (!next(address)) return false;
    std::string text = "(null)";
    if (address != 0) {
      text.clear();
      if (!read_string(w_, op_, lane_, address, text)) return false;
    }
    print(out, c.spec, text.c_str());
    return true;
  }

  template <class T>
  bool as(const Conversion &c, std::string &out, const char *length) {
    T v{};
    if (!next(v)) return false;
    std::string spec = c.spec;
    spec.insert(spec.size() - 1, length);
    if constexpr (std::is_same_v<T, u64>)
      print(out, spec, reinterpret_cast<void *>(v));
    else
      print(out, spec, v);
    return true;
  }

  template <class T>
  static void print(std::string &out, const std::string &spec, T v) {
    char buffer[2 * kMaxString];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#pragma GCC diagnostic ignored "-Wformat-security"
    int n = std::snprintf(buffer, sizeof buffer, spec.c_str(), v);
#pragma GCC diagnostic pop
    if (n > 0) out.append(buffer, std::min<size_t>(static_cast<size_t>(n), sizeof buffer - 1));
  }

  Warp &w_;
  const Op &op_;
  u32 lane_;
  u64 args_;
};

void print(Warp &w, const Op &op, Mask m, const std::vector<Slot> &args,
           const std::vector<Slot> &results) {
  each_lane(m, [&](u32 lane) {
    Arguments a(w, lane);
    std::string format, text;
    bool ok = read_string(w, op, lane, a.get<u64>(args, 0), format) &&
              Formatter(w, op, lane, a.get<u64>(args, 1)).format(format, text);
    if (!ok)
      return w.fail(FaultKind::IllegalAddress, op,
                    "printf: the format or a string argument is an invalid pointer");
    w.grid->services->print(text);
    a.set(results, static_cast<i32>(text.size()));
  });
}

void allocate(Warp &w, const Op &, Mask m, const std::vector<Slot> &args,
              const std::vector<Slot> &results) {
  each_lane(m, [&](u32 lane) {
    Arguments a(w, lane);
    a.set(results, w.grid->services->allocate(a.get<u64>(args, 0)));
  });
}

void release(Warp &w, const Op &op, Mask m, const std::vector<Slot> &args,
             const std::vector<Slot> &) {
  each_lane(m, [&](u32 lane) {
    u64 p = Arguments(w, lane).get<u64>(args, 0);
    if (p != 0 && !w.grid->services->release(p))
      w.fail(FaultKind::IllegalAddress, op,
             fmt::format("free({:#x}): malloc did not return this pointer", p));
  });
}

// __assertfail(message, file, line, function, size of a character)
void assert_failed(Warp &w, const Op &op, Mask m, const std::vector<Slot> &args,
                   const std::vector<Slot> &) {
  each_lane(m, [&](u32 lane) {
    Arguments a(w, lane);
    std::string message, file, function;
    read_string(w, op, lane, a.get<u64>(args, 0), message);
    read_string(w, op, lane, a.get<u64>(args, 1), file);
    read_string(w, op, lane, a.get<u64>(args, 3), function);
    const Dim &b = w.block->index;
    std::fprintf(stderr,
                 "%s:%u: %s: block: [%u,%u,%u], thread: [%u,%u,%u] Assertion `%s` failed.\n",
                 file.c_str(), a.get<u32>(args, 2), function.c_str(), b.x, b.y, b.z, w.tid[0][lane],
                 w.tid[1][lane], w.tid[2][lane], message.c_str());
  });
  w.fail(FaultKind::Assert, op, "an assertion failed");
}

}  // namespace

Builtin builtin_named(std::string_view name) {
  if (name == "vprintf") return &print;
  if (name == "malloc") return &allocate;
  if (name == "free") return &release;
  if (name == "__assertfail") return &assert_failed;
  return device_runtime_named(name);
}

}  // namespace ckpt::softcuda::vm
