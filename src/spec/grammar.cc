#include "spec/grammar.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "spec/number.h"
#include "spec/quote.h"

namespace bole::spec {
namespace {

constexpr auto kNameExpected = "1 to 63 of a-z, 0-9 and '-', with a letter or digit at both ends";
constexpr auto kPortExpected =
    "PORT, HOSTPORT:PORT or ADDRESS:HOSTPORT:PORT, ports from 1 to 65535";
constexpr auto kMountExpected = "SOURCE:TARGET or SOURCE:TARGET:ro";

Error refuse(std::string what, std::string_view expected, std::string hint = {}) {
  return makeError(ErrorCode::kInvalid, std::move(what))
      .expectedValue(std::string(expected))
      .withHint(std::move(hint));
}

// A name that would be right, made of one that is not; "" where nothing is left.
std::string repairName(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const char low = toLower(c);
    if (isLower(low) || isDigit(low))
      out += low;
    else if (!out.empty() && out.back() != '-')
      out += '-';
  }
  if (out.size() > kMaxNameLength) out.resize(kMaxNameLength);
  while (out.ends_with('-')) out.pop_back();
  return out;
}

std::optional<std::uint16_t> parsePortNumber(std::string_view text) {
  const auto size = text.size();
  const auto number = takeWhole(text);
  if (!number || !text.empty() || size > 5 || *number < 1 || *number > 65'535) return std::nullopt;
  return static_cast<std::uint16_t>(*number);
}

bool isAddress(const std::string& text) {
  unsigned char bytes[sizeof(in6_addr)];
  return inet_pton(AF_INET, text.c_str(), bytes) == 1 ||
         inet_pton(AF_INET6, text.c_str(), bytes) == 1;
}

// "[::1]:8080:80" to {"::1", "8080:80"}; {"", text} where no brackets stand.
std::pair<std::string, std::string_view> takeBracketed(std::string_view text) {
  if (!text.starts_with('[')) return {"", text};
  const auto end = text.find("]:");
  if (end == std::string_view::npos) return {"", text};
  return {std::string(text.substr(1, end - 1)), text.substr(end + 2)};
}

bool isBelow(std::string_view path, std::string_view directory) {
  return path == directory || (path.starts_with(directory) && path.size() > directory.size() &&
                               path[directory.size()] == '/');
}

Result<std::string> checkTarget(std::string_view target) {
  if (!target.starts_with('/'))
    return fail(refuse("the target of a mount is not absolute", "a path that begins with '/'"));
  BOLE_ASSIGN(auto path, resolvePath(target, "/"));
  if (path == "/") return fail(refuse("a mount cannot cover '/'", "a directory below"));
  if (path == "/dev/shm") return fail(refuse("/dev/shm is no mount", "the field shm_size"));
  for (const auto* kept : {"/proc", "/sys", "/dev"}) {
    if (isBelow(path, kept))
      return fail(refuse(fmt::format("a mount cannot cover {}", kept), "another directory"));
  }
  return path;
}

}  // namespace

Result<std::string> parseName(std::string_view text) {
  const auto good = [](char c) { return isLower(c) || isDigit(c) || c == '-'; };
  if (!text.empty() && text.size() <= kMaxNameLength &&
      std::all_of(text.begin(), text.end(), good) && text.front() != '-' && text.back() != '-') {
    return std::string(text);
  }
  const auto repaired = repairName(text);
  return fail(refuse("not a name", kNameExpected,
                     repaired.empty() ? "" : fmt::format("for example '{}'", repaired)));
}

Result<std::string> parseJobName(std::string_view text) {
  BOLE_ASSIGN(auto name, parseName(text));
  if (!std::all_of(name.begin(), name.end(), isDigit)) return name;
  return fail(refuse("a job's name made of digits alone", "a letter in it",
                     "digits alone are a job's number: write 'job-" + name + "'"));
}

Result<std::string> parseEnvName(std::string_view text) {
  const auto good = [](char c) { return isLetter(c) || isDigit(c) || c == '_'; };
  constexpr std::size_t kLongest = 256;
  if (!text.empty() && text.size() <= kLongest && !isDigit(text[0]) &&
      std::all_of(text.begin(), text.end(), good)) {
    return std::string(text);
  }
  return fail(refuse("not the name of an environment variable",
                     "letters, digits and '_', not beginning with a digit"));
}

Result<model::Port> parsePort(std::string_view text) {
  auto rest = trim(text);
  if (rest.ends_with("/tcp")) rest.remove_suffix(4);
  if (rest.find('/') != std::string_view::npos)
    return fail(refuse("only TCP ports can be published", kPortExpected));
  if (rest.find('-') != std::string_view::npos)
    return fail(refuse("a range of ports", kPortExpected, "write one port an entry"));
  if (rest.starts_with("[]")) return fail(refuse("no address in the brackets", kPortExpected));
  model::Port port;
  auto [address, ports] = takeBracketed(rest);
  const auto last = ports.rfind(':');
  const auto container =
      parsePortNumber(last == std::string_view::npos ? ports : ports.substr(last + 1));
  if (!container) return fail(refuse("not a port", kPortExpected));
  port.container = *container;
  if (last == std::string_view::npos) {
    if (address.empty()) return port;
    return fail(refuse("an address with one port", kPortExpected));
  }
  ports = ports.substr(0, last);
  const auto middle = ports.rfind(':');
  if (middle != std::string_view::npos && address.empty()) {
    address = std::string(ports.substr(0, middle));
    ports = ports.substr(middle + 1);
    if (address.find(':') != std::string::npos)
      return fail(
          refuse("not a port", kPortExpected, "IPv6 addresses stand in brackets: [::1]:8080:80"));
  }
  const auto host = parsePortNumber(ports);
  if (!host) return fail(refuse("not a port", kPortExpected));
  port.host = *host;
  if (address.empty() && middle == std::string_view::npos) return port;
  if (!isAddress(address))
    return fail(refuse("not an address", "an IP address, for example 127.0.0.1"));
  port.address = address;
  return port;
}

Result<std::string> resolvePath(std::string_view path, std::string_view directory) {
  constexpr std::size_t kLongest = 4096;
  if (path.empty()) return fail(refuse("an empty path", "a path"));
  if (path.starts_with('~') || path.starts_with('$')) {
    return fail(refuse("a path that only a shell would expand",
                       "an absolute path, or one relative to the job's directory"));
  }
  if (std::any_of(path.begin(), path.end(), isControl))
    return fail(refuse("a path with control characters", "a path"));
  std::vector<std::string_view> parts;
  const auto walk = [&](std::string_view text) {
    while (!text.empty()) {
      const auto slash = std::min(text.find('/'), text.size());
      const auto part = text.substr(0, slash);
      if (part == "..") {
        if (!parts.empty()) parts.pop_back();
      } else if (!part.empty() && part != ".") {
        parts.push_back(part);
      }
      text.remove_prefix(std::min(slash + 1, text.size()));
    }
  };
  if (!path.starts_with('/')) walk(directory);
  walk(path);
  std::string out;
  for (const auto part : parts) out.append("/").append(part);
  if (out.size() > kLongest) return fail(refuse("a path that is too long", "at most 4096 bytes"));
  return out.empty() ? "/" : out;
}

Result<model::Mount> makeMount(std::string_view source, std::string_view target,
                               std::string_view directory) {
  model::Mount mount;
  if (source.find('/') == std::string_view::npos && source != "." && source != "..") {
    return fail(refuse("the source of a mount is not a path", "a path: /data, ./data",
                       source.empty() ? ""
                                      : fmt::format("for the directory beside this file write ./{}",
                                                    shown(source))));
  }
  BOLE_ASSIGN(mount.source, resolvePath(source, directory));
  BOLE_ASSIGN(mount.target, checkTarget(target));
  return mount;
}

Result<model::Mount> parseMount(std::string_view text, std::string_view directory) {
  const auto colon = text.find(':');
  if (colon == std::string_view::npos)
    return fail(refuse("a mount without a target", kMountExpected));
  auto target = text.substr(colon + 1);
  bool readOnly = false;
  if (const auto second = target.find(':'); second != std::string_view::npos) {
    const auto mode = target.substr(second + 1);
    if (mode != "ro" && mode != "rw") return fail(refuse("not the mode of a mount", "ro or rw"));
    readOnly = mode == "ro";
    target = target.substr(0, second);
  }
  BOLE_ASSIGN(auto mount, makeMount(text.substr(0, colon), target, directory));
  mount.readOnly = readOnly;
  return mount;
}

Result<std::string> parseImage(std::string_view text) {
  const auto good = [](char c) {
    return isLetter(c) || isDigit(c) ||
           std::string_view("._/:@-").find(c) != std::string_view::npos;
  };
  constexpr std::size_t kLongest = 512;
  if (!text.empty() && text.size() <= kLongest && std::all_of(text.begin(), text.end(), good) &&
      (isLetter(text[0]) || isDigit(text[0])) && (isLetter(text.back()) || isDigit(text.back()))) {
    return std::string(text);
  }
  return fail(refuse("not the name of an image", "for example docker.io/library/debian:12"));
}

}  // namespace bole::spec
