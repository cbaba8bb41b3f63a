// The few functions of NVIDIA's management library (NVML) that Bole calls, found at run time with
// dlopen.
//
// The declarations follow NVML's public C interface, which NVIDIA keeps binary compatible: sizes
// and numbers below are part of it (reference: NVML API Reference Guide, "nvml.h"). Functions that
// an older library lacks are null.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"

namespace bole::gpu::nvml {

enum Return : int {
  kSuccess = 0,
  kNotSupported = 3,
  kNoPermission = 4,
  kDriverNotLoaded = 9,
  kGpuIsLost = 15,
  kResetRequired = 16,
  kLibRmVersionMismatch = 18,
};

// nvmlGpuTopologyLevel_t
enum TopologyLevel : int {
  kInternal = 0,
  kSingleSwitch = 10,
  kMultipleSwitches = 20,
  kHostBridge = 30,
  kNumaNode = 40,
  kSystem = 50,
};

// nvmlIntNvLinkDeviceType_t
enum NvLinkPeer : int { kPeerGpu = 0, kPeerSwitch = 2, kPeerUnknown = 255 };

struct DeviceTag;
using Device = DeviceTag*;

struct PciInfo {  // nvmlPciInfo_t, third version
  char busIdLegacy[16];
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned pciDeviceId;
  unsigned pciSubSystemId;
  char busId[32];
};

struct Memory {  // nvmlMemory_t
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

struct Functions {
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  const char* (*errorString)(int) = nullptr;
  int (*deviceGetCount)(unsigned*) = nullptr;
  int (*deviceGetHandleByIndex)(unsigned, Device*) = nullptr;
  int (*deviceGetUuid)(Device, char*, unsigned) = nullptr;
  int (*deviceGetName)(Device, char*, unsigned) = nullptr;
  int (*deviceGetMemoryInfo)(Device, Memory*) = nullptr;
  int (*deviceGetPciInfo)(Device, PciInfo*) = nullptr;
  int (*deviceGetMinorNumber)(Device, unsigned*) = nullptr;
  // From here on a library may lack them.
  int (*systemGetDriverVersion)(char*, unsigned) = nullptr;
  int (*deviceGetCudaComputeCapability)(Device, int*, int*) = nullptr;
  int (*deviceGetTopologyCommonAncestor)(Device, Device, int*) = nullptr;
  int (*deviceGetNvLinkState)(Device, unsigned, int*) = nullptr;
  int (*deviceGetNvLinkRemotePciInfo)(Device, unsigned, PciInfo*) = nullptr;
  int (*deviceGetNvLinkRemoteDeviceType)(Device, unsigned, int*) = nullptr;
  int (*deviceGetMigMode)(Device, unsigned*, unsigned*) = nullptr;
};

// Why the library could not be opened.
struct OpenFailure {
  bool absent = false;  // there is no such file; otherwise it is there and of no use
  std::string text;     // the linker's own words, or the function that is missing
};

// An open library; closed with its last owner. nvmlInit is the caller's.
class Library {
 public:
  [[nodiscard]] static tl::expected<Library, OpenFailure> open(const std::string& path);

  [[nodiscard]] const Functions& call() const { return functions_; }
  [[nodiscard]] std::string text(int code) const;  // "GPU is lost (code 15)"

 private:
  std::shared_ptr<void> handle_;
  Functions functions_;
};

}  // namespace bole::gpu::nvml
