// What the ledger holds: the first line names the kind of the event ("snapshot": the whole state),
// the rest is its body.
#include <cstddef>
#include <cstdint>
#include <string>

#include "codec/codec.h"
#include "fuzz/check.h"

namespace bole::fuzz {
namespace {

// Stored data that is wrong is corrupt, which is an error of its own kind.
void holdStoredError(Error error) {
  if (error.code == ErrorCode::kCorrupt) error.code = ErrorCode::kInvalid;
  holdError(error, Speaker::kJson);
}

void holdEvent(std::string_view kind, std::string_view body) {
  const auto event = codec::decodeEvent(kind, 1, body);
  if (!event) return holdStoredError(event.error());
  hold(model::kindOf(*event) == kind, "an event is of its kind", kind);
  const auto written = codec::encodeBody(*event);
  const auto again = codec::decodeEvent(kind, 1, written);
  hold(again.has_value(), "an event that we wrote is read", again ? "" : again.error().message());
  hold(codec::encodeBody(*again) == written, "an event is written the same again", written);
  hold(!codec::decodeEvent(kind, 2, body), "a version that is not known is refused");
}

void holdSnapshot(std::string_view text) {
  const auto tables = codec::decodeTables(text);
  if (!tables) return holdStoredError(tables.error());
  const auto written = codec::encodeTables(*tables);
  const auto again = codec::decodeTables(written);
  hold(again.has_value(), "a snapshot that we wrote is read", again ? "" : again.error().message());
  hold(codec::encodeTables(*again) == written, "a snapshot is written the same again", written);
}

}  // namespace
}  // namespace bole::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto end = text.find('\n');
  if (end == std::string_view::npos) return 0;
  const auto kind = text.substr(0, end);
  if (kind == "snapshot")
    bole::fuzz::holdSnapshot(text.substr(end + 1));
  else
    bole::fuzz::holdEvent(kind, text.substr(end + 1));
  return 0;
}
