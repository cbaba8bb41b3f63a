#include "ledger/advice.h"

#include <fmt/format.h>

#include "ledger/opening.h"

namespace bole::ledger {

namespace {

std::string shellQuoted(const std::string& path) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+=:,./-_";
  if (!path.empty() && path.find_first_not_of(kPlain) == std::string::npos) return path;
  std::string out = "'";
  for (const char c : path) c == '\'' ? out += "'\\''" : out += c;
  return out + "'";
}

}  // namespace

std::string commandFor(std::string_view command, const std::string& home) {
  return fmt::format("'bole {} --home {}'", command, shellQuoted(home));
}

std::string homeOf(const std::string& path) {
  const auto name = ledgerPath("");
  return path.ends_with(name) ? path.substr(0, path.size() - name.size()) : std::string();
}

std::string absenceAdvice(const std::string& path) {
  const auto home = homeOf(path);
  if (home.empty()) return "";
  return "start a server with " + commandFor("up", home) + ", or choose another home with --home";
}

std::string damageAdvice(const std::string& path) {
  const auto home = homeOf(path);
  if (home.empty()) return "this copy is not as it was written: use another one";
  return "it is not as it was written: stop the server, move the home away and keep it for an "
         "inquiry, then restore the newest good backup with " +
         commandFor("restore BACKUP", home);
}

Error advised(Error error, const std::string& path) {
  if (error.code == ErrorCode::kCorrupt && error.hint.empty()) error.hint = damageAdvice(path);
  return error;
}

}  // namespace bole::ledger
