#include "gpu/nvml_library.h"

#include <dlfcn.h>

#include <string_view>

namespace bole::gpu::nvml {
namespace {

template <class Function>
bool find(void* handle, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(::dlsym(handle, name));
  return function != nullptr;
}

// The name of the first function that is missing, or nullptr.
const char* findRequired(void* handle, Functions& f) {
  if (!find(handle, "nvmlInit_v2", f.init)) return "nvmlInit_v2";
  if (!find(handle, "nvmlShutdown", f.shutdown)) return "nvmlShutdown";
  if (!find(handle, "nvmlErrorString", f.errorString)) return "nvmlErrorString";
  if (!find(handle, "nvmlDeviceGetCount_v2", f.deviceGetCount)) return "nvmlDeviceGetCount_v2";
  if (!find(handle, "nvmlDeviceGetHandleByIndex_v2", f.deviceGetHandleByIndex)) {
    return "nvmlDeviceGetHandleByIndex_v2";
  }
  if (!find(handle, "nvmlDeviceGetUUID", f.deviceGetUuid)) return "nvmlDeviceGetUUID";
  if (!find(handle, "nvmlDeviceGetName", f.deviceGetName)) return "nvmlDeviceGetName";
  if (!find(handle, "nvmlDeviceGetMemoryInfo", f.deviceGetMemoryInfo))
    return "nvmlDeviceGetMemoryInfo";
  if (!find(handle, "nvmlDeviceGetPciInfo_v3", f.deviceGetPciInfo))
    return "nvmlDeviceGetPciInfo_v3";
  if (!find(handle, "nvmlDeviceGetMinorNumber", f.deviceGetMinorNumber))
    return "nvmlDeviceGetMinorNumber";
  return nullptr;
}

void findOptional(void* handle, Functions& f) {
  find(handle, "nvmlSystemGetDriverVersion", f.systemGetDriverVersion);
  find(handle, "nvmlDeviceGetCudaComputeCapability", f.deviceGetCudaComputeCapability);
  find(handle, "nvmlDeviceGetTopologyCommonAncestor", f.deviceGetTopologyCommonAncestor);
  find(handle, "nvmlDeviceGetNvLinkState", f.deviceGetNvLinkState);
  find(handle, "nvmlDeviceGetNvLinkRemotePciInfo_v2", f.deviceGetNvLinkRemotePciInfo);
  find(handle, "nvmlDeviceGetNvLinkRemoteDeviceType", f.deviceGetNvLinkRemoteDeviceType);
  find(handle, "nvmlDeviceGetMigMode", f.deviceGetMigMode);
}

}  // namespace

tl::expected<Library, OpenFailure> Library::open(const std::string& path) {
  Library library;
  void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* error = ::dlerror();
    OpenFailure failure{false, error == nullptr ? "dlopen failed" : error};
    // The text names the file that is missing: this one, or one that it needs.
    failure.absent = failure.text.starts_with(path + ":") &&
                     failure.text.find("No such file") != std::string::npos;
    return tl::unexpected<OpenFailure>(std::move(failure));
  }
  library.handle_ = std::shared_ptr<void>(handle, [](void* opened) { ::dlclose(opened); });
  if (const char* missing = findRequired(handle, library.functions_)) {
    return tl::unexpected<OpenFailure>({false, std::string("it has no function ") + missing});
  }
  findOptional(handle, library.functions_);
  return library;
}

std::string Library::text(int code) const {
  const char* text = functions_.errorString(code);
  return std::string(text == nullptr ? "unknown error" : text) + " (code " + std::to_string(code) +
         ")";
}

}  // namespace bole::gpu::nvml
