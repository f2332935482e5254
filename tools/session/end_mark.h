// SPDX-License-Identifier: Apache-2.0
//
// The mark of a program that has ended by itself: `ckpt-restore --all` must not start it again. It
// is a file beside the last image, IMAGE.ended, because an image is never changed. A program that a
// signal has killed, as when its machine was shut down, leaves no mark.
#pragma once

#include <string>

namespace ckpt::tools {

// If the mark cannot be written, this is only logged.
void mark_ended(const std::string &image);
// False if the image was written after the mark, under the same name.
bool is_marked_ended(const std::string &image);
// For an image that was removed.
void remove_mark(const std::string &image);

}  // namespace ckpt::tools
