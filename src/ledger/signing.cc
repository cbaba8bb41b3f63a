#include "ledger/signing.h"

#include <sodium.h>
#include <sys/stat.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "ledger/files.h"

namespace bole::ledger {

namespace {

constexpr std::string_view kSecretWord = "bole-ledger-key-1 ";
constexpr std::string_view kPublicWord = "bole-ledger-public-key-1 ";

static_assert(crypto_sign_PUBLICKEYBYTES == kPublicKeySize);
static_assert(crypto_sign_BYTES == kSignatureSize);

const unsigned char* raw(std::string_view bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

std::string hex(const void* bytes, std::size_t size) {
  std::vector<char> text(size * 2 + 1);
  sodium_bin2hex(text.data(), text.size(), static_cast<const unsigned char*>(bytes), size);
  return {text.data(), size * 2};
}

Result<std::array<unsigned char, 32>> readKeyLine(const std::string& path, std::string_view word) {
  BOLE_ASSIGN(auto text, readSmallFile(path, 4096));
  std::array<unsigned char, 32> bytes{};
  std::size_t size = 0;
  const bool named = text.compare(0, word.size(), word) == 0;
  const char* digits = named ? text.c_str() + word.size() : "";
  const char* end = digits;
  const int bad =
      sodium_hex2bin(bytes.data(), bytes.size(), digits,
                     text.size() - (named ? word.size() : text.size()), nullptr, &size, &end);
  const bool whole = named && bad == 0 && size == bytes.size() && std::string_view(end) == "\n";
  sodium_memzero(text.data(), text.size());
  if (whole) return bytes;
  return fail(makeError(ErrorCode::kCorrupt, "the key file is damaged")
                  .at(path)
                  .expectedValue("one line: '" + std::string(word) + "' and 64 hexadecimal digits")
                  .withHint("bring back the file from a copy, or move it away: Bole then makes a "
                            "new key, and the old signatures stay valid"));
}

}  // namespace

SigningKey::SigningKey(const std::array<unsigned char, 32>& seed) {
  BOLE_ASSERT(sodium_init() >= 0);
  std::array<unsigned char, kPublicKeySize> key{};
  crypto_sign_seed_keypair(key.data(), secret_.data(), seed.data());
  std::copy(key.begin(), key.end(), public_.begin());
}

SigningKey::~SigningKey() {
  sodium_memzero(secret_.data(), secret_.size());
}

SigningKey SigningKey::make(Rng& random) {
  std::array<unsigned char, 32> seed{};
  random.fill(seed.data(), seed.size());
  SigningKey key(seed);
  sodium_memzero(seed.data(), seed.size());
  return key;
}

Result<SigningKey> SigningKey::load(const std::string& path) {
  struct stat facts {};
  if (::stat(path.c_str(), &facts) == 0 && (facts.st_mode & 077) != 0) {
    return fail(makeError(ErrorCode::kPermission, "others may read the ledger's secret key")
                    .at(path)
                    .withHint("run 'chmod 600 " + path + "'"));
  }
  BOLE_ASSIGN(auto seed, readKeyLine(path, kSecretWord));
  SigningKey key(seed);
  sodium_memzero(seed.data(), seed.size());
  return key;
}

Result<void> SigningKey::save(const std::string& path) const {
  std::string text = std::string(kSecretWord) + hex(secret_.data(), 32) + "\n";
  auto saved = writeFileDurably(path, text, 0600);
  sodium_memzero(text.data(), text.size());
  return saved;
}

Signature SigningKey::sign(std::string_view message) const {
  std::array<unsigned char, kSignatureSize> bytes{};
  crypto_sign_detached(bytes.data(), nullptr, raw(message), message.size(), secret_.data());
  Signature signature{};
  std::copy(bytes.begin(), bytes.end(), signature.begin());
  return signature;
}

bool signatureHolds(const PublicKey& key, std::string_view message, std::string_view signature) {
  BOLE_ASSERT(sodium_init() >= 0);
  return signature.size() == kSignatureSize &&
         crypto_sign_verify_detached(raw(signature), raw(message), message.size(),
                                     raw({key.data(), key.size()})) == 0;
}

bool ringVouches(const KeyRing& ring, std::int64_t keyId, std::uint64_t sequence,
                 std::string_view message, std::string_view signature) {
  const auto listed = ring.find(keyId);
  if (listed == ring.end() || listed->second.firstSequence > sequence + 1) return false;
  const auto newer = std::next(listed);
  if (newer != ring.end() && newer->second.firstSequence <= sequence) return false;
  return signatureHolds(listed->second.key, message, signature);
}

std::string publicKeyText(const PublicKey& key) {
  return std::string(kPublicWord) + hex(key.data(), key.size()) + "\n";
}

Result<PublicKey> loadPublicKey(const std::string& path) {
  BOLE_ASSIGN(const auto bytes, readKeyLine(path, kPublicWord));
  PublicKey key{};
  std::copy(bytes.begin(), bytes.end(), key.begin());
  return key;
}

std::string segmentMessage(const SegmentFacts& segment) {
  std::string message;
  Encoder(message)
      .bytes("bole.segment.1")
      .number(segment.first)
      .number(segment.last)
      .raw(view(segment.hash));
  return message;
}

std::string snapshotMessage(std::uint64_t sequence, const Hash& chain, const Hash& state) {
  std::string message;
  Encoder(message).bytes("bole.snapshot.1").number(sequence).raw(view(chain)).raw(view(state));
  return message;
}

std::string keyMessage(std::uint64_t id, std::uint64_t firstSequence, const PublicKey& key) {
  std::string message;
  Encoder(message)
      .bytes("bole.key.1")
      .number(id)
      .number(firstSequence)
      .raw({key.data(), key.size()});
  return message;
}

std::string factMessage(std::string_view name, std::int64_t value) {
  std::string message;
  Encoder(message).bytes("bole.fact.1").bytes(name).number(static_cast<std::uint64_t>(value));
  return message;
}

}  // namespace bole::ledger
