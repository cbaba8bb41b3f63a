/* A libnvidia-ml.so.1 for tests: answers from a table that the test fills in. Exported as a C
 * library, so that NvmlProbe is exercised through dlopen as it is in life. */
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

enum { kFakeGpus = 8, kFakeLinks = 18 };

struct FakeGpu {
  int handleError, uuidError, memoryError; /* nvmlReturn_t; 0: fine */
  const char* name;
  const char* uuid;
  unsigned domain, bus, device, minor;
  unsigned long long memory;
  int major, capabilityMinor;
  int mig;                   /* 1: on; -1: not supported */
  int linkState[kFakeLinks]; /* 0: down; 1: up; -1: there is no such link */
  int linkPeer[kFakeLinks];  /* nvmlIntNvLinkDeviceType_t; 255: unknown */
  unsigned linkBus[kFakeLinks];
  int linkPciError;
};

struct FakeNvml {
  int initError, countError, topologyError;
  const char* driver;
  unsigned count;
  struct FakeGpu gpus[kFakeGpus];
  int level[kFakeGpus][kFakeGpus]; /* nvmlGpuTopologyLevel_t */
  int initialised;                 /* nvmlInit minus nvmlShutdown */
};

struct FakeNvml* fakeNvml(void);

#ifdef __cplusplus
}
#endif
