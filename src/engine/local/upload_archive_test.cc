#include "engine/local/upload_archive.h"

#include <archive.h>
#include <archive_entry.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <functional>

#include "engine/local/testing/test_support.h"
#include "engine/local/work_directory.h"

namespace bole::engine {
namespace {

using testing::readText;
using testing::TempDir;
using testing::writeText;

const std::atomic<bool> kGoOn{false};

struct Entry {
  std::string path;
  std::string content = {};
  unsigned int type = AE_IFREG;
  std::string target = {};  // of a symbolic link
  std::string hardlink = {};
  mode_t mode = 0644;
};

void writeTar(const std::string& path, const std::vector<Entry>& entries) {
  archive* out = archive_write_new();
  archive_write_set_format_pax_restricted(out);
  ASSERT_EQ(archive_write_open_filename(out, path.c_str()), ARCHIVE_OK);
  for (const auto& one : entries) {
    archive_entry* entry = archive_entry_new();
    archive_entry_set_pathname(entry, one.path.c_str());
    archive_entry_set_filetype(entry, one.type);
    archive_entry_set_perm(entry, one.mode);
    archive_entry_set_uid(entry, 0);
    archive_entry_set_gid(entry, 0);
    archive_entry_set_uname(entry, "root");
    if (!one.target.empty()) archive_entry_set_symlink(entry, one.target.c_str());
    if (!one.hardlink.empty()) archive_entry_set_hardlink(entry, one.hardlink.c_str());
    archive_entry_set_size(entry, static_cast<la_int64_t>(one.content.size()));
    EXPECT_GE(archive_write_header(out, entry), ARCHIVE_WARN) << one.path;
    archive_write_data(out, one.content.data(), one.content.size());
    archive_entry_free(entry);
  }
  archive_write_close(out);
  archive_write_free(out);
}

class UploadArchive : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directory(into_); }

  Result<void> unpack(const std::vector<Entry>& entries, std::optional<Owner> owner = {}) {
    writeTar(tar_, entries);
    return unpackUpload(tar_, into_, owner, limits_, kGoOn);
  }
  void expectRefused(const std::vector<Entry>& entries, const std::string& words) {
    const auto result = unpack(entries);
    ASSERT_FALSE(result);
    EXPECT_NE(result.error().message().find(words), std::string::npos) << result.error().message();
    EXPECT_EQ(result.error().code, ErrorCode::kInvalid);
  }

  TempDir temp_;
  std::string tar_ = temp_.path() + "/upload.tar";
  std::string into_ = temp_.path() + "/into";
  std::string outside_ = temp_.path() + "/outside";
  UploadLimits limits_;
};

TEST_F(UploadArchive, FilesDirectoriesLinksAndModes) {
  const auto result = unpack({{"./", "", AE_IFDIR},
                              {"train.py", "print()", AE_IFREG, "", "", 0755},
                              {"./src", "", AE_IFDIR, "", "", 0555},
                              {"src/deep/model.py", "m"},
                              {"src//again.py", "a"},
                              {"venv", "/usr/bin/python3", AE_IFLNK, "/usr/bin/python3"},
                              {"copy.py", "", AE_IFREG, "", "./train.py"}});
  ASSERT_TRUE(result) << result.error().message();
  EXPECT_EQ(readText(into_ + "/train.py"), "print()");
  EXPECT_EQ(readText(into_ + "/copy.py"), "print()");
  EXPECT_EQ(readText(into_ + "/src/deep/model.py"), "m");
  EXPECT_EQ(readText(into_ + "/src/again.py"), "a");
  EXPECT_EQ(std::filesystem::read_symlink(into_ + "/venv"), "/usr/bin/python3");
  struct stat info {};
  ASSERT_EQ(::stat((into_ + "/train.py").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0755U);
  ASSERT_EQ(::stat((into_ + "/src").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0755U);  // its owner may always write there
}

TEST_F(UploadArchive, SetuidIsTakenAway) {
  ASSERT_TRUE(unpack({{"tool", "x", AE_IFREG, "", "", 06755}}));
  struct stat info {};
  ASSERT_EQ(::stat((into_ + "/tool").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0755U);
}

TEST_F(UploadArchive, OwnershipIsGiven) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root gives files away";
  ASSERT_TRUE(unpack({{"a/b", "x"}, {"l", "", AE_IFLNK, "/etc/passwd"}}, Owner{200'002, 200'002}));
  struct stat info {};
  for (const auto* name : {"/a", "/a/b", "/l"}) {
    ASSERT_EQ(::lstat((into_ + name).c_str(), &info), 0);
    EXPECT_EQ(info.st_uid, 200'002U) << name;
    EXPECT_EQ(info.st_gid, 200'002U) << name;
  }
  ASSERT_EQ(::stat("/etc/passwd", &info), 0);
  EXPECT_EQ(info.st_uid, 0U);
}

TEST_F(UploadArchive, PathsThatLeaveAreRefused) {
  expectRefused({{"../outside", "x"}}, "../outside");
  expectRefused({{"a/../../outside", "x"}}, "outside");
  expectRefused({{outside_, "x"}}, "a path inside");
  EXPECT_FALSE(std::filesystem::exists(outside_));
}

TEST_F(UploadArchive, NothingIsWrittenThroughALink) {
  std::filesystem::create_directory(outside_);
  const auto result = unpack({{"d", "", AE_IFLNK, outside_}, {"d/file", "x"}});
  EXPECT_FALSE(result);
  EXPECT_TRUE(std::filesystem::is_empty(outside_));
}

TEST_F(UploadArchive, AFileInPlaceOfALinkIsNotWrittenThroughIt) {
  writeText(outside_, "before");
  const auto result = unpack({{"f", "", AE_IFLNK, outside_}, {"f", "after"}});
  EXPECT_EQ(readText(outside_), "before");
  static_cast<void>(result);  // refused or replaced: both are fine
}

TEST_F(UploadArchive, HardLinksOnlyToFilesOfTheArchive) {
  writeText(outside_, "secret");
  expectRefused({{"h", "", AE_IFREG, "", outside_}}, "hard link");
  expectRefused({{"l", "", AE_IFLNK, outside_}, {"h", "", AE_IFREG, "", "l"}}, "hard link");
  expectRefused({{"h", "", AE_IFREG, "", "../outside"}}, "hard link");
}

TEST_F(UploadArchive, DevicesAndPipesAreRefused) {
  expectRefused({{"null", "", AE_IFCHR}}, "null");
  expectRefused({{"pipe", "", AE_IFIFO}}, "pipe");
}

TEST_F(UploadArchive, BoundsHold) {
  limits_.bytes = Bytes(10);
  EXPECT_TRUE(unpack({{"a", "12345"}, {"b", "12345"}}));
  expectRefused({{"a", "12345"}, {"b", "123456"}}, "too large");
  limits_ = UploadLimits{};
  limits_.entries = 2;
  expectRefused({{"a", ""}, {"b", ""}, {"c", ""}}, "too many files");
}

TEST_F(UploadArchive, DamageIsSaid) {
  EXPECT_EQ(unpackUpload(tar_, into_, {}, limits_, kGoOn).error().code, ErrorCode::kNotFound);
  writeText(tar_, std::string(1024, 'x'));
  EXPECT_EQ(unpackUpload(tar_, into_, {}, limits_, kGoOn).error().code, ErrorCode::kCorrupt);
  writeTar(tar_, {{"a", std::string(100'000, 'y')}});
  std::filesystem::resize_file(tar_, 50'000);
  EXPECT_EQ(unpackUpload(tar_, into_, {}, limits_, kGoOn).error().code, ErrorCode::kCorrupt);
}

TEST_F(UploadArchive, CanBeCancelled) {
  const std::atomic<bool> stop{true};
  writeTar(tar_, {{"a", "x"}});
  EXPECT_EQ(unpackUpload(tar_, into_, {}, limits_, stop).error().code, ErrorCode::kUnavailable);
}

// ---- the job's directory as a whole
// -------------------------------------------------------------------------------

class WorkDirectory : public UploadArchive {
 protected:
  WorkRequest request() {
    WorkRequest request;
    request.directory = temp_.path() + "/work/3";
    request.archive = tar_;
    request.checkpoints = "out/checkpoints";
    if (::geteuid() == 0) request.owner = Owner{200'002, 200'002};
    return request;
  }
};

TEST_F(WorkDirectory, IsMadeOnceAndKept) {
  writeTar(tar_, {{"train.py", "1"}});
  const auto asked = request();
  ASSERT_TRUE(makeWorkDirectory(asked, kGoOn));
  EXPECT_EQ(readText(asked.directory + "/train.py"), "1");
  EXPECT_TRUE(std::filesystem::is_directory(asked.directory + "/out/checkpoints"));
  writeText(asked.directory + "/out/checkpoints/epoch-5", "weights");
  writeText(asked.directory + "/train.py", "2");
  ASSERT_TRUE(makeWorkDirectory(asked, kGoOn));
  EXPECT_EQ(readText(asked.directory + "/train.py"), "2");
  EXPECT_EQ(readText(asked.directory + "/out/checkpoints/epoch-5"), "weights");
  struct stat info {};
  ASSERT_EQ(::stat((asked.directory + "/out/checkpoints").c_str(), &info), 0);
  if (asked.owner) {
    EXPECT_EQ(info.st_uid, asked.owner->uid);
  }
  ASSERT_EQ(::stat(asked.directory.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0700U);
}

TEST_F(WorkDirectory, HalfOfOneStartsOver) {
  const auto asked = request();
  writeText(tar_, "not a tar at all, but long enough to be looked at");
  ASSERT_FALSE(makeWorkDirectory(asked, kGoOn));
  EXPECT_FALSE(hasWorkDirectory(asked.directory));
  writeText(temp_.path() + "/work/.new-3/half", "h");
  writeTar(tar_, {{"whole", "w"}});
  ASSERT_TRUE(makeWorkDirectory(asked, kGoOn));
  EXPECT_FALSE(std::filesystem::exists(asked.directory + "/half"));
  EXPECT_TRUE(std::filesystem::exists(asked.directory + "/whole"));
}

TEST_F(WorkDirectory, CheckpointsAreNotMadeThroughALinkOfTheArchive) {
  std::filesystem::create_directory(outside_);
  writeTar(tar_, {{"out", "", AE_IFLNK, outside_}});
  ASSERT_TRUE(makeWorkDirectory(request(), kGoOn));
  EXPECT_TRUE(std::filesystem::is_empty(outside_));
}

TEST_F(WorkDirectory, StartDirectories) {
  writeTar(tar_, {{"src/deep", "", AE_IFDIR}, {"file", ""}, {"link", "", AE_IFLNK, "src"}});
  const auto asked = request();
  ASSERT_TRUE(makeWorkDirectory(asked, kGoOn));
  EXPECT_TRUE(checkStartDirectory(asked.directory, "", asked.owner));
  EXPECT_TRUE(checkStartDirectory(asked.directory, "src/deep", asked.owner));
  EXPECT_FALSE(checkStartDirectory(asked.directory, "file", asked.owner));
  EXPECT_FALSE(checkStartDirectory(asked.directory, "link", asked.owner));
  EXPECT_FALSE(checkStartDirectory(asked.directory, "link/deep", asked.owner));
  EXPECT_FALSE(checkStartDirectory(asked.directory, "gone", asked.owner));
  EXPECT_FALSE(checkStartDirectory(asked.directory, "../3", asked.owner));
  if (asked.owner) {
    EXPECT_FALSE(checkStartDirectory(asked.directory, "", Owner{1, 1}));
  }
}

}  // namespace
}  // namespace bole::engine
