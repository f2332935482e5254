// SPDX-License-Identifier: Apache-2.0
//
// The part of an image's manifest that ckpt-restore uses. tools/dump/describe_program.cc writes it.
// Like the whole image it is untrusted input: a field that is missing or of another type is an
// error.
#pragma once

#include <sys/types.h>

#include <optional>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/base/bytes.h"
#include "common/base/copy_facts.h"
#include "common/base/result.h"
#include "helper/identity.h"
#include "tools/criu/first_code.h"
#include "tools/net/inet_table.h"
#include "tools/net/socket_options.h"
#include "tools/proc/affinity.h"
#include "tools/proc/policies.h"

namespace ckpt::tools {

struct ImageManifest {
  struct ThreadAffinity {  // threads that the program has bound to processors
    Affinity processors;
    std::vector<pid_t> threads;
  };
  struct PoliciesOfThreads {
    ThreadPolicies policies;
    std::vector<pid_t> threads;
  };
  struct ProcessEntry {
    pid_t pid;
    pid_t group;
    pid_t session;
    std::vector<pid_t> threads;
    bool stopped;  // was stopped before the dump
    std::vector<ThreadAffinity> affinities;
    bool ended = false;  // a zombie
    std::vector<PoliciesOfThreads> thread_policies;
    ProcessPolicies policies;
    std::optional<FirstCode> first_code;
  };
  struct Requirement {  // of one participant
    u32 agent;
    std::string api;
    nlohmann::json requirements;
    bool operator==(const Requirement &) const = default;
  };
  struct File {
    std::string path;
    u64 size;
    bool append_only;
    bool writable;
    std::optional<i64> mtime_ns;  // images of earlier versions lack these two
    std::optional<u64> hash;
    bool shared = false;  // mapped so that the program sees its changes
  };
  struct StoredFolder {
    std::string path;
    u32 mode, uid, gid;
  };
  struct StoredName {
    std::string path;
    u32 mode, uid, gid;
    std::vector<StoredFolder> folders;  // that lead to it, the outermost first
  };
  // With its contents: tools/dump/memory_files.h, kept_files.h.
  struct StoredFile : StoredName {
    std::vector<std::string> names;  // others
    std::string stream;              // the extents, one after the other
    u64 size;
    std::vector<std::pair<u64, u64>> extents;  // offset and length; holes lie between them
    u64 data_bytes() const;
  };
  struct Link {
    std::string path;  // that CRIU opens, and removes
    std::string kept;  // the same file, as long as there is the image
  };
  struct DescriptorOf {  // one descriptor of an open file
    pid_t pid;
    int fd;
  };
  struct SocketOptions {
    DescriptorOf at;
    SocketState state;
  };
  struct RenamedSocket {  // a UNIX socket, whose file got another name after bind(2)
    u64 inode;
    std::string path;
  };
  struct Pipe {
    u64 inode;
    int fd;
    bool program_reads;
  };

  struct Fifo {  // with a name, whose other end another program had open
    std::string path;
    int fd;
    bool program_reads;
  };

  struct Socket {
    bool udp;
    bool v6;
    Endpoint local;
    std::optional<Endpoint> remote;  // of a TCP connection
  };

  struct Template {          // copies of it can run at the same time (ckpt-start)
    bool tcp_close = false;  // TCP connections are closed in a restored program
  };

  std::string program;
  std::set<std::string> processor_features;  // that the program may use; empty: unknown
  std::string cwd;
  pid_t root_pid = 0;
  std::string session_folder;
  std::optional<helper::Identity> owner;  // if all processes are one user's
  std::vector<ProcessEntry> processes;
  std::vector<u64> outcome_pipes;  // by agent: the inode
  std::vector<pid_t> agent_pids;   // by agent: the PID in the program's PID namespace
  u64 device_bytes = 0;            // of all agents
  std::vector<Requirement> requirements;
  std::vector<File> files;
  std::vector<File> mapped_files;
  std::vector<StoredFile> memory_files;
  std::vector<StoredFile> kept_files;
  std::vector<StoredName> kept_fifos;
  std::vector<Pipe> pipes;
  std::vector<Fifo> fifos;
  std::vector<Socket> sockets;    // of IP that have a port; none in images of ckpt 0.1
  u64 file_size_limit = ~u64{0};  // the smallest RLIMIT_FSIZE of all processes
  std::vector<Link> links;        // to unlinked files (link_remaps.h)
  std::vector<RenamedSocket> renamed_sockets;
  std::vector<SocketOptions> socket_options;
  std::vector<DescriptorOf> unread_watches;  // inotify descriptors with unread events
  std::vector<int> own_terminals;            // N of each /dev/pts/N that the program made itself
  bool terminal = false;                     // any process has another terminal open
  bool has_stream[3]{};                      // whether the root has a stdin, stdout and stderr
  bool terminal_at[3]{};   // whether the root's stdin, stdout and stderr are terminals
  std::string file_at[3];  // the regular files that they are, else ""
  std::optional<Template> for_copies;
  std::optional<CopyFacts> copy;  // the program was one

  static Result<ImageManifest> parse(const nlohmann::json &manifest);
  // All IDs that must be free in the PID namespace of the restore, in ascending order: of
  // processes, threads, process groups and sessions.
  std::vector<pid_t> pids() const;
  std::set<pid_t> stopped() const;
};

}  // namespace ckpt::tools
