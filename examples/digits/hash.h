// FNV-1a, 64 bits: finds torn and damaged files and weights that have drifted apart. Not against an
// adversary.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace digits {

inline std::uint64_t hashBytes(std::string_view bytes) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char byte : bytes) {
    hash ^= static_cast<unsigned char>(byte);
    hash *= 0x100000001b3ULL;
  }
  return hash;
}

template <class Container>
std::string_view bytesOf(const Container& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(values[0])};
}

}  // namespace digits
