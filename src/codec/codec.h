// The door of room codec: JSON to and from the types of model.
//
// Encoding is a template straight into a string (codec/writer.h); decoding needs a JSON library and
// is compiled once, here, for the types listed. Errors name the place in the document, what was
// found and what is expected.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "codec/describe_views.h"
#include "codec/writer.h"

namespace bole::codec {

// The body of an event, without its kind (which stands in the envelope).
[[nodiscard]] std::string encodeBody(const model::Event& event);
[[nodiscard]] Result<model::Event> decodeEvent(std::string_view kind, std::uint32_t version,
                                               std::string_view body);

// The whole state, canonical: equal states give equal bytes.
[[nodiscard]] std::string encodeTables(const model::Tables& tables);
[[nodiscard]] Result<model::Tables> decodeTables(std::string_view text);

// For T among: every view and request of model/views.h, JobSpec, JobText, JobShape, Node.
template <class T>
[[nodiscard]] Result<T> fromJson(std::string_view text, std::string_view where = {});

}  // namespace bole::codec
