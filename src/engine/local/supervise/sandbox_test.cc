// What a job of the process runtime cannot do, whatever it tries. tests/e2e/isolation_test.py tries
// the same and more against a whole server.
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/un.h>

#include <array>

#include "engine/local/supervise/testing/attempt_world.h"

namespace bole::supervise {
namespace {

namespace fs = std::filesystem;

class Sandboxed : public testing::AttemptWorld {
 protected:
  Sandboxed() : AttemptWorld(RuntimeKind::kProcess) {}
  void SetUp() override {
    if (!testing::hasBubblewrap() || ::geteuid() != 0) GTEST_SKIP() << "needs bubblewrap and root";
  }

  // What one rank with this line of shell prints.
  std::string outputOf(const std::string& line) {
    addShell(line);
    const auto done = run();
    EXPECT_EQ(done.outcome, EndOutcome::kExited) << done.note;
    return output();
  }
  // Of each of these lines: that it fails.
  void expectRefused(const std::vector<std::string>& lines) {
    std::string all;
    for (const auto& line : lines)
      all += "( " + line + " ) >/dev/null 2>&1 && echo 'DONE: " + line + "'; ";
    EXPECT_EQ(outputOf(all + "true"), "");
  }
  // For the next attempt of a test.
  void again() {
    fs::remove_all(dir);
    fs::create_directories(dir);
    launch.ranks.clear();
  }
};

// ---- who it is
// ----------------------------------------------------------------------------------------------------

TEST_F(Sandboxed, ItIsNobodyAndBecomesNobodyElse) {
  const auto uid = std::to_string(testing::kJobUid);
  EXPECT_EQ(outputOf("id -u; id -g; id -G; id -un; grep -E '^(Cap|NoNewPrivs|Seccomp:)' "
                     "/proc/self/status | tr '\t' ' '"),
            uid + "\n" + uid + "\n" + uid + "\njob\n" +
                "CapInh: 0000000000000000\nCapPrm: 0000000000000000\nCapEff: 0000000000000000\n"
                "CapBnd: 0000000000000000\nCapAmb: 0000000000000000\nNoNewPrivs: 1\nSeccomp: 2\n");
}

TEST_F(Sandboxed, ASetuidProgramGivesNothing) {
  const auto program = work() + "/id";
  fs::copy_file("/usr/bin/id", program);
  ASSERT_EQ(::chmod(program.c_str(), 06755), 0);  // root's
  EXPECT_EQ(outputOf("./id -u; ./id -ru"),
            std::to_string(testing::kJobUid) + "\n" + std::to_string(testing::kJobUid) + "\n");
}

TEST_F(Sandboxed, NoNamespacesOfItsOwnAndNoMounts) {
  expectRefused({"unshare -U true", "unshare -Ur true", "unshare -m true", "unshare -n true",
                 "unshare -p -f true", "unshare -i true", "unshare -u true", "unshare -C true",
                 "unshare -T true", "mount -t tmpfs none /tmp", "mount --bind /tmp /var/tmp",
                 "umount /tmp", "umount /proc/sys", "chroot / true", "hostname elsewhere",
                 "nsenter -t 1 -m true", "bwrap --ro-bind / / true"});
}

TEST_F(Sandboxed, CallsThatReachFurther) {
  // Of x86-64 and arm64 alike: names, looked up in the kernel's own list.
  const std::string program = R"(
import ctypes, errno, os, platform, struct, subprocess, threading
x86 = platform.machine() == "x86_64"
c = ctypes.CDLL(None, use_errno=True)
def call(name, numbers, *args):
    number = numbers[0 if x86 else 1]
    ctypes.set_errno(0)
    if c.syscall(number, *args) >= 0: print("DONE", name)
    else: print(name, errno.errorcode[ctypes.get_errno()])
call("keyctl", (250, 219), 0, -3, 0)
call("add_key", (248, 217), b"user", b"bole", b"x", 1, -4)
call("request_key", (249, 218), b"user", b"bole", None, 0)
call("bpf", (321, 280), 0, 0, 0)
call("io_uring_setup", (425, 425), 1, ctypes.create_string_buffer(256))
call("clone3", (435, 435), struct.pack("<11Q", 0x10000000, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0), 88)
call("clone", (56, 220), 0x10000000 | 17, 0, 0, 0, 0)
call("setns", (308, 268), os.open("/proc/self/ns/uts", os.O_RDONLY), 0)
# What any program does still goes.
threads = [threading.Thread(target=lambda: None) for _ in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]
print("and", subprocess.run(["/bin/true"]).returncode)
)";
  addRank({"/usr/bin/python3", "-c", program});
  run();
  EXPECT_EQ(output(),
            "keyctl EPERM\nadd_key EPERM\nrequest_key EPERM\nbpf EPERM\nio_uring_setup ENOSYS\n"
            "clone3 ENOSYS\nclone EPERM\nsetns EPERM\nand 0\n")
      << output(0, LogStream::kErr);
}

TEST_F(Sandboxed, ItsLimits) {
  rlimit files{};
  rlimit memory{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  ::getrlimit(RLIMIT_MEMLOCK, &memory);
  const auto status = testing::readText("/proc/self/status");
  const auto caps = std::stoull(status.substr(status.find("CapEff:") + 7), nullptr, 16);
  const bool mayRaise = (caps >> 24 & 1) != 0;  // CAP_SYS_RESOURCE
  const auto locked = mayRaise || memory.rlim_max == RLIM_INFINITY
                          ? "unlimited"
                          : std::to_string(memory.rlim_max / 1024);
  EXPECT_EQ(outputOf("ulimit -n; ulimit -l"),
            std::to_string(std::min<rlim_t>(files.rlim_max, 65536)) + "\n" + locked + "\n");
}

// ---- files
// --------------------------------------------------------------------------------------------------------

TEST_F(Sandboxed, TheSystemIsNotWritten) {
  expectRefused({"touch /x", "mkdir /y", "touch /usr/x", "touch /etc/x", "echo x >> /etc/passwd",
                 "touch /run/x", "touch /dev/x", "touch /opt/x", "touch /home/x", "touch /var/x",
                 "touch /proc/x", "touch /sys/x", "echo x > /proc/sys/kernel/hostname",
                 "echo b > /proc/sysrq-trigger", "echo 1 > /sys/kernel/mm/ksm/run",
                 "echo x > /run/bole-init", "rm /run/bole-init",
                 "echo -1000 > /proc/self/oom_score_adj"});
}

TEST_F(Sandboxed, WhatIsNotGivenIsNotThere) {
  testing::writeText(home() + "/secret", "a secret");
  testing::writeText("/tmp/bole-secret-" + std::to_string(::getpid()), "a secret");
  expectRefused({"cat " + home() + "/secret", "ls " + dir, "cat /tmp/bole-secret-*", "ls /root",
                 "ls /mnt", "ls /srv", "ls /var/log", "ls /run/systemd", "ls /sys/fs/cgroup/memory",
                 "cat /etc/shadow", "ls /boot"});
  fs::remove("/tmp/bole-secret-" + std::to_string(::getpid()));
}

TEST_F(Sandboxed, ItsOwnPlacesAreWritten) {
  EXPECT_EQ(outputOf("for d in . /tmp /var/tmp /dev/shm \"$HOME\" ${BOLE_PROGRESS_FILE%/*}; do "
                     "touch $d/x && echo fine; done"),
            "fine\nfine\nfine\nfine\nfine\nfine\n");
  EXPECT_TRUE(pathExists(work() + "/x"));
}

TEST_F(Sandboxed, WhatLiesInMemoryIsBounded) {
  launch.ranks.clear();
  auto& rank = addShell(
      "for d in /tmp /var/tmp /dev/shm \"$HOME\"; do head -c 200M /dev/zero > $d/x 2>/dev/null && "
      "echo \"DONE $d\"; stat -c %s $d/x; rm $d/x; done");
  rank.memory = kMiB * 160;
  rank.shm = kMiB * 32;
  const auto done = run();
  EXPECT_EQ(done.cause, EndCause::kCompleted) << done.note;
  const auto size = [](std::int64_t mib) { return std::to_string(mib << 20) + "\n"; };
  EXPECT_EQ(output(), size(20) + size(16) + size(32) + size(16));
}

// Without a limit of the job's own: all ranks of an attempt together take less than the machine
// has.
TEST_F(Sandboxed, WhatLiesInMemoryLeavesTheMachineSome) {
  for (int i = 0; i < 4; ++i) {
    addShell(
        "df -B1 --output=size /tmp /var /home /run /dev/shm | tail -n +2; awk '/MemTotal/ {print "
        "$2 * 1024}' /proc/meminfo");
  }
  run();
  double sum = 0;
  double machine = 0;
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    std::istringstream numbers(output(rank));
    for (int i = 0; i < 5; ++i) {
      double size = 0;
      ASSERT_TRUE(numbers >> size) << output(rank);
      sum += size;
    }
    ASSERT_TRUE(numbers >> machine) << output(rank);
  }
  EXPECT_LT(sum, machine * 0.8);
}

TEST_F(Sandboxed, ALinkAtItsStartLeadsNowhereElse) {
  const auto other = home() + "/other";
  fs::create_directories(other);
  testing::writeText(other + "/secret", "a secret");
  fs::create_symlink(other, work() + "/sub");
  auto& rank = addShell("cat secret");
  rank.cwd = work() + "/sub";
  rank.mounts = {{work(), work(), false, true}};
  const auto done = run();
  EXPECT_EQ(done.outcome, EndOutcome::kLaunchFailed);
  EXPECT_EQ(done.ranks.at(0).execStep, "chdir");
  EXPECT_EQ(output(), "");
}

// ---- mounts
// -------------------------------------------------------------------------------------------------------

TEST_F(Sandboxed, MountsAreReadAndWrittenAsGiven) {
  fs::create_directories(home() + "/data");
  ASSERT_EQ(::chmod((home() + "/data").c_str(), 0777), 0);
  testing::writeText(home() + "/data/in", "data\n");
  testing::writeText(home() + "/hosts", "127.0.0.1 here\n");
  auto& rank = addShell(
      "cat /data/in /etc/hosts; touch /data/x || echo read only; touch /scratch/deep/y && echo "
      "written");
  rank.mounts = {{home() + "/data", "/data", true, false},
                 {home() + "/data", "/scratch/deep", false, false},
                 {home() + "/hosts", "/etc/hosts", true, false}};
  EXPECT_EQ(run().cause, EndCause::kCompleted) << describe();
  EXPECT_EQ(output(), "data\n127.0.0.1 here\nread only\nwritten\n");
  EXPECT_TRUE(pathExists(home() + "/data/y"));
}

// Root makes the mounts: what it would run or make by a job's wish is refused.
TEST_F(Sandboxed, NothingIsMountedOverTheSandboxItself) {
  fs::create_directories(home() + "/evil");
  testing::writeText(home() + "/evil/bole-init", "#!/bin/sh\ntouch " + work() + "/ran-as-root\n");
  fs::permissions(home() + "/evil/bole-init", fs::perms(0755));
  for (const auto* target : {"/", "/run", "/run/bole-init", "/run/bole", "/run/bole/x", "/proc",
                             "/proc/sys", "/sys", "/dev", "/dev/shm", "/etc", "/usr", "/var",
                             "/var/run/x", "/data/../run/bole-init", "/data//x/.", "data", ""}) {
    SCOPED_TRACE(target);
    again();
    const bool isFile = std::string(target).ends_with("bole-init");
    addShell("touch ran").mounts = {
        {home() + "/evil" + (isFile ? "/bole-init" : ""), target, false, false}};
    const auto done = run();
    EXPECT_EQ(done.outcome, EndOutcome::kLaunchFailed);
    EXPECT_NE(done.note.find("a mount cannot be here"), std::string::npos) << done.note;
    EXPECT_FALSE(pathExists(work() + "/ran"));
    EXPECT_FALSE(pathExists(work() + "/ran-as-root"));
  }
}

TEST_F(Sandboxed, MountsDoNotLieInEachOther) {
  const auto mine = home() + "/mine";
  const auto host = home() + "/host";
  fs::create_directories(mine);
  fs::create_directories(host);
  fs::create_symlink("/oldroot" + host,
                     mine + "/link");  // as bubblewrap sees the machine while it mounts
  fs::create_symlink("/oldroot" + host, work() + "/link");
  for (const auto& [outer, inner] :
       std::vector<std::pair<std::string, std::string>>{{"/data", "/data/link/made"},
                                                        {"/data", "/data"},
                                                        {"/data/x", "/data"},
                                                        {"/data", work() + "/link/made"},
                                                        {"/data", home()}}) {
    SCOPED_TRACE(inner);
    again();
    addShell("touch ran").mounts = {{mine, outer, false, false}, {mine, inner, false, false}};
    const auto done = run();
    EXPECT_EQ(done.outcome, EndOutcome::kLaunchFailed);
    EXPECT_NE(done.note.find("do not lie in each other"), std::string::npos) << done.note;
    EXPECT_TRUE(fs::is_empty(host));
  }
}

TEST_F(Sandboxed, WhatIsHiddenIsNotMounted) {
  fs::create_directories(home() + "/bole/work");
  testing::writeText(home() + "/bole/token", "a secret");
  ASSERT_EQ(::chmod((home() + "/bole/token").c_str(), 0644), 0);
  fs::create_directory_symlink(home() + "/bole", home() + "/link");
  launch.maskPaths.push_back(home() + "/bole");
  for (const auto& source :
       {home() + "/bole", home() + "/bole/work", home() + "/bole/token", home() + "/link",
        home() + "/link/work", home() + "/bole/work/..", std::string("/proc"),
        std::string("/proc/self"), std::string("/proc/1/task")}) {
    SCOPED_TRACE(source);
    again();
    addShell("touch ran").mounts = {{source, "/data", true, false}};
    const auto done = run();
    EXPECT_EQ(done.outcome, EndOutcome::kLaunchFailed);
    EXPECT_NE(done.note.find("not mounted into jobs"), std::string::npos) << done.note;
    EXPECT_FALSE(pathExists(work() + "/ran"));
  }
}

// Root could mount it; who submitted the job could not even get there.
TEST_F(Sandboxed, WhatItsSubmitterCannotReachIsNotMounted) {
  const auto closed = home() + "/closed";
  fs::create_directories(closed + "/open");
  testing::writeText(closed + "/open/file", "a secret\n");
  ASSERT_EQ(::chmod(closed.c_str(), 0700), 0);
  fs::create_directory_symlink(closed, home() + "/way");
  for (const auto& user :
       {std::string("nobody"), std::string("uid:4242"), std::string("no-such-user")}) {
    for (const auto& source : {closed + "/open", closed + "/open/file", home() + "/way/open"}) {
      SCOPED_TRACE(user + " " + source);
      again();
      launch.mountsFor = user;
      addShell("touch ran").mounts = {{source, "/data", true, false}};
      const auto done = run();
      EXPECT_EQ(done.outcome, EndOutcome::kLaunchFailed);
      EXPECT_NE(done.note.find(user == "no-such-user" ? "not known here" : "cannot reach this"),
                std::string::npos)
          << done.note;
      EXPECT_FALSE(pathExists(work() + "/ran"));
    }
  }
  for (const auto& user : {std::string("root"), std::string()}) {
    again();
    launch.mountsFor = user;
    addShell("cat /data/file").mounts = {{closed + "/open", "/data", true, false}};
    run();
    EXPECT_EQ(output(), "a secret\n");
  }
  ASSERT_EQ(::chmod(closed.c_str(), 0711), 0);
  again();
  launch.mountsFor = "nobody";
  addShell("cat /data/file").mounts = {{home() + "/way/open", "/data", true, false}};
  run();
  EXPECT_EQ(output(), "a secret\n");
}

// Between the look at it and the mount, by another job that may write there.
TEST_F(Sandboxed, ASourceThatIsExchangedIsNoticed) {
  fs::create_directories(home() + "/bole/work");
  fs::create_directories(home() + "/data/sub");
  launch.maskPaths.push_back(home() + "/bole");
  fs::copy_file("/usr/bin/bwrap", home() + "/real");
  testing::writeText(home() + "/bwrap", "#!/bin/sh\nrmdir " + home() + "/data/sub\nln -s " +
                                            home() + "/bole " + home() + "/data/sub\nexec " +
                                            home() + "/real \"$@\"\n");
  fs::permissions(home() + "/bwrap", fs::perms(0755));
  onAMachineAfter("mount --bind " + home() + "/bwrap /usr/bin/bwrap");
  addShell("touch " + work() + "/ran").mounts = {{home() + "/data/sub", "/data", true, false}};
  const auto done = run();
  EXPECT_EQ(done.outcome, EndOutcome::kLaunchFailed);
  EXPECT_NE(done.note.find("exchanged while it was mounted"), std::string::npos) << done.note;
  EXPECT_FALSE(pathExists(work() + "/ran"));
}

TEST_F(Sandboxed, WhatIsHiddenIsHiddenInWhatLiesAroundIt) {
  fs::create_directories(home() + "/bole/work");
  testing::writeText(home() + "/bole/token", "a secret");
  launch.maskPaths.push_back(home() + "/bole");
  addShell("cat /around/bole/token; ls -A /around/bole; ls -A /all/proc; cat /all" + home() +
           "/bole/token; head -c 1 /all/dev/zero | wc -c")
      .mounts = {{home(), "/around", true, false}, {"/", "/all", false, false}};
  EXPECT_EQ(run().outcome, EndOutcome::kExited) << describe();
  EXPECT_EQ(output(), "0\n");  // a device that was not given does not open
}

// Where the server's home lies in what jobs see.
TEST_F(Sandboxed, AHomeBelowTheSystem) {
  const std::string top = "/opt/bole-test-" + std::to_string(::getpid());
  const auto job = top + "/work/3";
  fs::create_directories(job);
  testing::writeText(top + "/token", "a secret");
  ASSERT_EQ(::chown(job.c_str(), testing::kJobUid, testing::kJobUid), 0);
  launch.maskPaths.push_back(top);
  addShell("pwd; touch x && echo mine; ls -A " + top + "; cat " + top + "/token").cwd = job;
  run();
  EXPECT_EQ(output(), job + "\nmine\nwork\n") << describe();
  fs::remove_all(top);
}

// ---- devices
// ------------------------------------------------------------------------------------------------------

TEST_F(Sandboxed, OnlyTheDevicesThatWereGiven) {
  // Devices as a GPU's are, of a kind that every machine has.
  std::vector<std::string> devices;
  for (int i = 0; i < 3; ++i) {
    devices.push_back("/dev/bole-test-" + std::to_string(::getpid()) + "-" + std::to_string(i));
    if (::mknod(devices.back().c_str(), S_IFCHR | 0666, makedev(1, 5)) != 0)
      GTEST_SKIP() << "no device nodes here";
    ::chmod(devices.back().c_str(), 0666);
  }
  for (const auto i : {0U, 1U}) {
    std::string line;
    for (const auto& device : devices) line += "head -c 3 " + device + " 2>/dev/null | wc -c; ";
    addShell(line + "mknod /tmp/mine c 1 5 2>/dev/null && echo made; ls /dev").devices = {
        devices[i]};
  }
  run();
  const auto common = [&](const std::string& device) {
    std::vector<std::string> names = {
        "console", "core",    "fd",    "full",
        "null",    "ptmx",    "pts",   "random",
        "shm",     "stderr",  "stdin", "stdout",
        "tty",     "urandom", "zero",  fs::path(device).filename().string()};
    std::sort(names.begin(), names.end());
    std::string text;
    for (const auto& each : names) text += each == "console" ? "" : each + "\n";
    return text;
  };
  EXPECT_EQ(output(0), "3\n0\n0\n" + common(devices[0]));
  EXPECT_EQ(output(1), "0\n3\n0\n" + common(devices[1]));
  for (const auto& device : devices) ::unlink(device.c_str());
}

TEST_F(Sandboxed, ADeviceThatIsNotThereIsSaid) {
  addShell("true").devices = {"/dev/no-such-gpu"};
  const auto done = run();
  EXPECT_EQ(done.outcome, EndOutcome::kLaunchFailed);
  EXPECT_NE(done.note.find("/dev/no-such-gpu"), std::string::npos) << done.note;
}

// ---- processes
// ----------------------------------------------------------------------------------------------------

TEST_F(Sandboxed, OtherProcessesAreNotSeenNotEvenOfItsOwnUser) {
  // Another job of the same project: the same uid, and a secret in its environment.
  const pid_t other = ::fork();
  if (other == 0) {
    if (::setresuid(testing::kJobUid, testing::kJobUid, testing::kJobUid) != 0) ::_exit(1);
    ::execle("/bin/sleep", "sleep", "1000", nullptr,
             std::array<const char*, 2>{"SECRET=x", nullptr}.data());
    ::_exit(127);
  }
  addShell(
      "cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | grep SECRET; cat /proc/[0-9]*/comm "
      "| sort -u | tr '\\n' ' ';"
      "kill -9 -1; kill -9 " +
      std::to_string(other) + " 2>/dev/null && echo KILLED; sleep 0.05");
  addShell(
      "for f in environ mem maps root/etc/shadow fd/3 fd/4 cwd/x; do head -c 1 /proc/1/$f "
      "2>/dev/null && echo SEEN $f; done;"
      "ls /proc/1/fd 2>/dev/null; kill -9 1 2>/dev/null && echo KILLED; kill -TERM 1 2>/dev/null "
      "&& echo ASKED; sleep 0.05; echo here")
      .env.push_back("SECRET=y");
  launch.stopOnFailure = false;
  spawn();
  reap();
  EXPECT_TRUE(processFacts(other));
  ::kill(other, SIGKILL);
  ::waitpid(other, nullptr, 0);
  EXPECT_EQ(output(0).find("SECRET"), std::string::npos);
  EXPECT_EQ(output(0).find("KILLED"), std::string::npos);
  EXPECT_EQ(output(0).find("sleep"), std::string::npos);
  EXPECT_NE(output(0).find("bole-init"), std::string::npos) << output(0);
  EXPECT_EQ(output(1), "here\n");
}

// Nobody keeps another project's attempt, and its GPUs, from ending by saying that he is of it.
TEST_F(Sandboxed, WhoeverSaysThatHeIsOfItIsNot) {
  launch.cgroup = "";
  const auto tag = std::string(kTagVariable) + "=" + attemptTag(dir, launch);
  const pid_t other = ::fork();
  if (other == 0) {
    constexpr uid_t kOther = testing::kJobUid + 1;
    if (::setresuid(kOther, kOther, kOther) != 0) ::_exit(1);
    ::execle("/bin/sleep", "sleep", "1000", nullptr,
             std::array<const char*, 2>{tag.c_str(), nullptr}.data());
    ::_exit(127);
  }
  const auto proc = "/proc/" + std::to_string(other);
  ASSERT_TRUE(testing::eventually([&] { return testing::readText(proc + "/comm") == "sleep\n"; }));
  addShell("exit 0");
  spawn();
  reap();
  EXPECT_TRUE(readEnd(dir).value_or(std::nullopt).has_value());
  EXPECT_EQ(leftovers(), 0U);
  EXPECT_NE(processFacts(other).value_or(ProcessFacts{}).state, 'Z');
  ::kill(other, SIGKILL);
  ::waitpid(other, nullptr, 0);
}

TEST_F(Sandboxed, AForkBombEndsWithItsAttempt) {
  launch.maxProcesses = 100;
  addShell(
      "echo ready; bomb() { bomb | bomb & }; trap '' TERM; (bomb) 2>/dev/null; while :; do :; "
      "done");
  spawn();
  waitForLine("ready");
  stop(milliseconds(20));
  EXPECT_EQ(end().cause, EndCause::kStopped);
}

// What it writes keeps its supervisor no busier than it likes to be.
TEST_F(Sandboxed, AFloodOfReportsCostsLittle) {
  addRank({"/usr/bin/python3", "-c",
           "import os, time\nf = os.environ['BOLE_PROGRESS_FILE']\n"
           "for n in range(20000):\n"
           "    fd = os.open(f, os.O_WRONLY | os.O_CREAT); os.write(fd, b'step=77'); os.close(fd)\n"
           "print('ready', flush=True)\ntime.sleep(1000)"});
  spawn();
  waitForLine("ready");
  const auto status = testing::readText("/proc/" + std::to_string(supervisor) + "/status");
  const auto at = status.find("\nvoluntary_ctxt_switches:\t");
  ASSERT_NE(at, std::string::npos);
  EXPECT_LT(std::stoull(status.substr(at + 26)), 1000U) << "times that it woke for 20000 reports";
  EXPECT_TRUE(testing::eventually([&] {
    const auto read = readProgress(dir);
    return read && *read && !(*read)->ranks.empty() &&
           (*read)->ranks[0].values.back().second == "77";
  }));
  stop(seconds(20));
  end();
}

// ---- network
// ------------------------------------------------------------------------------------------------------

constexpr auto kServe = R"(
import socket
s = socket.create_server(("127.0.0.1", 5000))
print(s.accept()[0].recv(100).decode())
)";
constexpr auto kConnect = R"(
import socket, time
for _ in range(3000):
    try:
        socket.create_connection(("127.0.0.1", 5000)).send(b"hello from rank 1")
        break
    except ConnectionRefusedError:
        time.sleep(0.01)
)";

TEST_F(Sandboxed, AGangMeetsOnALoopbackOfItsOwn) {
  addRank({"/usr/bin/python3", "-c", kServe});
  addRank({"/usr/bin/python3", "-c", kConnect});
  EXPECT_EQ(run().cause, EndCause::kCompleted) << describe();
  EXPECT_EQ(output(0), "hello from rank 1\n");
}

class HostServices {
 public:
  HostServices()
      : tcp_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)),
        abstract_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(tcp_.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(tcp_.get(), 8), 0);
    ::getsockname(tcp_.get(), reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    sockaddr_un hidden{};
    hidden.sun_family = AF_UNIX;
    name_ = "bole-test-" + std::to_string(::getpid());
    name_.copy(hidden.sun_path + 1, name_.size());
    EXPECT_EQ(::bind(abstract_.get(), reinterpret_cast<sockaddr*>(&hidden),
                     static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name_.size())),
              0);
    EXPECT_EQ(::listen(abstract_.get(), 8), 0);
  }
  // A program that says what it can reach.
  [[nodiscard]] std::string program() const {
    return "import os, socket\n"
           "def reach(what, family, address):\n"
           "    try: socket.socket(family).connect(address); print(what)\n"
           "    except OSError: pass\n"
           "reach('tcp', socket.AF_INET, ('127.0.0.1', " +
           std::to_string(port_) +
           "))\n"
           "reach('abstract', socket.AF_UNIX, '\\0" +
           name_ +
           "')\n"
           "print(*sorted(line.split(':')[0].strip() for line in open('/proc/net/dev') if ':' in "
           "line))\n"
           "print(*sorted(os.listdir('/sys/class/net')))\n";
  }

 private:
  Fd tcp_;
  Fd abstract_;
  std::uint16_t port_ = 0;
  std::string name_;
};

TEST_F(Sandboxed, AGangReachesNothingOfTheMachines) {
  const HostServices services;
  addRank({"/usr/bin/python3", "-c", services.program()});
  EXPECT_EQ(run().cause, EndCause::kCompleted) << describe();
  EXPECT_EQ(output(), "lo\nlo\n");
}

TEST_F(Sandboxed, OnTheMachinesNetworkItDoes) {
  const HostServices services;
  launch.network = NetworkKind::kHost;
  addRank({"/usr/bin/python3", "-c", services.program()});
  EXPECT_EQ(run().cause, EndCause::kCompleted) << describe();
  EXPECT_EQ(output().substr(0, 13), "tcp\nabstract\n");
}

// ---- machines that lack something
// ---------------------------------------------------------------------------------

TEST_F(Sandboxed, WithoutBubblewrapItSaysSo) {
  onAMachineAfter(
      "for f in /usr/bin/bwrap /usr/local/bin/bwrap; do [ ! -e $f ] || mount --bind /dev/null $f; "
      "done");
  addShell("touch ran");
  const auto done = run();
  EXPECT_EQ(done.outcome, EndOutcome::kLaunchFailed);
  EXPECT_NE(done.note.find("bubblewrap is not installed"), std::string::npos) << done.note;
  EXPECT_NE(done.note.find("apt-get install bubblewrap"), std::string::npos) << done.note;
}

TEST_F(Sandboxed, ABubblewrapThatRefusesIsQuoted) {
  testing::writeText(
      home() + "/bwrap",
      "#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n");
  fs::permissions(home() + "/bwrap", fs::perms(0755));
  onAMachineAfter("mount --bind " + home() + "/bwrap /usr/bin/bwrap");
  addShell("touch ran");
  const auto done = run();
  EXPECT_EQ(done.outcome, EndOutcome::kLaunchFailed);
  EXPECT_NE(done.note.find("the sandbox could not be made: bwrap: No permissions"),
            std::string::npos)
      << done.note;
}

TEST_F(Sandboxed, WithoutCgroupsItRunsAndSaysWhatIsNotEnforced) {
  onAMachineAfter("mount -t tmpfs none /sys/fs/cgroup");
  auto& rank =
      addShell("trap '' TERM; (setsid sleep 1000 &); echo ready; while :; do sleep 1000; done");
  rank.memory = kMiB * 64;
  rank.cpu = MilliCpu(500);
  spawn();
  const auto started = waitForStart();
  EXPECT_EQ(started.containment, Containment::kPidns);
  for (const auto* part :
       {"no cgroup v2 tree", "memory limit is not enforced", "CPU limit is not enforced"}) {
    EXPECT_NE(started.note.find(part), std::string::npos) << started.note;
  }
  waitForLine("ready");
  stop(milliseconds(20));
  EXPECT_EQ(end().ranks.at(0).waitStatus, SIGKILL);
}

// The bound on processes is the kernel's limit for the user then.
TEST_F(Sandboxed, AForkBombWithoutCgroupsIsBoundedToo) {
  onAMachineAfter("mount -t tmpfs none /sys/fs/cgroup");
  launch.maxProcesses = 40;
  addShell("i=0; while [ $i -lt 100 ]; do sleep 1000 & i=$((i+1)); done; echo DONE");
  const auto done = run();
  EXPECT_EQ(output(), "");
  EXPECT_NE(done.ranks.at(0).waitStatus, 0);
}

// A server of one user: its jobs are that user, and still shut in.
TEST_F(Sandboxed, WhereTheServerIsNotRoot) {
  asUser(65'534);
  testing::writeText(home() + "/secret", "a secret");
  addShell("id -u; grep -E '^(CapEff|NoNewPrivs|Seccomp:)' /proc/self/status | tr '\t' ' '; cat " +
           home() + "/secret; ls -A " + dir +
           "; cat /proc/1/environ; touch /x /run/x && echo WRITTEN; unshare -U true && echo "
           "NAMESPACE; ls /sys/class/net; exec sleep 1000");
  spawn();
  const auto started = waitForStart();
  EXPECT_NE(started.note.find("the ranks run as the server's own user"), std::string::npos)
      << started.note;
  EXPECT_EQ(started.note.find("share the machine's network"), std::string::npos) << started.note;
  waitForLine("lo");
  stop(seconds(20));
  EXPECT_EQ(end().cause, EndCause::kStopped);
  EXPECT_EQ(output(), "65534\nCapEff: 0000000000000000\nNoNewPrivs: 1\nSeccomp: 2\nlo\n");
}

}  // namespace
}  // namespace bole::supervise
