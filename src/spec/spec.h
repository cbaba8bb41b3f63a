// The door of room spec: from the text that a person wrote to jobs, or to one error that says where
// and why.
//
// Two formats: bole.yaml (docs/spec.md) and Volcano Jobs (docs/volcano.md), told apart by
// `apiVersion`. A file may hold several YAML documents: several jobs, in order. JSON is YAML too.
// Pure: no file, clock or environment is read. Bounded: text of more than 1 MiB, nested deeper than
// 64, or growing through aliases beyond 4 MiB is refused. An error is always of kInvalid, kRefused
// or kUnsupported and its `where` is NAME:LINE:COLUMN, or --project. What is accepted keeps to the
// limits written in model/job.h.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "model/job.h"

namespace bole::spec {

struct SpecFile {
  std::string text;
  std::string name;  // for messages and JobText::specSource: "bole.yaml", "-", "run"
};

struct ParseContext {
  std::string directory;  // absolute: where relative paths begin
  std::string user;
  std::vector<std::pair<std::string, std::string>> env;  // values for bare names
  std::string projectOverride;                           // empty: what the spec says
  std::string upload;  // SHA-256 in hex; empty: nothing came along
  bool plain = false;  // the server has no sandbox: jobs without an image get Runtime::kPlain
};

struct Parsed {
  model::JobSpec spec;
  std::string project;                // empty: not named
  std::vector<std::string> warnings;  // "NAME:LINE:COLUMN: ...", in the order of the text
  std::vector<std::string> files;  // what `files` names, relative to the directory; empty: not said
};

struct ParsedFile {
  std::vector<Parsed> jobs;
  std::vector<std::string>
      missingEnv;  // bare names without a value in the context; if any, `jobs` lack them
};

[[nodiscard]] Result<ParsedFile> parseSpec(const SpecFile& file, const ParseContext& context);

// "2", "A100:2", "A100:80GB:2", "24GB..", "..24GB", "16GB..48GB:1", "H100,A100:8", "0.5"; upper and
// lower case alike. A size without dots is the product's name: "80GB" is any GPU sold as one of 80
// GB (docs/spec.md). Errors have no `where`.
[[nodiscard]] Result<model::GpuRequest> parseGpuRequest(std::string_view text);

// "90s", "1h30m", "2 hours", and sbatch's "HH:MM:SS", "D-HH[:MM[:SS]]". Errors have no `where`.
[[nodiscard]] Result<Duration> parseDuration(std::string_view text);

// "512MB" (10^6), "512MiB", "512Mi", "512M" (2^20, as docker and sbatch count). Errors have no
// `where`.
[[nodiscard]] Result<Bytes> parseSize(std::string_view text);

// "2", "0.5", "500m". Errors have no `where`.
[[nodiscard]] Result<MilliCpu> parseCpus(std::string_view text);

}  // namespace bole::spec
