#include "spec/kubernetes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "spec/grammar.h"
#include "spec/number.h"
#include "spec/suggest.h"

namespace bole::spec {
namespace {

template <class Named>
const Named* findNamed(const std::vector<Named>& list, std::string_view name) {
  const auto found = std::find_if(list.begin(), list.end(),
                                  [&](const Named& entry) { return entry.name == name; });
  return found == list.end() ? nullptr : &*found;
}

bool isQuiet(const ObjectFields& fields, std::string_view name) {
  return std::find(fields.quiet.begin(), fields.quiet.end(), name) != fields.quiet.end();
}

Result<void> readUnknown(Reader& reader, const Value& object, const Field& field,
                         const ObjectFields& fields) {
  std::vector<std::string_view> names = fields.quiet;
  for (const auto& entry : fields.readers) names.push_back(entry.name);
  for (const auto& entry : fields.dropped) names.push_back(entry.name);
  const auto near = nearest(field.key, names);
  if (near.empty()) {
    reader.warn(field.at, fmt::format("{} is not known here and not honoured",
                                      reader.fieldOf(object, field).path));
    return {};
  }
  return fail(reader
                  .error(field.at,
                         object.path.empty() ? "unknown field" : "unknown field in " + object.path)
                  .foundValue(quoted(field.key))
                  .withHint(fmt::format("did you mean '{}'?", near)));
}

}  // namespace

void warnOfLoss(Reader& reader, const Value& value, std::string_view loss) {
  reader.warn(value.at,
              value.path + " is not honoured" + (loss.empty() ? "" : ": ") + std::string(loss));
}

Result<void> readObject(Reader& reader, const Value& object, const ObjectFields& fields) {
  if (!object.is(NodeKind::kMap))
    return fail(reader.error(object, "not an object").expectedValue("fields (`name: value`)"));
  constexpr std::size_t kMaxFields = 256;  // no object of Kubernetes has nearly as many
  if (object.node->fields.size() > kMaxFields) {
    return fail(reader.error(object.at, object.path + ": too many fields")
                    .foundValue(std::to_string(object.node->fields.size()))
                    .expectedValue(fmt::format("at most {}", kMaxFields)));
  }
  for (const auto& field : object.node->fields) {
    if (field.value->kind == NodeKind::kNull || isQuiet(fields, field.key)) continue;
    if (const auto* known = findNamed(fields.readers, field.key)) {
      BOLE_TRY(known->read(reader.fieldOf(object, field)));
    } else if (const auto* dropped = findNamed(fields.dropped, field.key)) {
      auto value = reader.fieldOf(object, field);
      value.at = field.at;
      warnOfLoss(reader, value, dropped->loss);
    } else {
      BOLE_TRY(readUnknown(reader, object, field, fields));
    }
  }
  return {};
}

std::optional<Value> findField(const Reader& reader, const Value& object, std::string_view name) {
  for (const auto& field : object.node->fields) {
    if (field.key == name && field.value->kind != NodeKind::kNull)
      return reader.fieldOf(object, field);
  }
  return std::nullopt;
}

Result<Duration> parseGoDuration(std::string_view text) {
  const auto refuse = [&](std::string hint = {}) {
    return fail(makeError(ErrorCode::kInvalid, "not a length of time")
                    .foundValue(quoted(text))
                    .expectedValue("a duration of Go (10m, 1h30m, 90s)")
                    .withHint(std::move(hint)));
  };
  struct Unit {
    std::string_view name;
    Duration length;
  };
  static constexpr std::array<Unit, 5> kUnits = {{{"us", microseconds(1)},
                                                  {"ms", milliseconds(1)},
                                                  {"s", seconds(1)},
                                                  {"m", minutes(1)},
                                                  {"h", hours(1)}}};
  if (text == "0") return Duration();
  auto rest = text;
  Duration total;
  if (rest.empty()) return refuse();
  while (!rest.empty()) {
    const auto number = takeDecimal(rest);
    if (!number) return refuse();
    const auto end = std::find_if_not(rest.begin(), rest.end(), isLetter);
    const auto name = rest.substr(0, static_cast<std::size_t>(end - rest.begin()));
    rest.remove_prefix(name.size());
    const auto* unit =
        std::find_if(kUnits.begin(), kUnits.end(), [&](const Unit& u) { return u.name == name; });
    if (unit == kUnits.end()) return refuse(name.empty() ? "a number needs a unit: s, m or h" : "");
    const auto length = scaleUp(*number, unit->length.value);
    if (!length || *length > kMaxDuration.value) return refuse("at most ten years");
    total += Duration(*length);
    if (total > kMaxDuration) return refuse("at most ten years");
  }
  return total;
}

}  // namespace bole::spec
