#include "cli/sse.h"

namespace bole::cli {

Result<bool> EventParser::feed(std::string_view bytes,
                               const std::function<bool(const ServerEvent&)>& take) {
  buffer_ += bytes;
  std::size_t start = 0;
  bool goOn = true;
  while (goOn) {
    const auto end = buffer_.find('\n', start);
    if (end == std::string::npos) break;
    std::string_view line(buffer_.data() + start, end - start);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    goOn = takeLine(line, take);
    start = end + 1;
  }
  buffer_.erase(0, start);
  if (buffer_.size() + event_.data.size() > kMaxEvent) {
    return fail(ErrorCode::kInvalid, "the server sent an event that is too large");
  }
  return goOn;
}

bool EventParser::takeLine(std::string_view line,
                           const std::function<bool(const ServerEvent&)>& take) {
  if (line.empty()) {
    if (!hasData_) {
      event_.name.clear();
      return true;
    }
    if (event_.name.empty()) event_.name = "message";
    const bool goOn = take(event_);
    event_.name.clear();
    event_.data.clear();
    hasData_ = false;
    return goOn;
  }
  const auto colon = line.find(':');
  const auto field = line.substr(0, colon);
  auto value = colon == std::string_view::npos ? std::string_view() : line.substr(colon + 1);
  if (!value.empty() && value.front() == ' ') value.remove_prefix(1);
  if (field == "event") event_.name = value;
  if (field == "id") event_.id = value;
  if (field == "data") {
    if (hasData_) event_.data += '\n';
    event_.data += value;
    hasData_ = true;
  }
  return true;
}

}  // namespace bole::cli
