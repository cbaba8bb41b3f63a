// Writes described values as JSON text, straight into a string. Optional fields without a value are
// left out; everything else is always written, in the order described, so that equal values give
// equal bytes.
#pragma once

#include <charconv>

#include "codec/visit.h"

namespace bole::codec {

// Appends `text` as a JSON string. Bytes that are not UTF-8 become U+FFFD, so that the document is
// always valid.
void appendJsonString(std::string& out, std::string_view text);

class Writer {
 public:
  explicit Writer(std::string& out) : out_(out) {}

  template <class T>
  void field(std::string_view name, const T& value, std::string_view /*documentation*/ = {}) {
    if constexpr (IsOptional<T>::value) {
      if (!value) return;
    }
    out_ += first_ ? '{' : ',';
    first_ = false;
    out_ += '"';
    out_ += name;
    out_ += "\":";
    write(value);
  }
  template <class T>
  void required(std::string_view name, const T& value, std::string_view documentation = {}) {
    field(name, value, documentation);
  }

  template <class T>
  void write(const T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      out_ += value ? "true" : "false";
    } else if constexpr (std::is_integral_v<T>) {
      integer(value);
    } else if constexpr (std::is_same_v<T, double>) {
      number(value);
    } else if constexpr (std::is_enum_v<T>) {
      out_ += '"';
      out_ += enumName(value);
      out_ += '"';
    } else if constexpr (std::is_convertible_v<const T&, std::string_view>) {
      appendJsonString(out_, value);
    } else if constexpr (IsQuantity<T>::value || IsId<T>::value) {
      integer(value.value);
    } else if constexpr (std::is_same_v<T, Timestamp>) {
      integer(value.micros);
    } else if constexpr (IsOptional<T>::value || IsShared<T>::value) {
      if (value)
        write(*value);
      else
        out_ += "null";
    } else if constexpr (std::is_same_v<T, std::vector<std::pair<std::string, std::string>>>) {
      pairs(value);
    } else if constexpr (IsVector<T>::value) {
      list(value);
    } else {
      Writer inner(out_);
      describe(inner, value);
      inner.close();
    }
  }

  void close() { out_ += first_ ? "{}" : "}"; }

 private:
  template <class T>
  void integer(T value) {
    std::array<char, 24> digits;
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
    out_.append(digits.data(), end);
  }
  void number(double value);  // null where it is not finite

  template <class T>
  void list(const T& values) {
    out_ += '[';
    bool first = true;
    for (const auto& value : values) {
      if (!first) out_ += ',';
      first = false;
      write(value);
    }
    out_ += ']';
  }
  // Name-value pairs keep their order and their doubles: a list of two-element lists.
  void pairs(const std::vector<std::pair<std::string, std::string>>& values);

  std::string& out_;
  bool first_ = true;
};

template <class T>
[[nodiscard]] std::string toJson(const T& value) {
  std::string out;
  Writer(out).write(value);
  return out;
}

}  // namespace bole::codec
