// Reading objects in Kubernetes' way: a null field is an absent one, a field that is known but
// cannot be honoured becomes a warning that says what is lost, and an unknown one is an error where
// it is most likely a slip, else a warning. Nothing is dropped in silence but what has no meaning
// on a machine without Kubernetes (docs/volcano.md lists it).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "spec/reader.h"

namespace bole::spec {

struct DroppedField {
  std::string_view name;
  std::string_view loss;  // what the job does without; empty: nothing needs saying
};

struct ObjectFields {
  std::vector<FieldReader> readers;
  std::vector<std::string_view> quiet;
  std::vector<DroppedField> dropped;
};

[[nodiscard]] Result<void> readObject(Reader& reader, const Value& object,
                                      const ObjectFields& fields);

// "PATH is not honoured: LOSS"
void warnOfLoss(Reader& reader, const Value& value, std::string_view loss);

// The field's value, or nothing where it is absent or null.
[[nodiscard]] std::optional<Value> findField(const Reader& reader, const Value& object,
                                             std::string_view name);

// Go's form: "10m", "1h30m", "1.5h", "300ms". Not negative. Errors have no `where`.
[[nodiscard]] Result<Duration> parseGoDuration(std::string_view text);

}  // namespace bole::spec
