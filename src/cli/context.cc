#include "cli/context.h"

#include <algorithm>
#include <filesystem>

#include "cli/files.h"
#include "cli/text.h"

namespace bole::cli {
namespace {

constexpr std::size_t kPlainWidth = 100;  // where no terminal says
constexpr std::size_t kLeastWidth = 60;
constexpr std::size_t kMaxToken = 4096;

}  // namespace

Context::Context(Environment& environment, Common common)
    : environment_(environment), common_(std::move(common)) {
  home_ = common_.home.empty() ? variable("BOLE_HOME") : common_.home;
  if (home_.empty()) home_ = environment_.homeDirectory + "/.local/share/bole";
  home_ = absolute(home_);
}

std::string Context::variable(const std::string& name) const {
  const auto found = environment_.variables.find(name);
  return found == environment_.variables.end() ? std::string() : found->second;
}

std::string Context::sameServer() const {
  std::string text;
  if (!common_.home.empty()) text += " --home " + shellQuoted(home_);
  if (!common_.server.empty()) text += " --server " + shellQuoted(common_.server);
  return text;
}

std::string Context::startCommand() const {
  return common_.home.empty() ? "bole up" : "bole up --home " + shellQuoted(home_);
}

std::string Context::absolute(const std::string& path) const {
  namespace fs = std::filesystem;
  auto text = (fs::path(environment_.workingDirectory) / path).lexically_normal().string();
  while (text.size() > 1 && text.back() == '/') text.pop_back();
  return text;
}

Result<std::string> Context::token() const {
  const auto named = variable("BOLE_TOKEN_FILE");
  const auto path = named.empty() ? home_ + "/token" : absolute(named);
  auto text = readFile(path, kMaxToken);
  if (!text) {
    return fail(std::move(text).error().withHint(
        "name the file with the server's token in BOLE_TOKEN_FILE"));
  }
  while (!text->empty() && (text->back() == '\n' || text->back() == '\r')) text->pop_back();
  const bool plain =
      std::all_of(text->begin(), text->end(), [](char c) { return c > ' ' && c < 127; });
  if (!text->empty() && plain) return text;
  return fail(makeError(ErrorCode::kInvalid, "this file holds no token")
                  .at(path)
                  .expectedValue("one line of printable characters"));
}

Result<Address> Context::address() const {
  Address address;
  address.startCommand = startCommand();
  auto url = common_.server;
  if (url.empty() && common_.home.empty()) url = variable("BOLE_SERVER");
  if (url.empty()) {
    address.socketPath = home_ + "/bole.sock";
    return address;
  }
  BOLE_ASSIGN(address.url, checkedServerUrl(url));
  BOLE_ASSIGN(address.token, token());
  return address;
}

Result<Client*> Context::client() {
  if (!client_) {
    BOLE_ASSIGN(auto where, address());
    client_ = std::make_unique<Client>(std::move(where));
  }
  return client_.get();
}

Result<std::string> Context::get(const std::string& path) {
  BOLE_ASSIGN(auto* server, client());
  return server->get(path);
}

Result<std::string> Context::post(const std::string& path, std::string body) {
  BOLE_ASSIGN(auto* server, client());
  return server->post(path, std::move(body));
}

Result<std::string> Context::put(const std::string& path, std::string body) {
  BOLE_ASSIGN(auto* server, client());
  return server->put(path, std::move(body));
}

bool Context::print(std::string_view text) {
  if (!closed_ && !text.empty()) closed_ = !environment_.out(text);
  return !closed_;
}

bool Context::printJson(std::string_view body) {
  return print(std::string(body) + "\n");
}

void Context::printError(std::string_view text) {
  // Nothing is left to do where nobody reads this either.
  if (!text.empty()) static_cast<void>(environment_.err(text));
}

void Context::tell(const std::string& line) {
  printError("bole: " + neutralised(line) + "\n");
}

int Context::report(const Error& error) {
  printError(errorText(error));
  return exitCodeOf(error.code);
}

TableStyle Context::styleOf(bool terminal) const {
  TableStyle style{kPlainWidth, false};
  if (!terminal) return style;
  const int columns = environment_.columns ? environment_.columns() : 0;
  if (columns > 0) style.width = std::max(kLeastWidth, static_cast<std::size_t>(columns));
  style.colour = variable("NO_COLOR").empty() && variable("TERM") != "dumb";
  return style;
}

TableStyle Context::outStyle() const {
  return styleOf(environment_.stdoutIsTerminal);
}
TableStyle Context::errorStyle() const {
  return styleOf(environment_.stderrIsTerminal);
}

}  // namespace bole::cli
