// Logs in memory. A position is the number of lines passed of each rank, "0=5,1=3", so that it
// holds for any cursor, also one that merges the ranks in another way.
#pragma once

#include <map>
#include <mutex>

#include "server/log_source.h"

namespace bole::server::testing {

class FakeLogs final : public LogSource {
 public:
  // Lines of one rank keep their order; ranks are merged by time.
  void add(AttemptId attempt, std::uint32_t rank, Timestamp at, std::string text,
           std::string stream = "out");
  // These are written, and the first `lost` of them rotated away before anyone reads.
  void addRotated(AttemptId attempt, std::uint32_t rank, const std::vector<std::string>& texts,
                  std::size_t lost);
  void breakWith(std::optional<Error> error);  // every read fails with it from now on
  void favourLowRanks();  // from now on a cursor gives the ranks one after the other

  Result<model::LogPage> page(const LogQuery& query, std::size_t maxLines) override;
  Result<std::unique_ptr<LogCursor>> follow(const LogQuery& query,
                                            const std::string& position) override;

 private:
  friend class FakeCursor;
  struct Rank {
    std::vector<model::LogLineView> lines;
    std::size_t gone = 0;  // of these, rotated away
  };
  using Places = std::map<std::uint32_t, std::size_t>;

  // The rank whose line comes next, or none. With the mutex held.
  [[nodiscard]] std::optional<std::uint32_t> nextRank(const LogQuery& query, const Places& places);

  std::mutex mutex_;
  std::map<AttemptId, std::map<std::uint32_t, Rank>> logs_;
  std::optional<Error> broken_;
  bool lowFirst_ = false;
};

}  // namespace bole::server::testing
