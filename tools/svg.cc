// SPDX-License-Identifier: Apache-2.0
#include "tools/svg.h"

#include <fmt/format.h>

namespace ckpt::tools::svg {
namespace {

std::string escaped(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '<')
      out += "&lt;";
    else if (c == '&')
      out += "&amp;";
    else if (static_cast<unsigned char>(c) < 32)
      out += '?';
    else
      out += c;
  }
  return out;
}

}  // namespace

std::string document(double height, const std::string &body) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" font-family=\"sans-serif\" "
      "font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{}</svg>\n",
      kWidth, height, body);
}

std::string text(double x, double y, std::string_view text, const char *anchor) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor,
                     escaped(text));
}

std::string box(double x, double y, double width, double height, const char *colour,
                std::string_view title) {
  std::string inside = title.empty() ? "" : fmt::format("<title>{}</title>", escaped(title));
  return fmt::format(
      "<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" fill=\"{}\" "
      "stroke=\"white\" stroke-width=\"0.3\">{}</rect>\n",
      x, y, width, height, colour, inside);
}

}  // namespace ckpt::tools::svg
