// Directories and small files of the engine's own. Nothing here ever follows a symbolic link that a
// job may have made, and nothing leaves the file system that it starts on.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "base/units.h"

namespace bole::engine {

class Fd {
 public:
  Fd() = default;
  explicit Fd(int number) : number_(number) {}
  Fd(Fd&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Fd();

  [[nodiscard]] int get() const { return number_; }
  [[nodiscard]] bool isOpen() const { return number_ >= 0; }
  void close() { *this = Fd(); }
  [[nodiscard]] int release() { return std::exchange(number_, -1); }

 private:
  int number_ = -1;
};

[[nodiscard]] bool exists(const std::string& path);

// The directory, and those above it where they are missing, whatever the umask. One that is there
// already is left as it is.
[[nodiscard]] Result<void> makeDirectories(const std::string& path, mode_t mode);

// Complete or absent; not flushed: for what can be written again.
[[nodiscard]] Result<void> writeFile(const std::string& path, std::string_view content,
                                     mode_t mode);

// At most `maximum` bytes of it; kNotFound where there is none.
[[nodiscard]] Result<std::string> readFile(const std::string& path, std::size_t maximum);

// The tree, whatever is in it; nothing there is no error.
[[nodiscard]] Result<void> removeTree(const std::string& path);

// All that lies in `path`, but for entries of these names.
[[nodiscard]] Result<void> removeTreeBut(const std::string& path, const std::string& keepOne,
                                         const std::string& keepTwo);

// Of a file, or of all files in a tree; 0 where a link is in the way, nothing where nothing is
// there. Looks at no more than `entriesLeft` names, which it counts down: a job may fill a tree
// without end.
[[nodiscard]] std::optional<Bytes> sizeOfTree(const std::string& root, const std::string& relative,
                                              std::size_t& entriesLeft);

// `relative` below `root` as a directory, or an error: no link is followed on the way.
[[nodiscard]] Result<Fd> openBelow(const std::string& root, const std::string& relative);

}  // namespace bole::engine
