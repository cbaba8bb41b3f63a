#include "cli/pack.h"

#include <archive.h>
#include <archive_entry.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "cli/testing/program.h"

namespace bole::cli {
namespace {

using testing::TempDirectory;

class Pack : public ::testing::Test {
 protected:
  Pack() {
    request_.directory = directory_.path();
    request_.temporary = "/tmp";
  }

  std::vector<std::string> listed() {
    std::vector<std::string> paths;
    const auto listing = listFiles(request_);
    if (!listing)
      ADD_FAILURE() << listing.error().message();
    else {
      for (const auto& entry : listing->entries) paths.push_back(entry.path);
      warnings_ = listing->warnings;
    }
    return paths;
  }

  TempDirectory directory_;
  PackRequest request_;
  std::vector<std::string> warnings_;
};

using Paths = std::vector<std::string>;

TEST_F(Pack, EverythingButWhatIsIgnored) {
  directory_.write(".gitignore", "*.pt\n/build/\n!keep.pt\n");
  directory_.write("train.py", "print()");
  directory_.write("model.pt", "x");
  directory_.write("keep.pt", "x");
  directory_.write("build/a.o", "x");
  directory_.write("src/build/b.c", "x");
  directory_.write("src/.gitignore", "*.c\n!b.c\n");
  directory_.write("src/c.c", "x");
  directory_.write(".git/config", "x");
  EXPECT_EQ(listed(), (Paths{".gitignore", "keep.pt", "src", "src/.gitignore", "src/build",
                             "src/build/b.c", "train.py"}));
}

TEST_F(Pack, RulesAboveCountInARepository) {
  directory_.write(".git/HEAD", "x");
  directory_.write(".gitignore", "*.log\n/jobs/one/only-here\n");
  directory_.write("jobs/.gitignore", "!keep.log\n");
  directory_.write("jobs/one/a.log", "x");
  directory_.write("jobs/one/keep.log", "x");
  directory_.write("jobs/one/only-here", "x");
  directory_.write("jobs/one/run.py", "x");
  request_.directory = directory_ / "jobs/one";
  EXPECT_EQ(listed(), (Paths{"keep.log", "run.py"}));
}

TEST_F(Pack, WithoutARepositoryRulesAboveAreNotLookedFor) {
  directory_.write(".gitignore", "*.py\n");
  directory_.write("job/run.py", "x");
  request_.directory = directory_ / "job";
  EXPECT_EQ(listed(), Paths{"run.py"});
}

TEST_F(Pack, NamedFilesComeAlongEvenIfIgnored) {
  directory_.write(".gitignore", "build\n*.o\n");
  directory_.write("build/digits", "x");
  directory_.write("build/a.o", "x");
  directory_.write("other.py", "x");
  request_.files = {"build", "./build/digits"};
  EXPECT_EQ(listed(), (Paths{"build", "build/digits"}));
}

TEST_F(Pack, NamedFilesMustBeThereAndInside) {
  request_.files = {"missing.py"};
  auto listing = listFiles(request_);
  ASSERT_FALSE(listing);
  EXPECT_EQ(listing.error().code, ErrorCode::kNotFound);
  EXPECT_NE(listing.error().message().find("'missing.py'"), std::string::npos);
  request_.files = {"a/../../x"};
  listing = listFiles(request_);
  ASSERT_FALSE(listing);
  EXPECT_EQ(listing.error().code, ErrorCode::kInvalid);
}

TEST_F(Pack, LinksStayOnlyInside) {
  directory_.write("data/a", "x");
  ASSERT_EQ(::symlink("data/a", (directory_ / "good").c_str()), 0);
  ASSERT_EQ(::symlink("../good", (directory_ / "data/back").c_str()), 0);
  ASSERT_EQ(::symlink("/etc/passwd", (directory_ / "absolute").c_str()), 0);
  ASSERT_EQ(::symlink("data/../../x", (directory_ / "climbs").c_str()), 0);
  EXPECT_EQ(listed(), (Paths{"data", "data/a", "data/back", "good"}));
  ASSERT_EQ(warnings_.size(), 2U);
  EXPECT_NE(warnings_[0].find("absolute is left out: it is a link to /etc/passwd"),
            std::string::npos);
}

TEST_F(Pack, SocketsPipesAndTheServersHomeStayBehind) {
  directory_.write("home/ledger.db", "x");
  directory_.write("home/token", "x");
  directory_.write("a.py", "x");
  ASSERT_EQ(::mkfifo((directory_ / "pipe").c_str(), 0600), 0);
  request_.leftOut = directory_ / "home";
  EXPECT_EQ(listed(), Paths{"a.py"});
}

TEST_F(Pack, TooLargeNamesTheLargest) {
  request_.limit = kMiB;
  directory_.write("data/train.bin", std::string(900 * 1024, 'x'));
  directory_.write("data/test.bin", std::string(300 * 1024, 'x'));
  directory_.write("small.py", "x");
  const auto made = pack(request_);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ErrorCode::kRefused);
  const auto text = made.error().message();
  EXPECT_NE(
      text.find("found 1.1 MiB; most of it in data/ (1.1 MiB), small.py (1 B); the largest file "
                "is data/train.bin (900 KiB), expected at most 1 MiB"),
      std::string::npos)
      << text;
  EXPECT_NE(text.find(".gitignore"), std::string::npos);
}

TEST_F(Pack, AFileThatCannotBeReadIsNamed) {
  constexpr uid_t kNobody = 65'534;
  directory_.write("secret", "x");
  ASSERT_EQ(::chmod(directory_.path().c_str(), 0755), 0);
  ASSERT_EQ(::chmod((directory_ / "secret").c_str(), 0), 0);
  const bool root = ::geteuid() == 0;  // root may read everything
  if (root) {
    ASSERT_EQ(::seteuid(kNobody), 0);
  }
  const auto made = pack(request_);
  if (root) {
    ASSERT_EQ(::seteuid(0), 0);
  }
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ErrorCode::kPermission);
  EXPECT_NE(made.error().message().find("secret"), std::string::npos);
}

struct Unpacked {
  std::string content;
  unsigned mode = 0;
  std::string link;
};

std::map<std::string, Unpacked> unpack(int file) {
  std::map<std::string, Unpacked> entries;
  archive* reader = archive_read_new();
  archive_read_support_format_tar(reader);
  ::lseek(file, 0, SEEK_SET);
  EXPECT_EQ(archive_read_open_fd(reader, file, 64 * 1024), ARCHIVE_OK);
  archive_entry* entry = nullptr;
  while (archive_read_next_header(reader, &entry) == ARCHIVE_OK) {
    Unpacked one;
    one.mode = archive_entry_mode(entry);
    if (const char* target = archive_entry_symlink(entry)) one.link = target;
    one.content.resize(static_cast<std::size_t>(archive_entry_size(entry)));
    if (!one.content.empty()) archive_read_data(reader, one.content.data(), one.content.size());
    entries[archive_entry_pathname(entry)] = one;
  }
  archive_read_free(reader);
  return entries;
}

TEST_F(Pack, TheArchiveHoldsWhatWasListed) {
  const std::string large(200'000, 'y');
  directory_.write("bin/run", large);
  directory_.write("bin/伯乐-" + std::string(120, 'n'), "long name");
  directory_.write("empty", "");
  ASSERT_EQ(::chmod((directory_ / "bin/run").c_str(), 04755), 0);
  ASSERT_EQ(::symlink("bin/run", (directory_ / "link").c_str()), 0);
  const auto made = pack(request_);
  ASSERT_TRUE(made) << made.error().message();
  EXPECT_EQ(made->entries, 5U);
  auto entries = unpack(made->file.get());
  EXPECT_EQ(entries.size(), 5U);
  EXPECT_EQ(entries["bin/run"].content, large);
  EXPECT_EQ(entries["bin/run"].mode & 07777U, 0755U);
  EXPECT_EQ(entries["link"].link, "bin/run");
  EXPECT_EQ(entries["bin/伯乐-" + std::string(120, 'n')].content, "long name");
  EXPECT_EQ(entries["empty"].content, "");
  struct stat info {};
  ASSERT_EQ(::fstat(made->file.get(), &info), 0);
  EXPECT_EQ(static_cast<std::uint64_t>(info.st_size), made->size);
}

TEST_F(Pack, EqualFilesGiveAnEqualArchive) {
  directory_.write("b.py", "1");
  directory_.write("a.py", "2");
  const auto first = pack(request_);
  const auto second = pack(request_);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->sha256, second->sha256);
  EXPECT_EQ(first->sha256.size(), 64U);
  directory_.write("a.py", "3");
  const auto third = pack(request_);
  ASSERT_TRUE(third);
  EXPECT_NE(first->sha256, third->sha256);
}

TEST_F(Pack, NothingIsLeftInTheTemporaryDirectory) {
  const TempDirectory temporary;
  directory_.write("a.py", "1");
  request_.temporary = temporary.path();
  const auto made = pack(request_);
  ASSERT_TRUE(made);
  EXPECT_TRUE(std::filesystem::is_empty(temporary.path()));
}

}  // namespace
}  // namespace bole::cli
