// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "common/base/result.h"
#include "storage/format/format.h"

namespace ckpt::storage {

Result<> fill_random(void *data, size_t size);
// RFC 4122, version 4.
Result<Uuid> random_uuid();
std::string uuid_text(const Uuid &uuid);

}  // namespace ckpt::storage
