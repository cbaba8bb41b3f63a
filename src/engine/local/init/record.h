// The status record of a rank, as text: "exit RAW MICROS CRC\n" or "exec-failed ERRNO STEP MICROS
// CRC\n".
//
// CRC is the CRC-32 (IEEE 802.3) in hex of what stands before it, with the space. Used by both
// programs.
#pragma once

#include <cstddef>
#include <cstdint>

namespace bole::init {

inline constexpr std::size_t kRecordBytes = 128;  // no record is longer

std::uint32_t crc32(const char* bytes, std::size_t size);

// Fills `text` and returns the length.
std::size_t exitRecord(char (&text)[kRecordBytes], int waitStatus, std::int64_t micros);
std::size_t execFailedRecord(char (&text)[kRecordBytes], int error, const char* step,
                             std::int64_t micros);

}  // namespace bole::init
