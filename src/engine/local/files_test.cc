#include "engine/local/files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "engine/local/testing/test_support.h"

namespace bole::engine {
namespace {

using testing::readText;
using testing::TempDir;
using testing::writeText;
namespace fs = std::filesystem;

TEST(Files, TreesAreRemovedAndLinksAreNotFollowed) {
  const TempDir temp;
  writeText(temp.path() + "/outside/file", "kept");
  writeText(temp.path() + "/tree/a/b/c", "x");
  fs::create_directory_symlink(temp.path() + "/outside", temp.path() + "/tree/a/link");
  ASSERT_TRUE(removeTree(temp.path() + "/tree"));
  EXPECT_FALSE(fs::exists(temp.path() + "/tree"));
  EXPECT_EQ(readText(temp.path() + "/outside/file"), "kept");
  EXPECT_TRUE(removeTree(temp.path() + "/tree"));

  fs::create_directory_symlink(temp.path() + "/outside", temp.path() + "/link");
  ASSERT_TRUE(removeTree(temp.path() + "/link"));
  EXPECT_EQ(readText(temp.path() + "/outside/file"), "kept");
}

TEST(Files, AllButWhatIsKept) {
  const TempDir temp;
  writeText(temp.path() + "/log/rank-0.log", "l");
  writeText(temp.path() + "/claim", "c");
  writeText(temp.path() + "/ranks/0/status", "s");
  ASSERT_TRUE(removeTreeBut(temp.path(), "log", "claim"));
  EXPECT_TRUE(fs::exists(temp.path() + "/log/rank-0.log"));
  EXPECT_TRUE(fs::exists(temp.path() + "/claim"));
  EXPECT_FALSE(fs::exists(temp.path() + "/ranks"));
  EXPECT_TRUE(removeTreeBut(temp.path() + "/none", "log", "claim"));
}

TEST(Files, VeryDeepTreesEndInAnErrorAndNotInACrash) {
  const TempDir temp;
  Fd at(::open(temp.path().c_str(), O_RDONLY | O_DIRECTORY));
  for (int i = 0; i < 2000; ++i) {
    ASSERT_EQ(::mkdirat(at.get(), "d", 0755), 0);
    at = Fd(::openat(at.get(), "d", O_RDONLY | O_DIRECTORY));
  }
  EXPECT_FALSE(removeTree(temp.path() + "/d"));
}

TEST(Files, Sizes) {
  const TempDir temp;
  writeText(temp.path() + "/ckpt/a", std::string(1000, 'x'));
  writeText(temp.path() + "/ckpt/deep/b", std::string(234, 'x'));
  fs::create_symlink(temp.path() + "/ckpt", temp.path() + "/link");
  const auto size = [](const std::string& root, const std::string& relative,
                       std::size_t entries = 100) { return sizeOfTree(root, relative, entries); };
  EXPECT_EQ(size(temp.path(), "ckpt"), Bytes(1234));
  EXPECT_EQ(size(temp.path(), "ckpt/a"), Bytes(1000));
  EXPECT_EQ(size(temp.path(), "link"), Bytes(0));
  EXPECT_EQ(size(temp.path(), "link/a"), Bytes(0));
  EXPECT_EQ(size(temp.path() + "/ckpt", "../ckpt/a"), Bytes(0));
  EXPECT_EQ(size(temp.path(), "none"), std::nullopt);
  EXPECT_EQ(size(temp.path(), "ckpt", 0), Bytes(0));
}

TEST(Files, MeasuringEndsHoweverLargeTheTree) {
  const TempDir temp;
  for (int i = 0; i < 20; ++i) writeText(temp.path() + "/many/" + std::to_string(i), "x");
  std::size_t left = 12;
  EXPECT_EQ(sizeOfTree(temp.path(), "many", left), Bytes(12));
  EXPECT_EQ(left, 0U);
  left = 21;
  EXPECT_EQ(sizeOfTree(temp.path(), "many", left), Bytes(20));
  EXPECT_EQ(left, 1U);
}

TEST(Files, WritingReplacesAndReadingIsBounded) {
  const TempDir temp;
  const auto path = temp.path() + "/f";
  ASSERT_TRUE(writeFile(path, "one", 0644));
  ASSERT_TRUE(writeFile(path, "second", 0644));
  EXPECT_EQ(readFile(path, 100).value(), "second");
  EXPECT_EQ(readFile(path, 3).value(), "sec");
  EXPECT_EQ(readFile(path + "x", 3).error().code, ErrorCode::kNotFound);
  EXPECT_FALSE(fs::exists(path + ".new"));
}

TEST(Files, ModesAreMeantWhateverTheUmask) {
  const TempDir temp;
  const auto before = ::umask(077);
  EXPECT_TRUE(makeDirectories(temp.path() + "/d", 0755));
  EXPECT_TRUE(writeFile(temp.path() + "/d/f", "x", 0644));
  ::umask(before);
  struct stat info {};
  ASSERT_EQ(::stat((temp.path() + "/d").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0755U);
  ASSERT_EQ(::stat((temp.path() + "/d/f").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0644U);
}

TEST(Files, DirectoriesAreMadeWithThoseAbove) {
  const TempDir temp;
  ASSERT_TRUE(makeDirectories(temp.path() + "/a/b/c", 0700));
  ASSERT_TRUE(makeDirectories(temp.path() + "/a/b/c", 0700));
  EXPECT_TRUE(fs::is_directory(temp.path() + "/a/b/c"));
  writeText(temp.path() + "/file", "");
  EXPECT_FALSE(makeDirectories(temp.path() + "/file/x", 0700));
}

}  // namespace
}  // namespace bole::engine
