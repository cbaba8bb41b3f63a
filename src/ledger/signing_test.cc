#include "ledger/signing.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "ledger/test_support.h"

namespace bole::ledger {
namespace {

using namespace test;

TEST(SigningTest, AKeyComesBackFromItsFileAndSignsTheSame) {
  TempHome home;
  TestRng random;
  const auto key = SigningKey::make(random);
  ASSERT_GOOD(key.save(home.file("k")));
  const auto loaded = SigningKey::load(home.file("k"));
  ASSERT_GOOD(loaded);
  EXPECT_EQ(loaded->publicKey(), key.publicKey());
  const auto signature = loaded->sign("message");
  EXPECT_EQ(signature, key.sign("message"));
  EXPECT_TRUE(signatureHolds(key.publicKey(), "message", view(signature)));
  EXPECT_FALSE(signatureHolds(key.publicKey(), "messagf", view(signature)));
  EXPECT_FALSE(signatureHolds(SigningKey::make(random).publicKey(), "message", view(signature)));
  EXPECT_FALSE(signatureHolds(key.publicKey(), "message", view(signature).substr(1)));
}

// RFC 8032, section 7.1, test 1: the same seed gives the same public key in every program.
TEST(SigningTest, TheKeyFileIsAnEd25519Seed) {
  TempHome home;
  std::ofstream(home.file("k"))
      << "bole-ledger-key-1 9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60\n";
  ASSERT_EQ(::chmod(home.file("k").c_str(), 0600), 0);
  const auto key = SigningKey::load(home.file("k"));
  ASSERT_GOOD(key);
  EXPECT_EQ(publicKeyText(key->publicKey()),
            "bole-ledger-public-key-1 "
            "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a\n");
}

TEST(SigningTest, WhatIsNotAKeyIsRefused) {
  TempHome home;
  const std::string digits(64, 'a');
  for (const auto& text :
       {std::string(), std::string("bole-ledger-key-1 "), "bole-ledger-key-1 " + digits,
        "bole-ledger-key-1 " + digits.substr(1) + "\n", "bole-ledger-key-1 " + digits + "a\n",
        "bole-ledger-key-1 " + digits + "\nmore\n", "bole-ledger-public-key-1 " + digits + "\n",
        "bole-ledger-key-1 " + digits.substr(1) + "g\n"}) {
    std::ofstream(home.file("k")) << text;
    ASSERT_EQ(::chmod(home.file("k").c_str(), 0600), 0);
    const auto key = SigningKey::load(home.file("k"));
    ASSERT_FALSE(key) << text;
    EXPECT_EQ(key.error().code, ErrorCode::kCorrupt);
  }
  EXPECT_EQ(SigningKey::load(home.file("none")).error().code, ErrorCode::kNotFound);
}

TEST(SigningTest, AKeyIsInForceUntilTheNextOneIs) {
  TestRng random;
  const auto first = SigningKey::make(random);
  const auto second = SigningKey::make(random);
  const KeyRing ring = {{1, {first.publicKey(), 1}}, {2, {second.publicKey(), 10}}};
  const auto byFirst = first.sign("m");
  const auto bySecond = second.sign("m");
  EXPECT_TRUE(ringVouches(ring, 1, 9, "m", view(byFirst)));
  EXPECT_FALSE(ringVouches(ring, 1, 10, "m", view(byFirst)));
  EXPECT_TRUE(ringVouches(ring, 2, 10, "m", view(bySecond)));
  EXPECT_FALSE(ringVouches(ring, 2, 10, "m", view(byFirst)));
  EXPECT_FALSE(ringVouches(ring, 3, 10, "m", view(bySecond)));
  // A seal at the last event before the second key may be written after that key is in.
  EXPECT_TRUE(ringVouches(ring, 2, 9, "m", view(bySecond)));
  EXPECT_FALSE(ringVouches(ring, 2, 8, "m", view(bySecond)));
}

}  // namespace
}  // namespace bole::ledger
