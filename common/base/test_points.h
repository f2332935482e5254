// SPDX-License-Identifier: Apache-2.0
//
// Places at which a test stops or kills a process, to see what the others do then. They are the
// steps of a tool ("criu"), and the moments before and after a process sends a message to another
// one ("send-42" and "sent-42", with the number of the message's type) and after it has received
// one ("got-42"): between "sent" and the answer, neither side knows what the other one has done.
#pragma once

#include <string_view>

#include "common/base/bytes.h"

namespace ckpt {

// With CKPT_TEST_STOP_AT=NAME the process kills itself here, with CKPT_TEST_HOLD_AT=NAME it stops
// itself.
void test_point(std::string_view name);
// The same for a message of this type ("send-job-42" for one between the members of a job). Costs
// nothing where no test is under way.
void test_point_before_sending(u16 type, std::string_view of = "");
void test_point_after_sending(u16 type, std::string_view of = "");
void test_point_after_receiving(u16 type, std::string_view of = "");

}  // namespace ckpt
