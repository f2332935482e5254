// SPDX-License-Identifier: Apache-2.0
//
// The streamer protocol of CRIU (criu dump --stream, criu restore --stream), which passes CRIU's
// image files directly into our image and back, without a disk in between.
//
// The problem: CRIU writes a folder with dozens of files, among them the program's memory. If they
// were written to disk first and copied then, a dump would need twice the space and would process
// all bytes once more.
//
// The protocol: the tool listens on a UNIX socket in the folder that it passes to CRIU as -D. CRIU
// connects once and sends a request for each file that it would open:
//
//   u32      length of the message that follows
//   message  protobuf { string filename = 1 }, for example 0a 0a "core-1.img"
//
// At a dump ("streamer-capture.sock") CRIU then sends the read end of a pipe by SCM_RIGHTS, and
// writes the file into the pipe's other end. At a restore ("streamer-serve.sock") the tool first
// answers each request with
//
//   u32      2, the length of the message that follows
//   message  protobuf { bool exists = 1 }
//
// and, only if the file exists, CRIU sends the write end of a pipe and reads the file from the
// other. CRIU keeps several pipes open at once and uses them in turns. Each file therefore gets a
// thread of its own, which copies between the pipe and the stream "criu/NAME" of the image.
//
// Pages arrive as page-aligned runs in files named pages-N.img. Between two dumps of a program they
// shift, so they are cut into chunks by content (storage::Cut::Content), which lets an
// increment find them in its parent. All other files are cut at fixed offsets.
//
// The tool ends a dump early by discarding the rest of the files: CRIU ends as always, and leaves
// the program stopped. If that takes too long, the tool closes the pipes. CRIU then fails by
// itself: it removes its parasite code from the processes and continues them. CRIU must never be
// killed before that.
//
// Source: criu/img-streamer.c and images/img-streamer.proto in CRIU 4.1.
#pragma once

#include <optional>
#include <string>

#include "common/base/bytes.h"
#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace ckpt::tools {

// The start of the names of the streams that hold CRIU's files.
inline constexpr std::string_view kCriuStreams = "criu/";

namespace streamer {

// The capacity of a pipe; 1 MiB is what an unprivileged user may set (fs.pipe-max-size).
inline constexpr int kPipeBytes = 1 << 20;

// The file name of the next request. No value: CRIU has closed the connection.
Result<std::optional<std::string>> receive_request(int socket);
Result<> send_reply(int socket, bool exists);

// Parses the protobuf message of a request; takes any bytes.
Result<std::string> parse_request(ByteView message);

}  // namespace streamer
}  // namespace ckpt::tools
