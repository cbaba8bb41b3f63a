#include "engine/local/supervise/rank_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "engine/local/init/init_protocol.h"
#include "engine/local/init/signals.h"
#include "engine/local/supervise/processes.h"

namespace bole::supervise {
namespace {

struct Pipe {
  Fd read;
  Fd write;
};

Result<Pipe> makePipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return fail(systemError(errno, "cannot make a pipe", ""));
  Pipe pipe{Fd(ends[0]), Fd(ends[1])};
  ::fcntl(pipe.read.get(), F_SETFL, O_NONBLOCK);
  return pipe;
}

Result<Fd> statusFile(const std::string& dir, std::uint32_t rank) {
  const auto path = dir + "/ranks/" + std::to_string(rank) + "/status";
  BOLE_ASSIGN(auto file,
              openFile(path, O_RDWR | O_CREAT | O_EXCL, 0600, "cannot make the status file"));
  ::fallocate(file.get(), FALLOC_FL_KEEP_SIZE, 0,
              4096);  // not every file system can; then it is not had
  return file;
}

// Between fork and exec: only what is safe there.
[[noreturn]] void becomeChild(const std::vector<int>& wanted, char* const* argv, int complain) {
  // First out of the way of the numbers to come, then onto them.
  std::vector<int> moved(wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) moved[i] = ::fcntl(wanted[i], F_DUPFD, 100);
  const int told = ::fcntl(complain, F_DUPFD_CLOEXEC, 100);
  for (std::size_t i = 0; i < moved.size(); ++i) ::dup2(moved[i], static_cast<int>(i));
  for (const int number : moved) ::close(number);
  ::syscall(SYS_close_range, static_cast<unsigned>(moved.size()), static_cast<unsigned>(told - 1),
            0);
  ::syscall(SYS_close_range, static_cast<unsigned>(told + 1), ~0u, 0);
  ::setsid();
  defaultSignals();
  ::umask(022);  // the job's, and of the directories that bubblewrap makes
  ::execv(argv[0], argv);
  const int error = errno;
  static_cast<void>(!::write(told, &error, sizeof error));
  ::_exit(127);
}

// Words are told apart by zero bytes, here and by bubblewrap: one with such a byte in it would be
// several.
bool isOneWord(const std::string& word) {
  return word.find('\0') == std::string::npos;
}

}  // namespace

Result<void> spawnRank(const std::string& dir, SpawnPlan plan, RankProcess& rank) {
  if (!std::all_of(plan.config.begin(), plan.config.end(), isOneWord)) {
    return fail(ErrorCode::kInvalid,
                "a zero byte stands in the command, its environment or its directory");
  }
  BOLE_ASSIGN(auto null, openFile("/dev/null", O_RDONLY, 0, "cannot open"));
  BOLE_ASSIGN(auto out, makePipe());
  BOLE_ASSIGN(auto err, makePipe());
  BOLE_ASSIGN(auto failed, makePipe());
  BOLE_ASSIGN(auto status, statusFile(dir, rank.launch->rank));
  std::string text;
  for (const auto& word : plan.config) text.append(word).push_back('\0');
  BOLE_ASSIGN(auto config, memoryFile(text, "rank"));
  int sockets[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0) {
    return fail(systemError(errno, "cannot make a socket pair", ""));
  }
  Fd ours(sockets[0]);
  Fd theirs(sockets[1]);
  const int on = 1;
  ::setsockopt(ours.get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof on);
  ::fcntl(ours.get(), F_SETFL, O_NONBLOCK);

  std::vector<char*> argv;
  for (auto& word : plan.argv) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::vector<int> wanted = {null.get(),   out.write.get(), err.write.get(),
                             config.get(), theirs.get(),    status.get()};
  for (const auto& file : plan.extra) wanted.push_back(file.get());
  std::vector<Fd> doors;
  for (const auto& path : plan.entrances) {
    if (auto door = openFile(path, O_WRONLY, 0, "cannot join")) doors.push_back(std::move(*door));
  }
  const pid_t child = ::fork();
  if (child < 0) return fail(systemError(errno, "cannot start a process", ""));
  if (child == 0) {
    for (const auto& door : doors) static_cast<void>(!::write(door.get(), "0", 1));
    becomeChild(wanted, argv.data(), failed.write.get());
  }
  rank.child = child;
  rank.reaped = false;
  rank.socket = std::move(ours);
  rank.out = std::move(out.read);
  rank.err = std::move(err.read);
  failed.write.close();
  ::fcntl(failed.read.get(), F_SETFL, 0);
  int error = 0;
  if (::read(failed.read.get(), &error, sizeof error) == static_cast<ssize_t>(sizeof error)) {
    return fail(systemError(error, "cannot run", plan.argv[0]));
  }
  return {};
}

std::optional<InitMessage> receiveFrom(const Fd& socket) {
  char text[256];
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(ucred))];
  iovec part{text, sizeof text - 1};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  const auto size = ::recvmsg(socket.get(), &header, MSG_DONTWAIT);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return std::nullopt;
  InitMessage message;
  if (size <= 0) return message;
  message.text.assign(text, static_cast<std::size_t>(size));
  for (auto* part2 = CMSG_FIRSTHDR(&header); part2; part2 = CMSG_NXTHDR(&header, part2)) {
    if (part2->cmsg_level != SOL_SOCKET || part2->cmsg_type != SCM_CREDENTIALS) continue;
    ucred who{};
    std::memcpy(&who, CMSG_DATA(part2), sizeof who);
    message.sender = who.pid;
  }
  return message;
}

void signalInit(const Fd& socket, int number) {
  sendTo(socket, std::string(init::kSignal) + " " + std::to_string(number));
}

void sendTo(const Fd& socket, const std::string& text) {
  if (!socket.isOpen()) return;
  static_cast<void>(!::send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
}

}  // namespace bole::supervise
