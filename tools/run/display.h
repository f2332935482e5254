// SPDX-License-Identifier: Apache-2.0
//
// The refresh rate of the machine's display, by the kernel's interface for displays (DRM).
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "common/base/bytes.h"

namespace ckpt::tools {

// Structures of the kernel (include/uapi/drm/drm_mode.h), which are part of its ABI. The header is
// not installed everywhere.
struct DrmMode {
  u32 clock;  // kHz
  u16 hdisplay, hsync_start, hsync_end, htotal, hskew;
  u16 vdisplay, vsync_start, vsync_end, vtotal, vscan;
  u32 vrefresh, flags, type;
  char name[32];
};
struct DrmResources {
  u64 framebuffers, crtcs, connectors, encoders;  // addresses
  u32 count_framebuffers, count_crtcs, count_connectors, count_encoders;
  u32 least_width, most_width, least_height, most_height;
};
struct DrmCrtc {
  u64 connectors;
  u32 count_connectors, id, framebuffer, x, y, gamma_size, mode_valid;
  DrmMode mode;
};
static_assert(sizeof(DrmMode) == 68 && sizeof(DrmResources) == 64 && sizeof(DrmCrtc) == 104);

// Frames per second; 0: the mode makes no sense.
double refresh_rate(const DrmMode &mode);

// Where displays are looked for; tests have another one.
struct DisplaySource {
  std::string sysfs = "/sys/class/drm", devices = "/dev/dri";
  std::function<int(int fd, unsigned long request, void *argument)> control;  // ioctl(2)
};
DisplaySource system_displays();

// Of the fastest display that is switched on. Nothing: there is none, or the user may not ask.
std::optional<double> display_rate(const DisplaySource &source);

}  // namespace ckpt::tools
