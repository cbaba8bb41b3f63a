#include "cli/decode.h"

#include "codec/codec.h"
#include "codec/reader.h"

namespace bole::cli {

template <class T>
Result<T> decode(std::string_view text) {
  auto value = codec::readJson<T>(text, "the server's answer");
  if (value) return value;
  auto error = std::move(value).error();
  error.code = ErrorCode::kInternal;
  error.what = "cannot read the server's answer: " + error.what;
  error.hint = "are the server and this program of the same version? 'bole version' shows both";
  return fail(std::move(error));
}

#define BOLE_DECODES(Type) template Result<model::Type> decode<model::Type>(std::string_view)
BOLE_DECODES(JobView);
BOLE_DECODES(NodeView);
BOLE_DECODES(JobDetail);
BOLE_DECODES(StatusView);
BOLE_DECODES(LogLineView);
BOLE_DECODES(ProgressView);
BOLE_DECODES(EventView);
BOLE_DECODES(ErrorView);
BOLE_DECODES(SubmitAnswer);
BOLE_DECODES(JobList);
BOLE_DECODES(NodeList);
BOLE_DECODES(GpuList);
BOLE_DECODES(QueueList);
BOLE_DECODES(PolicyView);
BOLE_DECODES(PolicyAnswer);
BOLE_DECODES(EventList);
BOLE_DECODES(LogPage);
BOLE_DECODES(TopologyView);
#undef BOLE_DECODES

std::uint64_t decodeLost(std::string_view text) {
  const auto json = codec::parseJson(text, "");
  if (!json) return 0;
  if (json->is_number_unsigned()) return json->get<std::uint64_t>();
  if (!json->is_object()) return 0;
  for (const auto& item : json->items()) {
    if (item.value().is_number_unsigned()) return item.value().get<std::uint64_t>();
  }
  return 0;
}

std::string indented(std::string_view text) {
  const auto json = codec::parseJson(text, "");
  if (!json) return std::string(text);
  return json->dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace bole::cli
