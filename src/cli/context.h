// What one call of the program works with: where the server is, where text goes and how it looks
// there.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "cli/cli.h"
#include "cli/decode.h"
#include "cli/http.h"
#include "cli/options.h"
#include "cli/table.h"

namespace bole::cli {

class Context {
 public:
  // The environment outlives the Context.
  Context(Environment& environment, Common common);

  [[nodiscard]] Environment& environment() { return environment_; }
  [[nodiscard]] bool json() const { return common_.json; }
  [[nodiscard]] const std::string& home() const { return home_; }  // absolute

  // What another call needs to reach the same server: "" or " --home DIR".
  [[nodiscard]] std::string sameServer() const;

  // What starts a server in this home: "bole up" or "bole up --home DIR".
  [[nodiscard]] std::string startCommand() const;

  // The variable's value; empty where it is not set.
  [[nodiscard]] std::string variable(const std::string& name) const;
  [[nodiscard]] std::string absolute(const std::string& path) const;

  // Made at the first call. Errors: a wrong address, a token that cannot be read.
  [[nodiscard]] Result<Client*> client();
  [[nodiscard]] Result<std::string> get(const std::string& path);
  [[nodiscard]] Result<std::string> post(const std::string& path, std::string body);
  [[nodiscard]] Result<std::string> put(const std::string& path, std::string body);
  template <class T>
  [[nodiscard]] Result<T> fetch(const std::string& path) {
    BOLE_ASSIGN(const auto body, get(path));
    return decode<T>(body);
  }

  // To standard output; false once nobody reads it any more.
  bool print(std::string_view text);
  bool printJson(std::string_view body);
  // To standard error.
  void printError(std::string_view text);
  void tell(const std::string& line);  // "bole: LINE"
  // The error in one or two lines, and the exit code that it means.
  int report(const Error& error);

  [[nodiscard]] bool outputClosed() const { return closed_; }

  [[nodiscard]] TableStyle outStyle() const;
  [[nodiscard]] TableStyle errorStyle() const;

 private:
  [[nodiscard]] Result<Address> address() const;
  [[nodiscard]] Result<std::string> token() const;
  [[nodiscard]] TableStyle styleOf(bool terminal) const;

  Environment& environment_;
  Common common_;
  std::string home_;
  std::unique_ptr<Client> client_;
  bool closed_ = false;
};

}  // namespace bole::cli
