// Reads described values from JSON. Strict: an unknown field, a wrong type, a number out of range
// or a missing required field is an error that names the place ("tasks[2].gpus.count"), what was
// found and what is expected. Includes nlohmann's header: only for .cc files.
#pragma once

#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "base/result.h"
#include "codec/visit.h"

namespace bole::codec {

// Parses JSON text; refuses trailing text, more than 64 levels of nesting and doubled keys. `where`
// names the document.
[[nodiscard]] Result<nlohmann::json> parseJson(std::string_view text, std::string_view where);

class Reader {
 public:
  Reader(const nlohmann::json& object, std::string path)
      : object_(object), path_(std::move(path)) {}

  template <class T>
  void field(std::string_view name, T& value, std::string_view /*documentation*/ = {}) {
    read(name, value, false);
  }
  template <class T>
  void required(std::string_view name, T& value, std::string_view /*documentation*/ = {}) {
    read(name, value, true);
  }

  // After describe(): the first error met, or an unknown field.
  [[nodiscard]] Result<void> finish();

  template <class T>
  [[nodiscard]] static Result<void> value(const nlohmann::json& json, const std::string& path,
                                          T& out) {
    if constexpr (std::is_same_v<T, bool>) {
      if (!json.is_boolean()) return wrongType(json, path, "true or false");
      out = json.get<bool>();
    } else if constexpr (std::is_same_v<T, double>) {
      if (!json.is_number()) return wrongType(json, path, "a number");
      out = json.get<double>();
    } else if constexpr (std::is_integral_v<T>) {
      return integer(json, path, out);
    } else if constexpr (std::is_enum_v<T>) {
      return enumeration(json, path, out);
    } else if constexpr (std::is_same_v<T, std::string>) {
      if (!json.is_string()) return wrongType(json, path, "a string");
      out = json.get<std::string>();
    } else if constexpr (IsQuantity<T>::value || IsId<T>::value) {
      return integer(json, path, out.value);
    } else if constexpr (std::is_same_v<T, Timestamp>) {
      return integer(json, path, out.micros);
    } else if constexpr (IsOptional<T>::value) {
      if (json.is_null()) return {};
      return value(json, path, out.emplace());
    } else if constexpr (IsShared<T>::value) {
      auto inner = std::make_shared<std::remove_const_t<typename T::element_type>>();
      BOLE_TRY(value(json, path, *inner));
      out = std::move(inner);
    } else if constexpr (std::is_same_v<T, std::vector<std::pair<std::string, std::string>>>) {
      return pairs(json, path, out);
    } else if constexpr (IsVector<T>::value) {
      if (!json.is_array()) return wrongType(json, path, "a list");
      out.clear();
      out.reserve(json.size());
      for (std::size_t i = 0; i < json.size(); ++i) {
        BOLE_TRY(value(json[i], path + "[" + std::to_string(i) + "]", out.emplace_back()));
      }
    } else {
      if (!json.is_object()) return wrongType(json, path, "an object");
      Reader inner(json, path);
      describe(inner, out);
      return inner.finish();
    }
    return {};
  }

 private:
  template <class T>
  void read(std::string_view name, T& value, bool required) {
    known_.insert(name);
    if (error_) return;
    const auto found = object_.find(name);
    if (found == object_.end()) {
      if (required) missing(name);
      return;
    }
    auto result = Reader::value(*found, join(name), value);
    if (!result) error_ = std::move(result).error();
  }

  [[nodiscard]] std::string join(std::string_view name) const {
    return path_.empty() ? std::string(name) : path_ + "." + std::string(name);
  }
  void missing(std::string_view name);

  [[nodiscard]] static Result<void> wrongType(const nlohmann::json& json, const std::string& path,
                                              std::string expected);
  [[nodiscard]] static Result<void> pairs(const nlohmann::json& json, const std::string& path,
                                          std::vector<std::pair<std::string, std::string>>& out);

  template <class T>
  [[nodiscard]] static Result<void> integer(const nlohmann::json& json, const std::string& path,
                                            T& out) {
    if (!json.is_number_integer()) return wrongType(json, path, "a whole number");
    if (json.is_number_unsigned()) {
      const auto number = json.get<std::uint64_t>();
      if (std::cmp_greater(number, std::numeric_limits<T>::max())) return outOfRange<T>(json, path);
      out = static_cast<T>(number);
      return {};
    }
    const auto number = json.get<std::int64_t>();
    if (std::cmp_less(number, std::numeric_limits<T>::min())) return outOfRange<T>(json, path);
    out = static_cast<T>(number);
    return {};
  }
  template <class T>
  [[nodiscard]] static Result<void> outOfRange(const nlohmann::json& json,
                                               const std::string& path) {
    return wrongType(json, path,
                     "a whole number from " + std::to_string(std::numeric_limits<T>::min()) +
                         " to " + std::to_string(std::numeric_limits<T>::max()));
  }
  template <class T>
  [[nodiscard]] static Result<void> enumeration(const nlohmann::json& json, const std::string& path,
                                                T& out) {
    if (json.is_string()) {
      if (auto known = enumFromName<T>(json.get_ref<const std::string&>())) {
        out = *known;
        return {};
      }
    }
    std::string expected = "one of";
    for (const auto name : EnumNames<T>::kNames)
      expected += (expected == "one of" ? " " : ", ") + std::string(name);
    return wrongType(json, path, std::move(expected));
  }

  const nlohmann::json& object_;
  std::string path_;
  std::set<std::string_view> known_;
  std::optional<Error> error_;
};

template <class T>
[[nodiscard]] Result<T> readJson(std::string_view text, std::string_view where) {
  BOLE_ASSIGN(const auto json, parseJson(text, where));
  T value{};
  BOLE_TRY(Reader::value(json, "", value));
  return value;
}

}  // namespace bole::codec
