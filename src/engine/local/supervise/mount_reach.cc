#include "engine/local/supervise/mount_reach.h"

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <optional>

#include "engine/local/supervise/posix.h"

namespace bole::supervise {
namespace {

constexpr std::string_view kNameless = "uid:";

struct User {
  uid_t uid = 0;
  gid_t gid = 0;
  std::string name;  // empty: nobody knows his groups
};

struct Answer {
  int error = 0;
  Reached found;
};

std::optional<User> userCalled(const std::string& name) {
  if (name.compare(0, kNameless.size(), kNameless) == 0) {
    const auto uid = static_cast<uid_t>(std::strtoul(name.c_str() + kNameless.size(), nullptr, 10));
    return User{uid, uid, ""};
  }
  const auto* known = ::getpwnam(name.c_str());
  if (!known) return std::nullopt;
  return User{known->pw_uid, known->pw_gid, name};
}

[[noreturn]] void answerAs(const User& user, const std::vector<std::string>& paths, int to) {
  const bool groups = user.name.empty() ? ::setgroups(0, nullptr) == 0
                                        : ::initgroups(user.name.c_str(), user.gid) == 0;
  if (!groups || ::setresgid(user.gid, user.gid, user.gid) != 0 ||
      ::setresuid(user.uid, user.uid, user.uid) != 0) {
    ::_exit(1);
  }
  for (const auto& path : paths) {
    struct stat facts {};
    Answer answer;
    if (::stat(path.c_str(), &facts) != 0) answer.error = errno;
    answer.found = {facts.st_dev, facts.st_ino};
    if (::write(to, &answer, sizeof answer) != static_cast<ssize_t>(sizeof answer)) ::_exit(1);
  }
  ::_exit(0);
}

// As many as there are paths, or fewer where it could not look.
std::vector<Answer> askAs(const User& user, const std::vector<std::string>& paths) {
  int ends[2];
  std::vector<Answer> answers;
  if (::pipe2(ends, O_CLOEXEC) != 0) return answers;
  const Fd from(ends[0]);
  Fd to(ends[1]);
  const pid_t child = ::fork();
  if (child == 0) answerAs(user, paths, to.get());
  to.close();
  Answer answer;
  while (child > 0 && ::read(from.get(), &answer, sizeof answer) == sizeof answer) {
    answers.push_back(answer);
  }
  if (child > 0) ::waitpid(child, nullptr, 0);
  return answers;
}

}  // namespace

Result<std::map<std::string, Reached>> reachedBy(const std::string& user,
                                                 const std::vector<std::string>& paths) {
  std::map<std::string, Reached> reached;
  if (user.empty() || paths.empty()) return reached;
  const auto who = userCalled(user);
  if (!who) {
    return fail(makeError(ErrorCode::kNotFound, "who wants these mounts is not known here")
                    .foundValue(user));
  }
  if (who->uid == 0) return reached;
  const auto answers = askAs(*who, paths);
  if (answers.size() != paths.size()) {
    return fail(ErrorCode::kUnavailable, "cannot find out what " + user + " may have mounted");
  }
  for (std::size_t i = 0; i < paths.size(); ++i) {
    if (answers[i].error == EACCES) {
      return fail(makeError(ErrorCode::kPermission,
                            user + " cannot reach this, so it is not mounted into his jobs")
                      .at(paths[i]));
    }
    if (answers[i].error != 0) {
      return fail(makeError(ErrorCode::kInvalid, "a mount's source is not there").at(paths[i]));
    }
    reached[paths[i]] = answers[i].found;
  }
  return reached;
}

}  // namespace bole::supervise
