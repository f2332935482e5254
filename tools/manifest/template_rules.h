// SPDX-License-Identifier: Apache-2.0
//
// A template is an image from which several copies of the program run at the same time
// (ckpt-start). Each copy has PIDs, memory files of /dev/shm and standard output of its own. These
// are the rules for the rest: what no copy can have, and what the copies of one image would share.
#pragma once

#include <set>
#include <string>

#include "tools/criu/criu_files.h"
#include "tools/manifest/image_manifest.h"
#include "tools/reasons.h"

namespace ckpt::tools {

// In a folder that each copy has of its own.
bool is_private_to_copy(const std::string &path);
// The files to which the program's standard output and error lead: a copy has another one instead.
std::set<std::string> output_files(const ImageManifest &m);

// Reasons against a template: what no copy can have.
void check_template(const ImageManifest &m, Reasons &reasons);
// Reasons against several copies: files that all of them would write, or that only one can lock.
void check_shared_files(const ImageManifest &m, const CriuFiles &criu, Reasons &reasons);
void check_shared_locks(const CriuFiles &criu, Reasons &reasons);

}  // namespace ckpt::tools
