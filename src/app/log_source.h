// The local engine's log files as the server wants to read them.
#pragma once

#include "engine/local/log_reader.h"
#include "server/log_source.h"

namespace bole::app {

class LogSource final : public server::LogSource {
 public:
  explicit LogSource(engine::LogReader reader) : reader_(std::move(reader)) {}

  Result<model::LogPage> page(const server::LogQuery& query, std::size_t maxLines) override;
  Result<std::unique_ptr<server::LogCursor>> follow(const server::LogQuery& query,
                                                    const std::string& position) override;

 private:
  engine::LogReader reader_;
};

}  // namespace bole::app
