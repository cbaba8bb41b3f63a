// listFiles() of pack.h.
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <map>
#include <set>

#include "cli/ignore.h"
#include "cli/pack.h"

namespace bole::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxEntries = 100'000;
constexpr std::size_t kMaxRules = 1024 * 1024;  // bytes of one .gitignore
constexpr std::size_t kMaxDepth = 128;
constexpr std::size_t kLargestNamed = 3;

std::string joined(const std::string& directory, const std::string& name) {
  return directory.empty() ? name : directory + "/" + name;
}

std::string parentOf(const std::string& path) {
  const auto at = path.rfind('/');
  return at == std::string::npos ? std::string() : path.substr(0, at);
}

bool exists(const std::string& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0;
}

// Whether a link at `path` that says `target` stays below the top.
bool staysInside(const std::string& path, const std::string& target) {
  if (target.empty() || target.front() == '/') return false;
  const auto reached = (fs::path(parentOf(path)) / target).lexically_normal();
  return reached.empty() || *reached.begin() != "..";
}

std::string sizeText(std::uint64_t bytes) {
  return formatBytes(Bytes(static_cast<std::int64_t>(bytes)));
}

class Lister {
 public:
  explicit Lister(const PackRequest& request) : request_(request) {}

  Result<Listing> list() {
    BOLE_TRY(readRulesAbove());
    if (request_.files.empty()) {
      BOLE_TRY(walk("", 0));
    } else {
      for (const auto& file : request_.files) BOLE_TRY(takeNamed(file));
    }
    BOLE_TRY(checkSize());
    return std::move(listing_);
  }

 private:
  [[nodiscard]] std::string absolute(const std::string& path) const {
    return path.empty() ? request_.directory : request_.directory + "/" + path;
  }
  // As the rules see it: from the repository's top.
  [[nodiscard]] std::string fromTop(const std::string& path) const {
    return path.empty() ? below_ : joined(below_, path);
  }

  Result<void> addRules(const std::string& directory, const std::string& place) {
    const auto path = directory + "/.gitignore";
    if (!exists(path)) return {};
    BOLE_ASSIGN(const auto text, readFile(path, kMaxRules));
    rules_.add(place, text);
    return {};
  }

  // Those of the directories between the top of the repository, if this is one, and the directory
  // that is packed.
  Result<void> readRulesAbove() {
    std::string top = request_.directory;
    while (!exists(top + "/.git")) {
      if (top.empty()) return {};  // no repository
      top = parentOf(top);
    }
    if (top.size() >= request_.directory.size()) return {};
    below_ = request_.directory.substr(top.size() + 1);
    std::string place;
    for (const auto& part : fs::path(below_)) {
      BOLE_TRY(addRules(place.empty() ? top : top + "/" + place, place));
      place = joined(place, part.string());
    }
    return {};
  }

  Result<void> takeNamed(const std::string& file) {
    auto path = fs::path(file).lexically_normal().string();
    while (path.ends_with('/')) path.pop_back();
    if (path == "." || path.empty()) return walk("", 0);
    if (path.starts_with("/") || path == ".." || path.starts_with("../")) {
      return fail(makeError(ErrorCode::kInvalid, "files: outside of the job's directory")
                      .foundValue("'" + file + "'")
                      .expectedValue("a path below " + request_.directory));
    }
    if (!exists(absolute(path))) {
      return fail(makeError(ErrorCode::kNotFound, "files: there is no such file")
                      .at(request_.directory)
                      .foundValue("'" + file + "'"));
    }
    const auto before = rules_.size();
    std::string place;
    for (const auto& part : fs::path(parentOf(path))) {
      BOLE_TRY(addRules(absolute(place), fromTop(place)));
      place = joined(place, part.string());
    }
    BOLE_TRY(addRules(absolute(place), fromTop(place)));
    BOLE_TRY(take(path, 1));
    rules_.shrink(before);
    return {};
  }

  Result<std::vector<std::string>> namesIn(const std::string& path) const {
    std::error_code error;
    std::vector<std::string> names;
    fs::directory_iterator entries(absolute(path), error);
    for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
      names.push_back(entries->path().filename().string());
    }
    if (error) return fail(systemError(error.value(), "cannot list the directory", absolute(path)));
    std::sort(names.begin(), names.end());
    return names;
  }

  Result<void> walk(const std::string& path, std::size_t depth) {
    if (depth > kMaxDepth) {
      return fail(
          makeError(ErrorCode::kInvalid, "directories are nested too deep").at(absolute(path)));
    }
    const auto before = rules_.size();
    BOLE_TRY(addRules(absolute(path), fromTop(path)));
    BOLE_ASSIGN(const auto names, namesIn(path));
    for (const auto& name : names) {
      const auto inner = joined(path, name);
      if (name == ".git") continue;
      struct stat info {};
      if (::lstat(absolute(inner).c_str(), &info) != 0) continue;  // gone meanwhile
      if (rules_.ignores(fromTop(inner), S_ISDIR(info.st_mode))) continue;
      BOLE_TRY(take(inner, depth + 1));
    }
    rules_.shrink(before);
    return {};
  }

  Result<void> take(const std::string& path, std::size_t depth) {
    struct stat info {};
    if (::lstat(absolute(path).c_str(), &info) != 0) {
      return fail(systemError(errno, "cannot look at the file", absolute(path)));
    }
    if (absolute(path) == request_.leftOut || !seen_.insert(path).second) return {};
    Entry entry;
    entry.path = path;
    entry.mode = info.st_mode;
    entry.modified = info.st_mtim.tv_sec;
    if (S_ISDIR(info.st_mode)) {
      BOLE_TRY(keep(std::move(entry)));
      return walk(path, depth);
    }
    if (S_ISLNK(info.st_mode)) return takeLink(std::move(entry));
    if (!S_ISREG(info.st_mode)) return {};
    entry.size = static_cast<std::uint64_t>(info.st_size);
    return keep(std::move(entry));
  }

  Result<void> takeLink(Entry entry) {
    std::array<char, 4096> target{};
    const auto size = ::readlink(absolute(entry.path).c_str(), target.data(), target.size());
    if (size < 0) return fail(systemError(errno, "cannot read the link", absolute(entry.path)));
    entry.target.assign(target.data(), static_cast<std::size_t>(size));
    if (staysInside(entry.path, entry.target)) return keep(std::move(entry));
    listing_.warnings.push_back(fmt::format(
        "{} is left out: it is a link to {}, outside of the job's directory; mount that instead",
        entry.path, entry.target));
    return {};
  }

  Result<void> keep(Entry entry) {
    if (listing_.entries.size() == kMaxEntries) {
      return fail(makeError(ErrorCode::kRefused, "too many files to bring along")
                      .at(request_.directory)
                      .expectedValue(fmt::format("at most {}", kMaxEntries))
                      .withHint("name those that are needed in `files`, leave the others out by "
                                ".gitignore, or use --no-upload"));
    }
    listing_.bytes += entry.size;
    listing_.entries.push_back(std::move(entry));
    return {};
  }

  // "data/ (1.1 GiB), model.bin (80 MiB)": by what stands at the top.
  [[nodiscard]] std::string largest() const {
    std::map<std::string, std::uint64_t> sizes;
    for (const auto& entry : listing_.entries) {
      const auto slash = entry.path.find('/');
      sizes[slash == std::string::npos ? entry.path : entry.path.substr(0, slash + 1)] +=
          entry.size;
    }
    std::vector<std::pair<std::uint64_t, std::string>> order;
    for (const auto& [name, size] : sizes) {
      if (size > 0) order.emplace_back(size, name);
    }
    std::sort(order.rbegin(), order.rend());
    order.resize(std::min(order.size(), kLargestNamed));
    std::string text;
    for (const auto& [size, name] : order) {
      text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", name, sizeText(size));
    }
    return text;
  }

  Result<void> checkSize() const {
    if (listing_.bytes <= static_cast<std::uint64_t>(request_.limit.value)) return {};
    const auto file =
        std::max_element(listing_.entries.begin(), listing_.entries.end(),
                         [](const Entry& a, const Entry& b) { return a.size < b.size; });
    return fail(makeError(ErrorCode::kRefused, "the job's files are too large to bring along")
                    .at(request_.directory)
                    .foundValue(fmt::format("{}; most of it in {}; the largest file is {} ({})",
                                            sizeText(listing_.bytes), largest(), file->path,
                                            sizeText(file->size)))
                    .expectedValue("at most " + formatBytes(request_.limit))
                    .withHint("leave data out by .gitignore or `files` and mount it (mounts, -v), "
                              "or use --no-upload"));
  }

  const PackRequest& request_;
  std::string below_;  // the directory, from the repository's top
  IgnoreRules rules_;
  std::set<std::string> seen_;
  Listing listing_;
};

}  // namespace

Result<Listing> listFiles(const PackRequest& request) {
  return Lister(request).list();
}

}  // namespace bole::cli
