#include "ledger/chain.h"

#include <openssl/evp.h>

#include <algorithm>

#include "base/result.h"

namespace bole::ledger {

std::optional<Hash> hashFrom(std::string_view bytes) {
  if (bytes.size() != kHashSize) return std::nullopt;
  Hash hash;
  std::copy(bytes.begin(), bytes.end(), hash.begin());
  return hash;
}

void Sha256::Free::operator()(evp_md_st* method) const {
  EVP_MD_free(method);
}
void Sha256::Free::operator()(evp_md_ctx_st* context) const {
  EVP_MD_CTX_free(context);
}

Sha256::Sha256() : method_(EVP_MD_fetch(nullptr, "SHA256", nullptr)), context_(EVP_MD_CTX_new()) {
  BOLE_ASSERT(method_ && context_);
}

Hash Sha256::of(std::initializer_list<std::string_view> parts) {
  BOLE_ASSERT(EVP_DigestInit_ex2(context_.get(), method_.get(), nullptr) == 1);
  for (const auto part : parts) {
    BOLE_ASSERT(EVP_DigestUpdate(context_.get(), part.data(), part.size()) == 1);
  }
  unsigned char digest[kHashSize];
  unsigned int size = 0;
  BOLE_ASSERT(EVP_DigestFinal_ex(context_.get(), digest, &size) == 1 && size == kHashSize);
  Hash hash;
  std::copy(std::begin(digest), std::end(digest), hash.begin());
  return hash;
}

Encoder& Encoder::number(std::uint64_t value) {
  for (int shift = 56; shift >= 0; shift -= 8) {
    out_.push_back(static_cast<char>(static_cast<unsigned char>(value >> shift)));
  }
  return *this;
}

Encoder& Encoder::bytes(std::string_view value) {
  return number(value.size()).raw(value);
}

Encoder& Encoder::raw(std::string_view value) {
  out_.append(value);
  return *this;
}

void appendSideRef(std::string& refs, const SideRef& ref) {
  Encoder(refs).number(ref.id.value).raw(view(ref.hash));
}

std::optional<std::vector<SideRef>> parseSideRefs(std::string_view refs) {
  if (refs.size() % kSideRefSize != 0) return std::nullopt;
  std::vector<SideRef> parsed(refs.size() / kSideRefSize);
  for (auto& ref : parsed) {
    for (const char byte : refs.substr(0, 8)) {
      ref.id.value = ref.id.value << 8 | static_cast<unsigned char>(byte);
    }
    ref.hash = *hashFrom(refs.substr(8, kHashSize));
    refs.remove_prefix(kSideRefSize);
  }
  return parsed;
}

Hash Chain::next(const Hash& previous, const ports::Envelope& envelope, std::string_view body,
                 std::string_view sideRefs) {
  head_.clear();
  Encoder(head_)
      .bytes("bole.event.1")
      .number(envelope.sequence)
      .number(static_cast<std::uint64_t>(envelope.time.micros))
      .bytes(envelope.kind)
      .number(envelope.version)
      .number(envelope.actor.value)
      .number(envelope.project.value)
      .bytes(envelope.requestId)
      .bytes(envelope.source)
      .number(body.size());
  tail_.clear();
  Encoder(tail_).bytes(sideRefs).raw(view(previous));
  return sha_.of({head_, body, tail_});
}

Hash Chain::sideHash(std::string_view salt, std::string_view value) {
  return sha_.of({salt, value});
}

}  // namespace bole::ledger
