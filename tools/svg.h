// SPDX-License-Identifier: Apache-2.0
//
// Pictures of the tools, as SVG.
#pragma once

#include <string>
#include <string_view>

namespace ckpt::tools::svg {

inline constexpr double kWidth = 960;
// Distinguishable also without colour vision (Okabe and Ito, 2008).
inline constexpr const char *kColours[] = {"#000000", "#e69f00", "#56b4e9", "#009e73",
                                           "#0072b2", "#d55e00", "#cc79a7"};

std::string document(double height, const std::string &body);
// `anchor`: start, middle or end. The text may have any bytes.
std::string text(double x, double y, std::string_view text, const char *anchor = "start");
// `title`: shown at the pointer; "": none.
std::string box(double x, double y, double width, double height, const char *colour,
                std::string_view title = "");

}  // namespace ckpt::tools::svg
