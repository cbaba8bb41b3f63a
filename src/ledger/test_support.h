// What the tests of this room share: a home of their own, a random source of their own, events to
// write.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "ledger/sqlite_ledger.h"

namespace bole::ledger::test {

class TestRng final : public Rng {
 public:
  explicit TestRng(std::uint64_t seed = 1) : engine_(seed) {}
  void fill(void* bytes, std::size_t size) override {
    auto* out = static_cast<unsigned char*>(bytes);
    for (std::size_t i = 0; i < size; ++i) out[i] = static_cast<unsigned char>(engine_());
  }

 private:
  std::mt19937_64 engine_;
};

// A directory that goes when the test ends: on the disk, or in memory (where there is such a file
// system) for tests that break what SQLite sees of the disk and have no need of the real one's slow
// flushes.
enum class Medium { kDisk, kMemory };
class TempHome {
 public:
  explicit TempHome(Medium medium = Medium::kDisk) {
    const std::filesystem::path memory = "/dev/shm";
    const bool inMemory = medium == Medium::kMemory && std::filesystem::is_directory(memory);
    const auto parent = inMemory ? memory : std::filesystem::temp_directory_path();
    std::string name = (parent / "bole-ledger-XXXXXX").string();
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    path_ = name;
  }
  TempHome(const TempHome&) = delete;
  TempHome& operator=(const TempHome&) = delete;
  ~TempHome() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

inline std::string slurp(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline LedgerOptions optionsFor(const std::string& home, Rng& random) {
  return {.directory = home, .random = random, .reserve = Bytes(0)};
}

inline ports::NewEvent makeEvent(std::uint64_t sequence, std::string body = "{}") {
  ports::NewEvent event;
  event.envelope.sequence = sequence;
  event.envelope.time = Timestamp{1'700'000'000'000'000 + static_cast<std::int64_t>(sequence)};
  event.envelope.kind = "job.submitted";
  event.envelope.actor = UserId(7);
  event.envelope.project = ProjectId(3);
  event.envelope.requestId = "request-" + std::to_string(sequence);
  event.envelope.source = "api";
  event.body = std::move(body);
  return event;
}

inline ports::NewEvent withSide(ports::NewEvent event, std::uint64_t id, std::string value) {
  event.side.push_back({SideId(id), std::move(value)});
  return event;
}

inline std::vector<ports::NewEvent> makeEvents(std::uint64_t first, std::uint64_t count) {
  std::vector<ports::NewEvent> events;
  for (auto i = first; i < first + count; ++i) events.push_back(makeEvent(i));
  return events;
}

// Adds `count` events after the last one.
inline Result<void> appendMore(SqliteLedger& ledger, std::uint64_t count) {
  return ledger.append(makeEvents(ledger.status().lastSequence + 1, count));
}

inline std::vector<ports::StoredEvent> readAll(SqliteLedger& ledger, std::uint64_t from = 1) {
  std::vector<ports::StoredEvent> events;
  const auto read = ledger.read(from, [&](const ports::StoredEvent& event) -> Result<void> {
    events.push_back(event);
    return {};
  });
  EXPECT_TRUE(read) << read.error().message();
  return events;
}

}  // namespace bole::ledger::test

// The value of a Result, or the test ends with the error's message.
#define ASSERT_GOOD(expression)                                            \
  do {                                                                     \
    const auto& goodResult_ = (expression);                                \
    ASSERT_TRUE(goodResult_.has_value()) << goodResult_.error().message(); \
  } while (false)
#define EXPECT_GOOD(expression)                                            \
  do {                                                                     \
    const auto& goodResult_ = (expression);                                \
    EXPECT_TRUE(goodResult_.has_value()) << goodResult_.error().message(); \
  } while (false)
