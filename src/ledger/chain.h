// What is hashed, byte for byte. This is the format of every ledger ever written: it may be added
// to under a new tag, never changed (chain_test.cc holds it to constants; docs/design/ledger.md
// describes it for other programs).
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "ports/ledger.h"

struct evp_md_st;
struct evp_md_ctx_st;

namespace bole::ledger {

inline constexpr std::size_t kHashSize = 32;
inline constexpr std::size_t kSaltSize = 16;
using Hash = std::array<char, kHashSize>;

[[nodiscard]] inline std::string_view view(const Hash& hash) {
  return {hash.data(), hash.size()};
}
// None unless `bytes` is 32 long.
[[nodiscard]] std::optional<Hash> hashFrom(std::string_view bytes);

// SHA-256 with one context for all calls. OpenSSL, since it uses the CPU's SHA instructions: 0.27
// us for an event of 400 bytes where libsodium 1.0.18 takes 0.98 us.
class Sha256 {
 public:
  Sha256();
  [[nodiscard]] Hash of(std::initializer_list<std::string_view> parts);

 private:
  struct Free {
    void operator()(evp_md_st* method) const;
    void operator()(evp_md_ctx_st* context) const;
  };
  std::unique_ptr<evp_md_st, Free> method_;
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

// Integers big-endian, byte strings after their length in 8 bytes. Every message begins with its
// tag as a byte string, so that no message of one meaning can be read as one of another.
class Encoder {
 public:
  explicit Encoder(std::string& out) : out_(out) {}
  Encoder& number(std::uint64_t value);
  Encoder& bytes(std::string_view value);
  Encoder& raw(std::string_view value);

 private:
  std::string& out_;
};

// An event's claim on a side value: the hash stays when salt and value are erased.
struct SideRef {
  SideId id;
  Hash hash{};
};
inline constexpr std::size_t kSideRefSize = 8 + kHashSize;

void appendSideRef(std::string& refs, const SideRef& ref);
// None if the length is not that of whole refs.
[[nodiscard]] std::optional<std::vector<SideRef>> parseSideRefs(std::string_view refs);

class Chain {
 public:
  // The hash of the event that follows the one whose hash is `previous` (all zero for the first
  // event).
  [[nodiscard]] Hash next(const Hash& previous, const ports::Envelope& envelope,
                          std::string_view body, std::string_view sideRefs);
  [[nodiscard]] Hash sideHash(std::string_view salt, std::string_view value);
  [[nodiscard]] Hash plain(std::string_view bytes) { return sha_.of({bytes}); }

 private:
  Sha256 sha_;
  std::string head_;  // kept for its memory
  std::string tail_;
};

}  // namespace bole::ledger
