#include "base/cow_table.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <string>

#include "base/units.h"

namespace bole {
namespace {

using Table = CowTable<JobId, std::string>;

std::map<std::uint64_t, std::string> contents(const Table& table) {
  std::map<std::uint64_t, std::string> out;
  table.forEach([&](JobId id, const std::string& text) {
    out[id.value] = text;
    return true;
  });
  return out;
}

TEST(CowTable, ACopyDoesNotSeeLaterWrites) {
  Table table;
  table.put(JobId(1), "one");
  const Table copy = table;
  *table.edit(JobId(1)) = "changed";
  table.put(JobId(2), "two");
  EXPECT_EQ(*copy.find(JobId(1)), "one");
  EXPECT_EQ(copy.find(JobId(2)), nullptr);
  EXPECT_EQ(copy.size(), 1u);
}

TEST(CowTable, WritingToACopyLeavesItsSource) {
  Table table;
  table.put(JobId(1), "one");
  Table copy = table;
  copy.put(JobId(1), "changed");
  EXPECT_EQ(*table.find(JobId(1)), "one");
  table.put(JobId(1), "changed too");
  EXPECT_EQ(*copy.find(JobId(1)), "changed");
}

TEST(CowTable, AssigningBackRollsBack) {
  Table table;
  table.put(JobId(1), "one");
  const Table before = table;
  table.put(JobId(1), "changed");
  table = before;
  EXPECT_EQ(*table.find(JobId(1)), "one");
  table.put(JobId(1), "again");
  EXPECT_EQ(*before.find(JobId(1)), "one");
}

TEST(CowTable, NoIdIsNoRecord) {
  const Table table;
  EXPECT_EQ(table.find(JobId()), nullptr);
  EXPECT_EQ(table.find(JobId(123'456'789)), nullptr);
}

TEST(CowTable, WhatIsSharedIsNotLookedAtForChanges) {
  Table table;
  for (std::uint64_t id = 1; id <= 10'000; ++id) table.put(JobId(id), "same");
  const Table before = table;
  std::size_t seen = 0;
  const auto count = [&](JobId, const std::string*, const std::string*) { ++seen; };
  table.forEachChanged(before, count);
  EXPECT_EQ(seen, 0u);
  *table.edit(JobId(5'000)) = "other";
  table.put(JobId(20'000), "new");
  table.forEachChanged(before, count);
  EXPECT_LE(seen, 33u);
  EXPECT_GE(seen, 2u);
}

// Any mixture of writes and copies agrees with plain maps.
RC_GTEST_PROP(CowTableProperty, AgreesWithAMap, ()) {
  std::vector<Table> tables(1);
  std::vector<std::map<std::uint64_t, std::string>> models(1);
  const auto steps = *rc::gen::inRange(0, 200);
  for (int i = 0; i < steps; ++i) {
    const auto at = *rc::gen::inRange<std::size_t>(0, tables.size());
    const auto key = *rc::gen::inRange<std::uint64_t>(1, 5000);
    const auto text = std::to_string(i);
    switch (*rc::gen::inRange(0, 5)) {
      case 0:
        if (tables.size() < 6) {
          tables.push_back(tables[at]);
          models.push_back(models[at]);
        }
        break;
      case 1: {
        const auto from = *rc::gen::inRange<std::size_t>(0, tables.size());
        tables[at] = tables[from];
        models[at] = models[from];
        break;
      }
      case 2:
        tables[at].erase(JobId(key));
        models[at].erase(key);
        break;
      default:
        tables[at].put(JobId(key), text);
        models[at][key] = text;
        break;
    }
  }
  for (std::size_t i = 0; i < tables.size(); ++i) {
    RC_ASSERT(contents(tables[i]) == models[i]);
    RC_ASSERT(tables[i].size() == models[i].size());
  }
  // What has changed between any two of them leads from the one to the other.
  for (std::size_t i = 0; i < tables.size(); ++i) {
    for (std::size_t j = 0; j < tables.size(); ++j) {
      auto led = models[i];
      tables[j].forEachChanged(tables[i], [&](JobId id, const auto* was, const auto* is) {
        RC_ASSERT((was ? models[i].at(id.value) == *was : !models[i].contains(id.value)));
        if (is)
          led[id.value] = *is;
        else
          led.erase(id.value);
      });
      RC_ASSERT(led == models[j]);
    }
  }
}

}  // namespace
}  // namespace bole
