// Files as the command line reads them: whole, bounded, with errors that name the path.
#pragma once

#include <cstddef>
#include <string>

#include "base/result.h"

namespace bole::cli {

// Closes itself.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept : number_(other.number_) { other.number_ = -1; }
  Descriptor& operator=(Descriptor&& other) noexcept;
  [[nodiscard]] int get() const { return number_; }
  [[nodiscard]] bool isOpen() const { return number_ >= 0; }

 private:
  int number_;
};

// Errors: the system's; kInvalid where it is a directory or larger than `most`.
[[nodiscard]] Result<std::string> readFile(const std::string& path, std::size_t most);

}  // namespace bole::cli
