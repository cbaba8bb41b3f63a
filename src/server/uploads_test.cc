// Archives that submitters bring along.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <openssl/sha.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "server/testing/house.h"
#include "server/uploads.h"

namespace bole::server::testing {
namespace {

namespace fs = std::filesystem;

constexpr uid_t kNobody = 65534;

std::string sha256(const std::string& text) {
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest);
  std::string hex;
  for (const auto byte : digest) {
    constexpr const char* kDigits = "0123456789abcdef";
    hex += kDigits[byte >> 4];
    hex += kDigits[byte & 15];
  }
  return hex;
}

std::string pathOf(const std::string& text) {
  return "/v1/uploads/" + sha256(text);
}

class UploadsTest : public ::testing::Test {
 protected:
  void SetUp() override { house_.open(); }

  void reopen() {
    house_.close();
    house_.open();
  }

  std::set<std::string> files() {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(house_.options.uploadsDirectory)) {
      names.insert(entry.path().filename());
    }
    return names;
  }

  std::string content(const std::string& name) {
    std::ifstream file(house_.options.uploadsDirectory + "/" + name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  House house_;
};

TEST_F(UploadsTest, WhatIsBroughtIsKeptUnderItsHashAndPrivate) {
  const std::string archive(1'000'000, 'q');
  auto client = house_.client();
  EXPECT_EQ(client.request("HEAD", pathOf(archive)).status, 404);
  EXPECT_EQ(client.request("PUT", pathOf(archive), archive).status, 201);
  EXPECT_EQ(client.request("HEAD", pathOf(archive)).status, 200);
  EXPECT_EQ(client.request("PUT", pathOf(archive), archive).status, 200);
  EXPECT_EQ(files(), std::set<std::string>{sha256(archive) + ".tar"});
  EXPECT_EQ(content(sha256(archive) + ".tar"), archive);
  struct stat info {};
  ASSERT_EQ(stat(house_.options.uploadsDirectory.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700);
  const auto file = house_.options.uploadsDirectory + "/" + sha256(archive) + ".tar";
  ASSERT_EQ(stat(file.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600);
}

TEST_F(UploadsTest, EmptyAndChunkedAndAnnouncedOnesCome) {
  auto client = house_.client();
  EXPECT_EQ(client.request("PUT", pathOf(""), "", {{"Content-Length", "0"}}).status, 201);
  EXPECT_EQ(client.request("PUT", pathOf("")).status, 200) << "without a length there is no body";
  client.send("PUT " + pathOf("abcdef") +
              " HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
              "3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n");
  EXPECT_EQ(client.read("PUT", pathOf("abcdef")).status, 201);
  client.send("PUT " + pathOf("xyz") +
              " HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.read().status, 100);
  client.send("xyz");
  EXPECT_EQ(client.read("PUT", pathOf("xyz")).status, 201);
  EXPECT_EQ(content(sha256("abcdef") + ".tar"), "abcdef");
}

TEST_F(UploadsTest, AnotherHashThanPromisedLeavesNothing) {
  auto client = house_.client();
  const auto answer = client.request("PUT", pathOf("promised"), "brought");
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(answer.json()["found"], sha256("brought"));
  EXPECT_EQ(answer.json()["expected"], sha256("promised"));
  EXPECT_TRUE(files().empty());
  EXPECT_EQ(client.request("PUT", pathOf("promised"), "promised").status, 201);
  EXPECT_EQ(client.request("PUT", pathOf("promised"), "brought").status, 400)
      << "also where it is here already";
  EXPECT_EQ(content(sha256("promised") + ".tar"), "promised");
}

TEST_F(UploadsTest, NamesThatAreNoHashAreRefused) {
  for (const std::string& name :
       {std::string("x"), std::string(63, 'a'), std::string(65, 'a'), std::string(64, 'A'),
        std::string(64, 'g'), std::string("..%2F..%2Fetc%2Fpasswd"),
        "..%2F" + std::string(59, 'a')}) {
    auto client = house_.client();
    EXPECT_EQ(client.request("PUT", "/v1/uploads/" + name, "x").status, 400) << name;
    EXPECT_EQ(house_.client().request("HEAD", "/v1/uploads/" + name).status, 404) << name;
  }
  EXPECT_TRUE(files().empty());
}

TEST_F(UploadsTest, TooLargeOnesAreRefusedAndLeaveNothing) {
  house_.options.limits.uploadBytes = 300'000;
  reopen();
  const std::string archive(300'001, 'q');
  const auto told = house_.client().request("PUT", pathOf(archive), archive);
  EXPECT_EQ(told.status, 413);
  EXPECT_EQ(told.json()["code"], "refused");
  auto untold = house_.client();
  untold.send("PUT " + pathOf(archive) +
              " HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
  static_cast<void>(untold.trySend("493e1\r\n" + archive + "\r\n0\r\n\r\n"));
  EXPECT_EQ(untold.read("PUT", pathOf(archive)).status, 413);
  EXPECT_TRUE(untold.closed());
  house_.close();
  EXPECT_TRUE(files().empty());
}

TEST_F(UploadsTest, SilentAndSlowOnesAreEndedAndLeaveNothing) {
  auto silent = house_.client();
  silent.send("PUT " + pathOf("abc") + " HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\na");
  auto slow = house_.client();
  slow.send("PUT " + pathOf("x") + " HTTP/1.1\r\nHost: x\r\nContent-Length: 999999\r\n\r\n");
  house_.awaitUploads(2);
  house_.settle();
  house_.clock.advance(seconds(50));
  slow.send("a");
  house_.settle();
  house_.clock.advance(seconds(11));
  EXPECT_EQ(silent.read("PUT", pathOf("abc")).status, 408);
  slow.send("a");
  const auto answer = slow.read("PUT", pathOf("x"));
  EXPECT_EQ(answer.status, 408);
  EXPECT_EQ(answer.json()["what"], "the upload is too slow");
  house_.close();
  EXPECT_TRUE(files().empty());
}

TEST_F(UploadsTest, PlacesAreFewAndOneUserDoesNotGetAll) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be somebody else";
  const auto begin = [](Client client) {
    client.send("PUT " + pathOf("abc") + " HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\na");
    return client;
  };
  std::vector<Client> running;
  for (int i = 0; i < 2; ++i) running.push_back(begin(house_.clientOf(kNobody)));
  house_.awaitUploads(2);
  EXPECT_EQ(begin(house_.clientOf(kNobody)).read("PUT", pathOf("abc")).status, 429);
  for (int i = 0; i < 2; ++i) running.push_back(begin(house_.client()));
  house_.awaitUploads(4);
  const auto fifth = begin(house_.clientOf(1001)).read("PUT", pathOf("abc"));
  EXPECT_EQ(fifth.status, 503);
  EXPECT_EQ(fifth.header("retry-after"), "1");
  for (auto& client : running) {
    client.send("bc");
    const auto status = client.read("PUT", pathOf("abc")).status;
    EXPECT_TRUE(status == 200 || status == 201) << status;
  }
  EXPECT_EQ(house_.clientOf(kNobody).request("PUT", pathOf("abc"), "abc").status, 200);
}

TEST_F(UploadsTest, OneUserBringsSoMuchWithinAnHour) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be somebody else";
  house_.options.limits.uploadsBytes = 4000;
  reopen();
  const auto bring = [&](uid_t uid, const std::string& archive) {
    return house_.clientOf(uid).request("PUT", pathOf(archive), archive).status;
  };
  EXPECT_EQ(bring(kNobody, std::string(900, 'a')), 201);
  EXPECT_EQ(bring(kNobody, std::string(200, 'b')), 429);
  EXPECT_EQ(bring(1001, std::string(200, 'b')), 201);
  EXPECT_EQ(bring(0, std::string(1500, 'c')), 201);
  house_.clock.advance(hours(1) + seconds(1));
  EXPECT_EQ(bring(kNobody, std::string(200, 'd')), 201);
}

TEST_F(UploadsTest, RoomIsMadeOfWhatIsOldAndNotInUse) {
  house_.options.limits.uploadsBytes = 3000;
  reopen();
  const std::string used(1000, 'u');
  const std::string old(1000, 'o');
  const std::string fresh(1000, 'f');
  auto client = house_.client();
  for (const auto& archive : {used, old}) {
    ASSERT_EQ(client.request("PUT", pathOf(archive), archive).status, 201);
    const timespec then[2] = {{1'600'000'000, 0}, {1'600'000'000, 0}};
    utimensat(AT_FDCWD, (house_.options.uploadsDirectory + "/" + sha256(archive) + ".tar").c_str(),
              then, 0);
  }
  auto spec = test::job(1, 0);
  spec.text.upload = sha256(used);
  house_.add(spec);
  ASSERT_EQ(client.request("PUT", pathOf(fresh), fresh).status, 201);
  const std::string next(1000, 'n');
  EXPECT_EQ(client.request("PUT", pathOf(next), next).status, 201);
  EXPECT_EQ(files(), (std::set<std::string>{sha256(used) + ".tar", sha256(fresh) + ".tar",
                                            sha256(next) + ".tar"}));
  const std::string more(1000, 'm');
  const auto full = client.request("PUT", pathOf(more), more);
  EXPECT_EQ(full.status, 503) << "what waits for its job and what a job uses stay";
  EXPECT_EQ(full.json()["what"], "too much is kept of earlier uploads");
}

TEST_F(UploadsTest, NewServerTidiesUpAndKnowsWhatIsThere) {
  ASSERT_EQ(house_.client().request("PUT", pathOf("abc"), "abc").status, 201);
  house_.close();
  std::ofstream(house_.options.uploadsDirectory + "/.part-1-left") << "half";
  house_.open();
  EXPECT_EQ(files(), std::set<std::string>{sha256("abc") + ".tar"});
  EXPECT_EQ(house_.client().request("HEAD", pathOf("abc")).status, 200);
}

TEST_F(UploadsTest, JobsNameWhatTheyBring) {
  auto client = house_.client();
  const auto with = [&](const std::string& upload) {
    return client.post("/v1/jobs", submission(test::job(1, 0), ",\"upload\":\"" + upload + "\""));
  };
  EXPECT_EQ(with(sha256("abc")).status, 400);
  EXPECT_EQ(with("../../etc/passwd").status, 400);
  ASSERT_EQ(client.request("PUT", pathOf("abc"), "abc").status, 201);
  EXPECT_EQ(with(sha256("abc")).status, 201);
  EXPECT_EQ(client.get("/v1/jobs/1").json()["spec"]["text"]["upload"], sha256("abc"));
}

TEST_F(UploadsTest, FullDiskIsSaidAndLeavesNothing) {
  house_.close();
  bool mounted = false;
  // A thread with mounts of its own, which the server's threads inherit and nobody else sees.
  std::thread([&] {
    const auto& directory = house_.options.uploadsDirectory;
    mounted = unshare(CLONE_NEWNS) == 0 &&
              mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
              mount("none", directory.c_str(), "tmpfs", 0, "size=64k") == 0;
    if (!mounted) return;
    house_.open();
    const std::string archive(1'000'000, 'q');
    EXPECT_EQ(house_.client().request("PUT", pathOf(archive), archive).status, 503);
    EXPECT_TRUE(files().empty());
    EXPECT_EQ(house_.client().request("PUT", pathOf("small"), "small").status, 201);
    house_.close();
  }).join();
  if (!mounted) GTEST_SKIP() << "nothing can be mounted here";
}

TEST_F(UploadsTest, WithoutADirectoryThereAreNone) {
  house_.options.uploadsDirectory.clear();
  reopen();
  EXPECT_EQ(house_.client().request("PUT", pathOf("abc"), "abc").status, 501);
  EXPECT_EQ(house_.client().request("HEAD", pathOf("abc")).status, 404);
}

}  // namespace
}  // namespace bole::server::testing
