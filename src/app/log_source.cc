#include "app/log_source.h"

namespace bole::app {
namespace {

engine::LogQuery queryOf(const server::LogQuery& query) {
  return {query.attempt, query.rank, query.since, query.tail};
}

class Cursor final : public server::LogCursor {
 public:
  explicit Cursor(std::unique_ptr<engine::LogCursor> cursor) : cursor_(std::move(cursor)) {}

  Result<server::LogChunk> next(std::size_t maxBytes) override {
    BOLE_ASSIGN(auto chunk, cursor_->next(maxBytes));
    return server::LogChunk{std::move(chunk.lines), chunk.lost, chunk.more};
  }
  std::string position() const override { return cursor_->position(); }

 private:
  std::unique_ptr<engine::LogCursor> cursor_;
};

}  // namespace

Result<model::LogPage> LogSource::page(const server::LogQuery& query, std::size_t maxLines) {
  return reader_.page(queryOf(query), maxLines);
}

Result<std::unique_ptr<server::LogCursor>> LogSource::follow(const server::LogQuery& query,
                                                             const std::string& position) {
  BOLE_ASSIGN(auto cursor, reader_.follow(queryOf(query), position));
  return std::unique_ptr<server::LogCursor>(std::make_unique<Cursor>(std::move(cursor)));
}

}  // namespace bole::app
