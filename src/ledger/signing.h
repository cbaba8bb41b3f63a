// Ed25519: the key of a home, the signatures of segments, snapshots, keys and facts, and the ring
// of all public keys that ever signed in a ledger. HOME/ledger.key (mode 0600) is the secret,
// HOME/ledger.pub its public half for people to keep elsewhere: with it they can tell that a ledger
// was signed by this home and by no one else.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "ledger/chain.h"

namespace bole::ledger {

inline constexpr std::size_t kPublicKeySize = 32;
inline constexpr std::size_t kSignatureSize = 64;
using PublicKey = std::array<char, kPublicKeySize>;
using Signature = std::array<char, kSignatureSize>;

[[nodiscard]] inline std::string_view view(const Signature& signature) {
  return {signature.data(), signature.size()};
}

class SigningKey {
 public:
  [[nodiscard]] static SigningKey make(Rng& random);
  // kPermission if others than the owner may read the file; kCorrupt if it is not a key.
  [[nodiscard]] static Result<SigningKey> load(const std::string& path);
  [[nodiscard]] Result<void> save(const std::string& path) const;
  SigningKey(const SigningKey&) = default;
  SigningKey& operator=(const SigningKey&) = default;
  ~SigningKey();  // wipes the secret

  [[nodiscard]] const PublicKey& publicKey() const { return public_; }
  [[nodiscard]] Signature sign(std::string_view message) const;

 private:
  explicit SigningKey(const std::array<unsigned char, 32>& seed);
  std::array<unsigned char, 64> secret_{};  // seed, then public key
  PublicKey public_{};
};

[[nodiscard]] bool signatureHolds(const PublicKey& key, std::string_view message,
                                  std::string_view signature);

// The text of ledger.pub, and back.
[[nodiscard]] std::string publicKeyText(const PublicKey& key);
[[nodiscard]] Result<PublicKey> loadPublicKey(const std::string& path);

// What is signed.
struct SegmentFacts {
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  Hash hash{};  // of the event `last`
};
[[nodiscard]] std::string segmentMessage(const SegmentFacts& segment);
[[nodiscard]] std::string snapshotMessage(std::uint64_t sequence, const Hash& chain,
                                          const Hash& state);
[[nodiscard]] std::string keyMessage(std::uint64_t id, std::uint64_t firstSequence,
                                     const PublicKey& key);
[[nodiscard]] std::string factMessage(std::string_view name, std::int64_t value);

// The public keys that a ledger lists, by their number there. Each is in force from its first event
// until the next key is, so that one who adds a key of his own cannot sign the past with it, nor go
// on under an older key.
struct ListedKey {
  PublicKey key{};
  std::uint64_t firstSequence = 0;
};
using KeyRing = std::map<std::int64_t, ListedKey>;

// Whether the key of that number signed `message`, and may sign what ends at `sequence`: it was in
// force, or came into force right after (a seal may be written later than the event it ends with),
// and no newer key was.
[[nodiscard]] bool ringVouches(const KeyRing& ring, std::int64_t keyId, std::uint64_t sequence,
                               std::string_view message, std::string_view signature);

}  // namespace bole::ledger
