#include "cuda/device.h"

#include <fmt/format.h>

#include <array>

#include "base/error.h"
#include "base/hash.h"

namespace msj::cuda {

namespace {

constexpr int kOldest = 80;

bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '+';
}

// For file names: letters, digits, '.' and '+' stay, every run of others becomes one '-'; no '-' at either end, and no
// '.' at the start.
std::string slug(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (is_plain(c) && !(c == '.' && result.empty())) {
      result += c;
    } else if (!result.empty() && result.back() != '-') {
      result += '-';
    }
  }
  while (result.ends_with('-')) result.pop_back();
  return result;
}

int attribute(const Driver &driver, CUdevice device, CUdevice_attribute wanted) {
  int value = 0;
  driver.check(driver.DeviceGetAttribute(&value, wanted, device), "cuDeviceGetAttribute");
  return value;
}

std::string device_name(const Driver &driver, CUdevice device) {
  std::array<char, 256> name{};
  driver.check(driver.DeviceGetName(name.data(), static_cast<int>(name.size()) - 1, device), "cuDeviceGetName");
  return name.data();
}

std::string device_uuid(const Driver &driver, CUdevice device) {
  CUuuid uuid{};
  driver.check(driver.DeviceGetUuid(&uuid, device), "cuDeviceGetUuid");
  return to_hex({uuid.bytes, sizeof uuid.bytes});
}

DeviceLimits read_limits(const Driver &driver, CUdevice device) {
  DeviceLimits limits;
  limits.compute_capability = 10 * attribute(driver, device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) +
                              attribute(driver, device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  limits.shared_bytes_per_block = attribute(driver, device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  limits.shared_bytes_per_sm = attribute(driver, device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
  limits.registers_per_sm = attribute(driver, device, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
  limits.sm_count = attribute(driver, device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  limits.l2_bytes = attribute(driver, device, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
  limits.tensor_maps =
      driver.TensorMapEncodeTiled != nullptr && architecture_of(limits.compute_capability).limits.tensor_maps;
  return limits;
}

}  // namespace

DeviceInfo query_device(const Driver &driver, int ordinal) {
  DeviceInfo info;
  info.ordinal = ordinal;
  info.driver_version = driver.version();
  const CUdevice device = device_of(driver, ordinal);
  info.name = device_name(driver, device);
  // A slice of a GPU is named "NVIDIA H200 MIG 1g.18gb".
  constexpr std::string_view kMig = " MIG ";
  if (const std::size_t mig = info.name.find(kMig); mig != std::string::npos) {
    info.mig_profile = info.name.substr(mig + kMig.size());
    info.name.resize(mig);
  }
  info.uuid = device_uuid(driver, device);
  info.limits = read_limits(driver, device);
  const int capability = info.limits.compute_capability;
  if (capability < kOldest) {
    throw_error(MSJ_ERROR_UNSUPPORTED, "device {} ({}) has compute capability {}.{}; {}.{} or newer is needed", ordinal,
                info.name, capability / 10, capability % 10, kOldest / 10, kOldest % 10);
  }
  info.architecture = architecture_of(capability);
  return info;
}

CUdevice device_of(const Driver &driver, int ordinal) {
  if (ordinal < 0 || ordinal >= driver.device_count()) {
    throw_error(MSJ_ERROR_INVALID_ARGUMENT, "device is {}; accepted are CUDA ordinals from 0 to {}", ordinal,
                driver.device_count() - 1);
  }
  CUdevice device = 0;
  driver.check(driver.DeviceGet(&device, ordinal), "cuDeviceGet");
  return device;
}

std::string DeviceInfo::environment() const {
  const std::string device = slug(name);
  std::string text = fmt::format("{}_{}_{}sm_{}KiB", device.empty() ? "GPU" : device, architecture.name,
                                 limits.sm_count, limits.shared_bytes_per_block / 1024);
  if (!mig_profile.empty()) text += "_mig-" + slug(mig_profile);
  return text;
}

}  // namespace msj::cuda
