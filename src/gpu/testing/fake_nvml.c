/* Written against NVML's public interface. With FAKE_NVML_OLD the functions that came later are
 * absent; with FAKE_NVML_BROKEN one that has always been there is. */
#include "fake_nvml.h"

#include <stdio.h>
#include <string.h>

static struct FakeNvml state;

struct FakeNvml* fakeNvml(void) {
  return &state;
}

typedef struct FakeGpu* Device;

struct PciInfo {
  char busIdLegacy[16];
  unsigned domain, bus, device, pciDeviceId, pciSubSystemId;
  char busId[32];
};

struct Memory {
  unsigned long long total, free, used;
};

static int fill(char* text, unsigned size, const char* value) {
  if (strlen(value) + 1 > size) return 7; /* NVML_ERROR_INSUFFICIENT_SIZE */
  strcpy(text, value);
  return 0;
}

static void fillPci(struct PciInfo* pci, unsigned domain, unsigned bus, unsigned device) {
  memset(pci, 0, sizeof(*pci));
  pci->domain = domain;
  pci->bus = bus;
  pci->device = device;
  snprintf(pci->busId, sizeof(pci->busId), "%08X:%02X:%02X.0", domain, bus, device);
}

int nvmlInit_v2(void) {
  if (state.initError == 0) ++state.initialised;
  return state.initError;
}

int nvmlShutdown(void) {
  --state.initialised;
  return 0;
}

const char* nvmlErrorString(int code) {
  switch (code) {
    case 4:
      return "Insufficient Permissions";
    case 9:
      return "Driver Not Loaded";
    case 15:
      return "GPU is lost";
    case 18:
      return "Driver/library version mismatch";
    default:
      return "Unknown Error";
  }
}

int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = state.count;
  return state.countError;
}

#ifndef FAKE_NVML_BROKEN
int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device* device) {
  if (index >= state.count) return 2;
  *device = &state.gpus[index];
  return state.gpus[index].handleError;
}
#endif

int nvmlDeviceGetUUID(Device device, char* text, unsigned size) {
  return device->uuidError != 0 ? device->uuidError : fill(text, size, device->uuid);
}

int nvmlDeviceGetName(Device device, char* text, unsigned size) {
  return fill(text, size, device->name);
}

int nvmlDeviceGetMemoryInfo(Device device, struct Memory* memory) {
  memory->total = device->memory;
  memory->free = device->memory / 2;
  memory->used = device->memory - memory->free;
  return device->memoryError;
}

int nvmlDeviceGetPciInfo_v3(Device device, struct PciInfo* pci) {
  fillPci(pci, device->domain, device->bus, device->device);
  return 0;
}

int nvmlDeviceGetMinorNumber(Device device, unsigned* minor) {
  *minor = device->minor;
  return 0;
}

#ifndef FAKE_NVML_OLD
int nvmlSystemGetDriverVersion(char* text, unsigned size) {
  return fill(text, size, state.driver);
}

int nvmlDeviceGetCudaComputeCapability(Device device, int* major, int* minor) {
  *major = device->major;
  *minor = device->capabilityMinor;
  return 0;
}

int nvmlDeviceGetTopologyCommonAncestor(Device a, Device b, int* level) {
  *level = state.level[a - state.gpus][b - state.gpus];
  return state.topologyError;
}

int nvmlDeviceGetNvLinkState(Device device, unsigned link, int* active) {
  if (link >= kFakeLinks || device->linkState[link] < 0) return 2;
  *active = device->linkState[link];
  return 0;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(Device device, unsigned link, struct PciInfo* pci) {
  fillPci(pci, 0, device->linkBus[link], 0);
  return device->linkPciError;
}

int nvmlDeviceGetNvLinkRemoteDeviceType(Device device, unsigned link, int* type) {
  *type = device->linkPeer[link];
  return 0;
}

int nvmlDeviceGetMigMode(Device device, unsigned* current, unsigned* pending) {
  if (device->mig < 0) return 3;
  *current = *pending = (unsigned)device->mig;
  return 0;
}
#endif
