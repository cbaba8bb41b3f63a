// Every kind of damage and of forgery: the check must name the record. Reading must notice it as
// well.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "ledger/signing.h"
#include "ledger/sqlite_ledger.h"
#include "ledger/test_support.h"

namespace bole::ledger {
namespace {

using namespace test;
namespace fs = std::filesystem;

// Twelve events in two sealed segments and an open one; event N has side value 100 + N; 103 is
// erased.
class VerifyTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto ledger = openLedger(optionsFor(home_.path(), random_));
    ASSERT_GOOD(ledger);
    for (std::uint64_t i = 1; i <= 12; ++i) {
      ASSERT_GOOD((*ledger)->append(std::vector{
          withSide(makeEvent(i, std::string(500, 'b')), 100 + i, "value " + std::to_string(i))}));
      if (i % 5 == 0) ASSERT_GOOD((*ledger)->seal(i, "state after " + std::to_string(i)));
    }
    ASSERT_GOOD((*ledger)->eraseSide(SideId(103)));
  }

  void alter(const std::string& sql) {
    sqlite3* handle = nullptr;
    ASSERT_EQ(sqlite3_open(home_.file("ledger.db").c_str(), &handle), SQLITE_OK);
    sqlite3_db_config(handle, SQLITE_DBCONFIG_DEFENSIVE, 0, nullptr);
    EXPECT_EQ(sqlite3_exec(handle, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK)
        << sqlite3_errmsg(handle);
    EXPECT_GT(sqlite3_total_changes(handle), 0) << sql;
    sqlite3_close(handle);
  }

  ports::VerifyReport verify(bool full = true) {
    const auto report = verifyLedger(home_.path(), full);
    EXPECT_TRUE(report) << report.error().message();
    return report ? *report : ports::VerifyReport{};
  }

  // The message of the first fault, or "sound".
  std::string fault(bool full = true) {
    const auto report = verify(full);
    return report.firstFault ? report.firstFault->message() : "sound";
  }

  TempHome home_;
  TestRng random_;
};

TEST_F(VerifyTest, ASoundLedgerIsCounted) {
  auto report = verify();
  EXPECT_FALSE(report.firstFault) << report.firstFault->message();
  EXPECT_EQ(report.events, 12u);
  EXPECT_EQ(report.segments, 3u);
  EXPECT_EQ(report.sideValues, 12u);
  EXPECT_EQ(report.erased, 1u);
  report = verify(false);
  EXPECT_FALSE(report.firstFault) << report.firstFault->message();
  EXPECT_EQ(report.events, 2u);
  EXPECT_EQ(report.segments, 1u);
  EXPECT_EQ(report.sideValues, 2u);
  EXPECT_EQ(verifyLedger(home_.file("ledger.db"), true)->events, 12u);
}

TEST_F(VerifyTest, ItWorksWhileAServerWritesAndHoldsNothingUp) {
  auto ledger = openLedger(optionsFor(home_.path(), random_));
  ASSERT_GOOD(ledger);
  ASSERT_GOOD(appendMore(**ledger, 1));
  EXPECT_EQ(verify().events, 13u);
  ASSERT_GOOD(appendMore(**ledger, 1));
  EXPECT_EQ(fault(), "sound");
}

TEST_F(VerifyTest, WhatCannotBeExaminedIsAnError) {
  EXPECT_EQ(verifyLedger(home_.file("none"), true).error().code, ErrorCode::kNotFound);
  alter("UPDATE events SET body='' WHERE seq=1; PRAGMA user_version=9");
  EXPECT_EQ(verifyLedger(home_.path(), true).error().code, ErrorCode::kRefused);
}

struct Damage {
  const char* name;
  const char* sql;
  const char* names;     // what the fault must name
  bool tailToo = false;  // whether the check of the tail sees it
  bool opens = true;     // whether the ledger still opens
};
void PrintTo(const Damage& damage, std::ostream* out) {
  *out << damage.name;
}

class DamageTest : public VerifyTest, public ::testing::WithParamInterface<Damage> {};

TEST_P(DamageTest, IsNamed) {
  alter(GetParam().sql);
  EXPECT_NE(fault().find(GetParam().names), std::string::npos) << fault();
  EXPECT_EQ(fault(false) != "sound", GetParam().tailToo) << fault(false);
  auto ledger = openLedger(optionsFor(home_.path(), random_));
  EXPECT_EQ(ledger.has_value(), GetParam().opens)
      << (ledger ? "it opened" : ledger.error().message());
  if (!ledger) {
    EXPECT_EQ(ledger.error().code, ErrorCode::kCorrupt) << ledger.error().message();
  }
}

INSTANTIATE_TEST_SUITE_P(
    Ledger, DamageTest,
    ::testing::Values(
        Damage{"time", "UPDATE events SET time=time+1 WHERE seq=4", "event 4:"},
        Damage{"kind", "UPDATE events SET kind='x' WHERE seq=4", "event 4:"},
        Damage{"version", "UPDATE events SET version=7 WHERE seq=4", "event 4:"},
        Damage{"hugeVersion", "UPDATE events SET version=4294967297 WHERE seq=4", "event 4:"},
        Damage{"actor", "UPDATE events SET actor=0 WHERE seq=4", "event 4:"},
        Damage{"project", "UPDATE events SET project=0 WHERE seq=4", "event 4:"},
        Damage{"request", "UPDATE events SET request_id='' WHERE seq=4", "event 4:"},
        Damage{"source", "UPDATE events SET source='' WHERE seq=4", "event 4:"},
        Damage{"refs", "UPDATE events SET side_refs=x'' WHERE seq=4", "event 4:"},
        Damage{"partOfRefs", "UPDATE events SET side_refs=x'00' WHERE seq=4", "event 4:"},
        Damage{"hash", "UPDATE events SET hash=zeroblob(32) WHERE seq=4", "event 4:"},
        Damage{"shortHash", "UPDATE events SET hash=x'00' WHERE seq=4", "event 4:"},
        Damage{"body", "UPDATE events SET body=body||' ' WHERE seq=4", "event 4:"},
        Damage{"firstBody", "UPDATE events SET body='{}' WHERE seq=1", "event 1:"},
        Damage{"lastBody", "UPDATE events SET body='{}' WHERE seq=12", "event 12:", true, false},
        Damage{"tailBody", "UPDATE events SET body='{}' WHERE seq=11", "event 11:", true},
        Damage{"gone", "DELETE FROM events WHERE seq=4", "event 4:"},
        Damage{"firstGone", "DELETE FROM events WHERE seq=1", "event 1:"},
        Damage{"endOfSegmentGone", "DELETE FROM events WHERE seq=5", "event 5:"},
        Damage{"sealedEndGone", "DELETE FROM events WHERE seq>=10", "event 10:", true, false},
        Damage{"beforeTheSealGone", "DELETE FROM events WHERE seq>=3", "event 3:", true, false},
        Damage{"zeroth",
               "INSERT INTO events SELECT 0,time,kind,version,actor,project,request_id,"
               "source,side_refs,hash,body FROM events WHERE seq=1",
               "event 1:"},
        Damage{"swapped",
               "UPDATE events SET seq=-1 WHERE seq=4; UPDATE events SET seq=4 WHERE "
               "seq=5; UPDATE events SET seq=5 WHERE seq=-1",
               "event 4:"},
        Damage{"sideValue", "UPDATE side SET value=x'41' WHERE id=104", "side value 104"},
        Damage{"sideSalt", "UPDATE side SET salt=zeroblob(16) WHERE id=104", "side value 104"},
        Damage{"sideGone", "DELETE FROM side WHERE id=104", "side value 104"},
        Damage{"tailSideGone", "DELETE FROM side WHERE id=112", "side value 112", true},
        Damage{"sideMoved", "UPDATE side SET seq=5 WHERE id=104", "side value 104"},
        Damage{"sideHalfErased", "UPDATE side SET erased=1 WHERE id=104", "side value 104"},
        Damage{"sideUnclaimed", "INSERT INTO side VALUES(NULL,500,4,0,zeroblob(16),x'41')",
               "side value 500"},
        Damage{"sideOfTheFuture", "INSERT INTO side VALUES(NULL,500,14,0,zeroblob(16),x'41')",
               "side value 500", true},
        Damage{"segmentEnd", "UPDATE segments SET last_seq=4 WHERE first_seq=1", "segment 1-4",
               true},
        Damage{"segmentHash", "UPDATE segments SET hash=zeroblob(32) WHERE first_seq=1",
               "segment 1-5", true},
        Damage{"segmentKey", "UPDATE segments SET key=2 WHERE first_seq=1", "segment 1-5", true},
        Damage{"segmentGone", "DELETE FROM segments WHERE first_seq=1", "event 1", true},
        Damage{"newestSegmentGone", "DELETE FROM segments WHERE first_seq=6", "snapshots", true},
        Damage{"snapshotState", "UPDATE snapshots SET state=x'41' WHERE seq=5", "snapshot 5"},
        Damage{"newestState", "UPDATE snapshots SET state=x'41' WHERE seq=10", "snapshot 10", true},
        Damage{"newestStateGone", "UPDATE snapshots SET state=NULL WHERE seq=10", "snapshot 10",
               true},
        Damage{"snapshotHash", "UPDATE snapshots SET sha256=zeroblob(32) WHERE seq=5",
               "snapshot 5"},
        Damage{"snapshotSignature", "UPDATE snapshots SET signature=zeroblob(64) WHERE seq=5",
               "snapshot 5"},
        Damage{"snapshotGone", "DELETE FROM snapshots WHERE seq=5", "snapshot 5"},
        Damage{"snapshotTooMany",
               "INSERT INTO snapshots SELECT 7,sha256,key,signature,state FROM "
               "snapshots WHERE seq=5",
               "snapshots"},
        Damage{"key", "UPDATE keys SET public=zeroblob(32)", "key 1", true, false},
        Damage{"keyBegins", "UPDATE keys SET first_seq=2", "key 1", true, false},
        Damage{"noKey", "DELETE FROM keys", "no key", true, false},
        Damage{"fact", "UPDATE meta SET value=0", "application_version", true, false},
        Damage{"noFact", "DELETE FROM meta", "application_version", true, false},
        Damage{"manyFacts", "INSERT INTO meta SELECT 'x',value,key,signature FROM meta", "facts",
               true}),
    [](const auto& damage) { return std::string(damage.param.name); });

TEST_F(VerifyTest, ReadingStopsBeforeABrokenEvent) {
  alter("UPDATE events SET actor=8 WHERE seq=4");
  auto ledger = openLedger(optionsFor(home_.path(), random_));
  ASSERT_GOOD(ledger);
  std::uint64_t seen = 0;
  const auto read = (*ledger)->read(1, [&](const ports::StoredEvent& event) -> Result<void> {
    seen = event.envelope.sequence;
    return {};
  });
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(read.error().where, "event 4");
  EXPECT_EQ(seen, 3u);
  EXPECT_EQ(readAll(**ledger, 6).size(), 7u);
}

TEST_F(VerifyTest, ADamagedNewestSnapshotIsNotHandedOut) {
  for (const auto* sql : {"UPDATE snapshots SET state=x'41' WHERE seq=10",
                          "UPDATE snapshots SET signature=zeroblob(64) WHERE seq=10",
                          "UPDATE events SET hash=zeroblob(32) WHERE seq=10"}) {
    alter(sql);
    auto options = optionsFor(home_.path(), random_);
    options.mode = OpenMode::kReadOnly;
    auto ledger = openLedger(options);
    if (!ledger) {
      EXPECT_EQ(ledger.error().code, ErrorCode::kCorrupt);
      continue;
    }
    const auto snapshot = (*ledger)->newestSnapshot();
    ASSERT_FALSE(snapshot);
    EXPECT_EQ(snapshot.error().code, ErrorCode::kCorrupt);
  }
}

TEST_F(VerifyTest, AChangedSideValueIsNotHandedOut) {
  alter("UPDATE side SET value=x'41' WHERE id=104");
  auto ledger = openLedger(optionsFor(home_.path(), random_));
  ASSERT_GOOD(ledger);
  EXPECT_EQ((*ledger)->side(SideId(104)).error().code, ErrorCode::kCorrupt);
  EXPECT_EQ((*ledger)->side(SideId(105)).value(), "value 5");
}

// A forger who can write the file but does not know the key: he adds one of his own.
TEST_F(VerifyTest, AForeignKeyIsNoticed) {
  TestRng other(99);
  const auto forged = SigningKey::make(other);
  const auto text = [](std::string_view bytes) {
    std::string hex = "x'";
    for (const char c : bytes) hex += fmt::format("{:02x}", static_cast<unsigned char>(c));
    return hex + "'";
  };
  const auto& key = forged.publicKey();
  const auto add = [&](std::uint64_t first) {
    alter(fmt::format("INSERT INTO keys VALUES(2,{},{},{})", text({key.data(), key.size()}), first,
                      text(view(forged.sign(keyMessage(2, first, key))))));
  };
  add(11);
  EXPECT_NE(fault().find("not the one of its owner"), std::string::npos) << fault();
  alter("DELETE FROM keys WHERE id=2");
  // The seals under the first key cannot stand after the second was in force.
  add(3);
  fs::remove(home_.file("ledger.pub"));
  EXPECT_NE(fault().find("segment 1-5"), std::string::npos) << fault();
}

// A forger who knows how the chain is made: he changes an event and hashes anew what follows it.
class ForgedHistory : public VerifyTest {
 protected:
  void forgeFrom(std::uint64_t sequence, const std::function<void(ports::NewEvent&)>& change) {
    sqlite3* handle = nullptr;
    ASSERT_EQ(sqlite3_open(home_.file("ledger.db").c_str(), &handle), SQLITE_OK);
    Chain chain;
    std::string previous;
    for (auto i = sequence - 1; i <= 12; ++i) {
      sqlite3_stmt* select = nullptr;
      sqlite3_prepare_v2(handle, "SELECT hash, side_refs FROM events WHERE seq=?", -1, &select,
                         nullptr);
      sqlite3_bind_int64(select, 1, static_cast<std::int64_t>(i));
      sqlite3_step(select);
      const auto column = [&](int n) {
        return std::string(static_cast<const char*>(sqlite3_column_blob(select, n)),
                           static_cast<std::size_t>(sqlite3_column_bytes(select, n)));
      };
      if (i < sequence) {
        previous = i == 0 ? std::string(kHashSize, '\0') : column(0);
        sqlite3_finalize(select);
        continue;
      }
      auto event = makeEvent(i, std::string(500, 'b'));
      if (i == sequence) change(event);
      const auto hash = chain.next(*hashFrom(previous), event.envelope, event.body, column(1));
      sqlite3_finalize(select);
      sqlite3_stmt* update = nullptr;
      sqlite3_prepare_v2(handle, "UPDATE events SET body=?, time=?, hash=? WHERE seq=?", -1,
                         &update, nullptr);
      sqlite3_bind_text(update, 1, event.body.c_str(), -1, SQLITE_TRANSIENT);
      sqlite3_bind_int64(update, 2, event.envelope.time.micros);
      sqlite3_bind_blob(update, 3, hash.data(), kHashSize, SQLITE_TRANSIENT);
      sqlite3_bind_int64(update, 4, static_cast<std::int64_t>(i));
      EXPECT_EQ(sqlite3_step(update), SQLITE_DONE);
      sqlite3_finalize(update);
      previous = view(hash);
    }
    sqlite3_close(handle);
  }
};

TEST_F(ForgedHistory, AnUnchangedOneIsSound) {
  forgeFrom(4, [](ports::NewEvent&) {});
  EXPECT_EQ(fault(), "sound");
}

TEST_F(ForgedHistory, BreaksTheSignatureOfTheNextSeal) {
  forgeFrom(4, [](ports::NewEvent& event) { event.body = "forged"; });
  EXPECT_EQ(fault().find("event 5: its hash is not the one that was signed"), 0u) << fault();
  EXPECT_EQ(fault(false).find("event 10: its hash is not the one that was signed"), 0u)
      << fault(false);
  const auto ledger = openLedger(optionsFor(home_.path(), random_));
  ASSERT_FALSE(ledger);
  EXPECT_EQ(ledger.error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(ledger.error().where, "event 10");
}

TEST_F(ForgedHistory, TimeThatGoesBackIsAFaultEvenIfHashed) {
  forgeFrom(12, [](ports::NewEvent& event) { event.envelope.time = Timestamp{0}; });
  EXPECT_EQ(fault().find("event 12: its time is less"), 0u) << fault();
}

// One bit anywhere in the file: found, or without a bearing on any record.
TEST_F(VerifyTest, AFlippedBitIsFoundOrChangesNothing) {
  const auto path = home_.file("ledger.db");
  const auto sound = slurp(path);
  const auto events = [&]() -> std::optional<std::vector<ports::StoredEvent>> {
    auto options = optionsFor(home_.path(), random_);
    options.mode = OpenMode::kReadOnly;
    auto ledger = openLedger(options);
    if (!ledger) return std::nullopt;
    return readAll(**ledger);
  };
  const auto before = *events();
  std::mt19937_64 chance(7);
  int found = 0;
  for (int i = 0; i < 1500 && !HasFailure(); ++i) {
    auto broken = sound;
    // Half of the flips in what is in use for sure: the header and the first pages of the tables.
    const auto at = i % 2 == 0 ? chance() % broken.size()
                               : chance() % 12 * 4096 % broken.size() + chance() % 120;
    broken[at] = static_cast<char>(broken[at] ^ (1 << chance() % 8));
    std::ofstream(path, std::ios::binary) << broken;
    const auto report = verifyLedger(home_.path(), true);
    if (!report || report->firstFault) {
      ++found;
      continue;
    }
    const auto after = events();
    ASSERT_TRUE(after) << "bit at " << at;
    ASSERT_EQ(after->size(), before.size()) << "bit at " << at;
    for (std::size_t e = 0; e < before.size(); ++e) EXPECT_EQ((*after)[e].hash, before[e].hash);
  }
  EXPECT_GT(found, 300);
}

// A page of zeros, as a disk may give back.
TEST_F(VerifyTest, ALostPageIsNamedByItsEvents) {
  {
    auto ledger = openLedger(optionsFor(home_.path(), random_));
    ASSERT_GOOD(ledger);
    for (int i = 0; i < 50; ++i) {
      const auto next = (*ledger)->status().lastSequence + 1;
      ASSERT_GOOD((*ledger)->append(std::vector{makeEvent(next, std::string(3000, 'z'))}));
    }
  }
  const auto path = home_.file("ledger.db");
  const auto sound = slurp(path);
  const auto event40 = sound.find("request-40");
  ASSERT_NE(event40, std::string::npos);
  auto broken = sound;
  broken.replace(event40 / 4096 * 4096, 4096, std::string(4096, '\0'));
  std::ofstream(path, std::ios::binary) << broken;
  EXPECT_EQ(fault().find("event 40: "), 0u) << fault();
  auto options = optionsFor(home_.path(), random_);
  auto ledger = openLedger(options);
  ASSERT_GOOD(ledger);
  const auto read = (*ledger)->read(35, [](const ports::StoredEvent&) { return Result<void>(); });
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(read.error().where, "event 40");
}

}  // namespace
}  // namespace bole::ledger
