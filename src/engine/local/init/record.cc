#include "engine/local/init/record.h"

#include <cstdio>

namespace bole::init {

namespace {

// `length` counts what stands before the sum; snprintf never fails for these formats, nor fills the
// buffer.
std::size_t seal(char (&text)[kRecordBytes], int length) {
  auto size = static_cast<std::size_t>(length);
  size += static_cast<std::size_t>(
      std::snprintf(text + size, kRecordBytes - size, "%08x\n", crc32(text, size)));
  return size;
}

}  // namespace

std::uint32_t crc32(const char* bytes, std::size_t size) {
  std::uint32_t sum = 0xFFFFFFFFu;
  for (std::size_t i = 0; i < size; ++i) {
    sum ^= static_cast<unsigned char>(bytes[i]);
    for (int bit = 0; bit < 8; ++bit) sum = (sum >> 1) ^ (0xEDB88320u & (0u - (sum & 1u)));
  }
  return ~sum;
}

std::size_t exitRecord(char (&text)[kRecordBytes], int waitStatus, std::int64_t micros) {
  return seal(text, std::snprintf(text, kRecordBytes, "exit %d %lld ", waitStatus,
                                  static_cast<long long>(micros)));
}

std::size_t execFailedRecord(char (&text)[kRecordBytes], int error, const char* step,
                             std::int64_t micros) {
  return seal(text, std::snprintf(text, kRecordBytes, "exec-failed %d %.32s %lld ", error, step,
                                  static_cast<long long>(micros)));
}

}  // namespace bole::init
