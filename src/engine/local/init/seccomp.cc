#include "engine/local/init/seccomp.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>

namespace bole::init {
namespace {

#if defined(__x86_64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_X86_64;
constexpr std::uint32_t kFirstForeign = 0x40000000;  // x32
#elif defined(__aarch64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
constexpr std::uint32_t kFirstForeign = 0x7fffffff;
#else
#error "bole-init has no list of system calls for this machine"
#endif

// Flags of clone(2) and unshare(2). CLONE_NEWTIME is one of unshare's alone: clone has its exit
// signal there.
constexpr std::uint32_t kNamespaces = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |
                                      CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;
constexpr std::uint32_t kNewTime = 0x80;

constexpr std::uint32_t refusal(int error) {
  return SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(error);
}

constexpr sock_filter load(std::size_t offset) {
  return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(offset));
}
constexpr sock_filter answer(std::uint32_t action) {
  return BPF_STMT(BPF_RET | BPF_K, action);
}
// If it is not `number`, the next `skip` instructions are passed over.
constexpr sock_filter unless(std::uint32_t number, std::uint8_t skip) {
  return BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, skip);
}
// If none of `bits` is set.
constexpr sock_filter unlessAny(std::uint32_t bits, std::uint8_t skip) {
  return BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, 0, skip);
}

constexpr std::size_t kNumber = offsetof(seccomp_data, nr);
constexpr std::size_t kFirstArgument =
    offsetof(seccomp_data, args);  // its lower half: both are little-endian
constexpr std::uint32_t kAllow = SECCOMP_RET_ALLOW;

const sock_filter kRules[] = {
    load(offsetof(seccomp_data, arch)),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kArchitecture, 1, 0),
    answer(refusal(ENOSYS)),
    load(kNumber),
    BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, kFirstForeign, 0, 1),
    answer(refusal(ENOSYS)),
    // What it would start is in memory, out of reach: the C library falls back to clone.
    unless(SYS_clone3, 1),
    answer(refusal(ENOSYS)),
    unless(SYS_clone, 4),
    load(kFirstArgument),
    unlessAny(kNamespaces, 1),
    answer(refusal(EPERM)),
    answer(kAllow),
    unless(SYS_unshare, 4),
    load(kFirstArgument),
    unlessAny(kNamespaces | kNewTime, 1),
    answer(refusal(EPERM)),
    answer(kAllow),
    unless(SYS_setns, 1),
    answer(refusal(EPERM)),
    unless(SYS_add_key, 1),
    answer(refusal(EPERM)),
    unless(SYS_request_key, 1),
    answer(refusal(EPERM)),
    unless(SYS_keyctl, 1),
    answer(refusal(EPERM)),
    unless(SYS_bpf, 1),
    answer(refusal(EPERM)),
    unless(SYS_io_uring_setup, 1),
    answer(refusal(ENOSYS)),
    answer(kAllow),
};

}  // namespace

bool forbidCalls() {
  const sock_fprog program{sizeof kRules / sizeof kRules[0], const_cast<sock_filter*>(kRules)};
  // SPEC_ALLOW: without it older kernels slow the whole program down, against attacks on itself.
  return ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW,
                   &program) == 0;
}

}  // namespace bole::init
