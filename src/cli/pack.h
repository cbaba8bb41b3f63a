// What a job brings along: a directory, or some of its files, as one tar archive named by its
// SHA-256.
//
// Left out: .git, what .gitignore files say (those of the directory, below it, and above it up to
// the repository's top), sockets, pipes and devices. A symbolic link stays where it points inside;
// others are left out and named in a warning. What `files` names outright comes along even if a
// .gitignore above it says otherwise. Equal files give an equal archive. Reads the file system;
// writes one temporary file, which has no name.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "cli/files.h"

namespace bole::cli {

struct PackRequest {
  std::string directory;           // absolute: what the archive's paths begin at
  std::vector<std::string> files;  // relative to it, of what it holds; empty: all
  std::string leftOut;  // an absolute path that never comes along: the server's home; empty: none
  std::string temporary = "/tmp";  // where the archive is put
  Bytes limit = kMiB * 256;        // of the archive
};

struct Archive {
  Descriptor file;  // to be read from its beginning
  std::string sha256;
  std::uint64_t size = 0;
  std::uint64_t entries = 0;
  std::vector<std::string> warnings;
};

// Errors: kRefused (too large or too many; says what the largest are), kNotFound (`files` names
// what is not there), kInvalid, the system's.
[[nodiscard]] Result<Archive> pack(const PackRequest& request);

struct Entry {
  std::string path;  // relative to the directory
  std::uint64_t size = 0;
  std::uint32_t mode = 0;     // of lstat
  std::int64_t modified = 0;  // seconds since 1970
  std::string target;         // of a link
};

struct Listing {
  std::vector<Entry> entries;  // directories before what is in them
  std::uint64_t bytes = 0;
  std::vector<std::string> warnings;
};

// The first half of pack(): what would come along.
[[nodiscard]] Result<Listing> listFiles(const PackRequest& request);

}  // namespace bole::cli
