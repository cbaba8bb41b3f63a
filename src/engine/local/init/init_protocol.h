// What bole-supervise and bole-init say to each other. Plain C++ without a library, since bole-init
// links none.
//
// bole-init inherits three descriptors and nothing else above 2; its command inherits none of them:
//   kConfigFd  read once, to its end: pairs of NUL-terminated strings, a key and a value (the keys
//   below). Arguments and
//              environment travel here and in no command line, so that nobody sees them in /proc.
//   kSocketFd  SOCK_SEQPACKET, both ways, one text a packet. It is also the life line: at its end
//   init kills the tree. kStatusFd  the file of the status record, written once.
#pragma once

namespace bole::init {

inline constexpr int kConfigFd = 3;
inline constexpr int kSocketFd = 4;
inline constexpr int kStatusFd = 5;

// Keys of the configuration. "arg" and "env" come as often as there are; all others at most once.
inline constexpr char kArg[] = "arg";
inline constexpr char kEnv[] = "env";  // "NAME=value"
// "1": what init itself was given (an image's variables) holds where `env` does not say otherwise.
inline constexpr char kInherit[] = "inherit";
inline constexpr char kCwd[] = "cwd";
inline constexpr char kUid[] = "uid";  // absent: stays who it is
inline constexpr char kGid[] = "gid";
// "1": the command gets no capability, no new privileges, no keys of others, and makes no
// namespaces.
inline constexpr char kConfine[] = "confine";
inline constexpr char kFiles[] = "nofile";     // soft limit of open files, cut to the hard one
inline constexpr char kProcesses[] = "nproc";  // limit of processes of the uid, cut to the hard one

// Init to supervisor.
// First: where the command is to run is complete. The credentials of the packet tell init's pid.
inline constexpr char kHello[] = "hello";
inline constexpr char kStarted[] = "started";  // the command has been exec'ed
inline constexpr char kExecFailed[] =
    "exec-failed";                         // "exec-failed ERRNO STEP"; the record is on disk
inline constexpr char kEnded[] = "ended";  // "ended RAW-STATUS MAX-RSS-KIB"; the record is on disk

// Supervisor to init.
// Start the command. It comes when every rank has said hello: no command runs while another rank's
// place is being made, so that none can turn the paths that are mounted there. Whatever comes
// before it ends init with nothing run.
inline constexpr char kGo[] = "go";
inline constexpr char kSignal[] =
    "signal";  // "signal NUMBER", to the command's process group; 9 goes to all

// `bole-init --hold` does nothing until it is told to end: it keeps a container's network.
inline constexpr char kHold[] = "--hold";

}  // namespace bole::init
