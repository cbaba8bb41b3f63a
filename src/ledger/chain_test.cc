// The bytes that are hashed, held to constants that another program made (Python's hashlib, from
// docs/design/ledger.md): if one of these tests must change, old ledgers can no longer be verified.
#include "ledger/chain.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace bole::ledger {
namespace {

std::string hex(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return text;
}

ports::Envelope someEnvelope() {
  ports::Envelope envelope;
  envelope.sequence = 1;
  envelope.time = Timestamp{1'700'000'000'000'001};
  envelope.kind = "job.submitted";
  envelope.version = 2;
  envelope.actor = UserId(7);
  envelope.project = ProjectId(3);
  envelope.requestId = "r-1";
  envelope.source = "api";
  return envelope;
}

TEST(ChainTest, AnEventsHashIsThatOfTheDocumentedBytes) {
  Chain chain;
  const auto first = chain.next(Hash{}, someEnvelope(), R"({"job":1})", "");
  EXPECT_EQ(hex(view(first)), "a78ddae7735a264eb132fa3f8845cb5ba06425627c92e480a4a8dfc0144f69db");
  auto envelope = someEnvelope();
  envelope.sequence = 2;
  envelope.time = Timestamp{-1};
  envelope.actor = UserId(UINT64_MAX);
  envelope.requestId = "";
  std::string refs;
  appendSideRef(refs, {SideId(258), chain.sideHash(std::string(16, 's'), "alice")});
  EXPECT_EQ(refs.size(), kSideRefSize);
  const auto second = chain.next(first, envelope, "", refs);
  EXPECT_EQ(hex(view(second)), "ff4b4bdc39680235bded23f3bd6d5a31f75e8ec3d96813c8c294cdd6c3112296");
}

TEST(ChainTest, EveryFieldCounts) {
  Chain chain;
  const auto reference = chain.next(Hash{}, someEnvelope(), "body", "");
  EXPECT_EQ(chain.next(Hash{}, someEnvelope(), "body", ""), reference);
  const auto differs = [&](auto change) {
    auto envelope = someEnvelope();
    std::string body = "body";
    change(envelope, body);
    return chain.next(Hash{}, envelope, body, "") != reference;
  };
  using Envelope = ports::Envelope;
  EXPECT_TRUE(differs([](Envelope& e, std::string&) { e.sequence = 2; }));
  EXPECT_TRUE(differs([](Envelope& e, std::string&) { e.time.micros += 1; }));
  EXPECT_TRUE(differs([](Envelope& e, std::string&) { e.kind += "x"; }));
  EXPECT_TRUE(differs([](Envelope& e, std::string&) { e.version = 1; }));
  EXPECT_TRUE(differs([](Envelope& e, std::string&) { e.actor = UserId(8); }));
  EXPECT_TRUE(differs([](Envelope& e, std::string&) { e.project = ProjectId(4); }));
  EXPECT_TRUE(differs([](Envelope& e, std::string&) { e.requestId = "r-2"; }));
  EXPECT_TRUE(differs([](Envelope& e, std::string&) { e.source = "cli"; }));
  EXPECT_TRUE(differs([](Envelope&, std::string& body) { body = "BODY"; }));
  // Text that moves from one field to the next.
  EXPECT_TRUE(differs([](Envelope& e, std::string&) {
    e.requestId = "r-1a";
    e.source = "pi";
  }));
  EXPECT_NE(chain.next(reference, someEnvelope(), "body", ""), reference);
  EXPECT_NE(chain.next(Hash{}, someEnvelope(), "body", std::string(kSideRefSize, '\0')), reference);
}

TEST(ChainTest, SideRefsComeBackAndAPartOfOneIsNone) {
  Chain chain;
  std::string refs;
  appendSideRef(refs, {SideId(1), chain.plain("one")});
  appendSideRef(refs, {SideId(UINT64_MAX), chain.plain("two")});
  const auto parsed = parseSideRefs(refs);
  ASSERT_TRUE(parsed);
  ASSERT_EQ(parsed->size(), 2u);
  EXPECT_EQ((*parsed)[0].id, SideId(1));
  EXPECT_EQ((*parsed)[1].id, SideId(UINT64_MAX));
  EXPECT_EQ((*parsed)[1].hash, chain.plain("two"));
  EXPECT_TRUE(parseSideRefs("")->empty());
  EXPECT_FALSE(parseSideRefs(refs.substr(1)));
}

}  // namespace
}  // namespace bole::ledger
