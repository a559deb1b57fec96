// The stand-in driver of fake_cuda.h: every function of MSJ_DRIVER_FUNCTIONS, over plain host objects behind one lock.
#pragma GCC visibility push(default)  // found by dlsym, whatever the project builds with
#define __CUDA_API_VERSION_INTERNAL   // versioned symbols under their own names, no macros
#include <cuda.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "fake_cuda.h"
#include "fake_state.h"

using namespace fake;

namespace {

// Where the tensors of tests lie that only record launches (support/op_calls.h): no host memory is there.
bool is_made_up(CUdeviceptr address) { return address >> 45U == 1 || address >> 58U == 1; }

// Counts the call; what the test wants this symbol to return, if it wants something.
CUresult entered(const char *symbol) {
  State &s = state();
  s.calls[symbol] += 1;
  const auto it = s.injections.find(symbol);
  if (it == s.injections.end() || it->second.remaining == 0) return CUDA_SUCCESS;
  if (it->second.remaining > 0) it->second.remaining -= 1;
  return it->second.result;
}
#define FAKE_ENTER                            \
  const std::scoped_lock lock(state().mutex); \
  if (const CUresult wanted = entered(__func__)) return wanted;

#define FAKE_NEEDS_CONTEXT                                     \
  if (current() == nullptr) return CUDA_ERROR_INVALID_CONTEXT; \
  if (!current()->alive) return CUDA_ERROR_CONTEXT_IS_DESTROYED;

bool is_default(CUstream stream) {
  return stream == nullptr || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
}

// Calls that may allocate or wait: under a capture they fail and spoil it, unless this thread has relaxed.
CUresult forbidden_by_capture() {
  if (this_thread().capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_SUCCESS;
  CUresult result = CUDA_SUCCESS;
  for (Stream &stream : state().streams) {
    if (!stream.alive || stream.capture != CU_STREAM_CAPTURE_STATUS_ACTIVE) continue;
    stream.capture = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
    result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return result;
}
#define FAKE_SPOILS_CAPTURE \
  if (const CUresult spoiled = forbidden_by_capture()) return spoiled;

CUresult check_stream(CUstream handle) {
  if (is_default(handle)) return CUDA_SUCCESS;
  const Stream *stream = find(state().streams, handle);
  if (stream == nullptr || !stream->alive) return CUDA_ERROR_INVALID_HANDLE;
  if (!stream->context->alive) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  return stream->context == current() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult check_stream_idle(CUstream handle) {
  if (const CUresult result = check_stream(handle)) return result;
  const Stream *stream = find(state().streams, handle);
  const bool captured = stream != nullptr && stream->capture != CU_STREAM_CAPTURE_STATUS_NONE;
  return captured ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

CUresult check_launch(const Function &function, const Launch &launch) {
  if (!function.library->alive || function.context != current()) return CUDA_ERROR_INVALID_HANDLE;
  for (int i = 0; i < 3; ++i) {
    if (launch.grid[i] == 0 || launch.block[i] == 0) return CUDA_ERROR_INVALID_VALUE;
  }
  if (launch.grid[0] > 0x7fffffffu || launch.grid[1] > 65535 || launch.grid[2] > 65535) return CUDA_ERROR_INVALID_VALUE;
  if (launch.block[0] * launch.block[1] * launch.block[2] > function.code->max_threads) return CUDA_ERROR_INVALID_VALUE;
  if (launch.shared_bytes > static_cast<unsigned>(function.shared_limit)) return CUDA_ERROR_INVALID_VALUE;
  return launch.captured && !function.loaded ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

}  // namespace

extern "C" {

// ---- control ----

void fake_cuda_reset() {
  State &s = state();
  const std::scoped_lock lock(s.mutex);
  epoch += 1;
  for (const auto &[address, buffer] : s.buffers) munmap(reinterpret_cast<void *>(address), buffer.bytes);
  s.driver_version = 13000;
  s.pageable_access = false;
  s.devices.clear();
  s.contexts.clear();
  s.streams.clear();
  s.events.clear();
  s.libraries.clear();
  s.kernels.clear();
  s.buffers.clear();
  s.launches.clear();
  s.injections.clear();
  s.calls.clear();
  s.clock_ms = 0;
  s.launch_ms = 1;
  add_device(s, "NVIDIA H200", 90, 132, 232448, kDefaultMemory);
}
void fake_cuda_set_driver_version(int version) { state().driver_version = version; }
void fake_cuda_clear_devices() { state().devices.clear(); }
void fake_cuda_add_device(const char *name, int capability, int sm_count, int shared_bytes, std::size_t memory_bytes) {
  const std::scoped_lock lock(state().mutex);
  add_device(state(), name, capability, sm_count, shared_bytes, memory_bytes);
}
void fake_cuda_fail(const char *symbol, CUresult result, int count) {
  const std::scoped_lock lock(state().mutex);
  state().injections[symbol] = {result, count};
}
std::size_t fake_cuda_calls(const char *symbol) {
  const std::scoped_lock lock(state().mutex);
  return state().calls[symbol];
}
CUcontext fake_cuda_create_context(int device) {
  const std::scoped_lock lock(state().mutex);
  return handle_of<CUcontext>(state().contexts.emplace_back(Context{next_context_id++, device}));
}
void fake_cuda_destroy_context(CUcontext handle) {
  const std::scoped_lock lock(state().mutex);
  if (Context *context = find(state().contexts, handle)) context->alive = false;
}
CUstream fake_cuda_create_stream(CUcontext handle, unsigned flags) {
  const std::scoped_lock lock(state().mutex);
  Context *context = find(state().contexts, handle);
  return handle_of<CUstream>(state().streams.emplace_back(Stream{context, (flags & CU_STREAM_NON_BLOCKING) == 0}));
}
void fake_cuda_set_capture(CUstream handle, CUstreamCaptureStatus status) {
  const std::scoped_lock lock(state().mutex);
  if (Stream *stream = find(state().streams, handle)) stream->capture = status;
}
std::size_t fake_cuda_stack_depth() { return this_thread().stack.size(); }
int fake_cuda_primary_references(int device) {
  const std::scoped_lock lock(state().mutex);
  return state().devices.at(static_cast<std::size_t>(device)).primary_references;
}
std::size_t fake_cuda_live_handles(const char *kind_name) {
  const std::scoped_lock lock(state().mutex);
  const std::string kind = kind_name;
  const auto count = [](const auto &objects) {
    return static_cast<std::size_t>(std::count_if(objects.begin(), objects.end(), [](auto &o) { return o.alive; }));
  };
  if (kind == "buffer") return state().buffers.size();
  if (kind == "stream") return count(state().streams);
  if (kind == "event") return count(state().events);
  return count(state().libraries);
}
void fake_cuda_set_launch_ms(double ms) {
  const std::scoped_lock lock(state().mutex);
  state().launch_ms = ms;
}
void fake_cuda_set_pageable_access(bool access) {
  const std::scoped_lock lock(state().mutex);
  state().pageable_access = access;
}
std::size_t fake_cuda_launch_count() {
  const std::scoped_lock lock(state().mutex);
  return state().launches.size();
}
bool fake_cuda_launch(std::size_t index, Launch *launch) {
  const std::scoped_lock lock(state().mutex);
  if (index >= state().launches.size()) return false;
  *launch = state().launches[index].launch;
  return true;
}

// ---- the driver: version, errors, devices ----

CUresult cuInit(unsigned) {
  FAKE_ENTER
  return state().devices.empty() ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
}
CUresult cuDriverGetVersion(int *version) {
  FAKE_ENTER
  *version = state().driver_version;
  return CUDA_SUCCESS;
}

#define FAKE_ERRORS(X)                                                                         \
  X(CUDA_SUCCESS, "no error")                                                                  \
  X(CUDA_ERROR_INVALID_VALUE, "invalid argument")                                              \
  X(CUDA_ERROR_OUT_OF_MEMORY, "out of memory")                                                 \
  X(CUDA_ERROR_NOT_INITIALIZED, "initialization error")                                        \
  X(CUDA_ERROR_DEINITIALIZED, "driver shutting down")                                          \
  X(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected")                                \
  X(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal")                                       \
  X(CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid")                                \
  X(CUDA_ERROR_INVALID_CONTEXT, "invalid device context")                                      \
  X(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle")                                      \
  X(CUDA_ERROR_NOT_FOUND, "named symbol not found")                                            \
  X(CUDA_ERROR_CONTEXT_IS_DESTROYED, "context is destroyed")                                   \
  X(CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure")                                    \
  X(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "operation not permitted when stream is capturing") \
  X(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, "operation would make the legacy stream depend on a capturing stream")

CUresult cuGetErrorName(CUresult error, const char **name) {
#define FAKE_NAME(code, text) \
  if (error == (code)) return *name = #code, CUDA_SUCCESS;
  FAKE_ERRORS(FAKE_NAME)
  *name = nullptr;
  return CUDA_ERROR_INVALID_VALUE;
}
CUresult cuGetErrorString(CUresult error, const char **description) {
#define FAKE_TEXT(code, text) \
  if (error == (code)) return *description = (text), CUDA_SUCCESS;
  FAKE_ERRORS(FAKE_TEXT)
  *description = nullptr;
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDeviceGetCount(int *count) {
  FAKE_ENTER
  *count = static_cast<int>(state().devices.size());
  return CUDA_SUCCESS;
}
CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  FAKE_ENTER
  if (ordinal < 0 || ordinal >= static_cast<int>(state().devices.size())) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetName(char *name, int bytes, CUdevice device) {
  FAKE_ENTER
  std::snprintf(name, static_cast<std::size_t>(bytes), "%s", state().devices.at(device).name.c_str());
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice handle) {
  FAKE_ENTER
  const Device &device = state().devices.at(handle);
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      *value = device.compute_capability / 10;
      break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      *value = device.compute_capability % 10;
      break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      *value = device.sm_count;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
      *value = device.shared_bytes;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
      *value = device.shared_bytes + 1024;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR:
      *value = 65536;
      break;
    case CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS:
      *value = state().pageable_access ? 1 : 0;
      break;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
      *value = 60 << 20;
      break;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}
CUresult cuDeviceTotalMem_v2(std::size_t *bytes, CUdevice device) {
  FAKE_ENTER
  *bytes = state().devices.at(device).memory_bytes;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device) {
  FAKE_ENTER
  std::memset(uuid->bytes, 0xfa, sizeof(uuid->bytes));
  uuid->bytes[15] = static_cast<char>(device);
  return CUDA_SUCCESS;
}

// ---- contexts ----

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice handle) {
  FAKE_ENTER
  Device &device = state().devices.at(handle);
  if (device.primary_references++ == 0) device.primary = fake_cuda_create_context(handle);
  *context = device.primary;
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice handle) {
  FAKE_ENTER
  Device &device = state().devices.at(handle);
  if (device.primary_references == 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (--device.primary_references == 0) fake_cuda_destroy_context(device.primary);
  return CUDA_SUCCESS;
}
CUresult cuCtxGetCurrent(CUcontext *context) {
  FAKE_ENTER
  *context = reinterpret_cast<CUcontext>(current());
  return CUDA_SUCCESS;
}
CUresult cuCtxPushCurrent_v2(CUcontext handle) {
  FAKE_ENTER
  Context *context = find(state().contexts, handle);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (!context->alive) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  this_thread().stack.push_back(context);
  return CUDA_SUCCESS;
}
CUresult cuCtxPopCurrent_v2(CUcontext *context) {
  FAKE_ENTER
  if (current() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *context = reinterpret_cast<CUcontext>(current());
  this_thread().stack.pop_back();
  return CUDA_SUCCESS;
}
CUresult cuCtxGetDevice(CUdevice *device) {
  FAKE_ENTER
  FAKE_NEEDS_CONTEXT
  *device = current()->device;
  return CUDA_SUCCESS;
}
CUresult cuCtxGetId(CUcontext handle, unsigned long long *id) {
  FAKE_ENTER
  const Context *context = handle == nullptr ? current() : find(state().contexts, handle);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (!context->alive) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  *id = context->id;
  return CUDA_SUCCESS;
}
CUresult cuCtxSynchronize() {
  FAKE_ENTER
  FAKE_NEEDS_CONTEXT
  FAKE_SPOILS_CAPTURE
  return CUDA_SUCCESS;
}

// ---- streams and captures ----

CUresult cuStreamGetCtx(CUstream handle, CUcontext *context) {
  FAKE_ENTER
  if (is_default(handle)) {
    FAKE_NEEDS_CONTEXT
    *context = reinterpret_cast<CUcontext>(current());
    return CUDA_SUCCESS;
  }
  const Stream *stream = find(state().streams, handle);
  if (stream == nullptr || !stream->alive) return CUDA_ERROR_INVALID_HANDLE;
  if (!stream->context->alive) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  *context = reinterpret_cast<CUcontext>(stream->context);
  return CUDA_SUCCESS;
}
CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus *status) {
  FAKE_ENTER
  *status = CU_STREAM_CAPTURE_STATUS_NONE;
  if (!is_default(handle)) {
    const Stream *stream = find(state().streams, handle);
    if (stream == nullptr || !stream->alive) return CUDA_ERROR_INVALID_HANDLE;
    *status = stream->capture;
    return CUDA_SUCCESS;
  }
  FAKE_NEEDS_CONTEXT
  if (handle == CU_STREAM_PER_THREAD) return CUDA_SUCCESS;
  for (const Stream &other : state().streams) {
    const bool captured = other.alive && other.capture == CU_STREAM_CAPTURE_STATUS_ACTIVE;
    if (captured && other.blocking && other.context == current()) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  }
  return CUDA_SUCCESS;
}
CUresult cuStreamCreate(CUstream *stream, unsigned flags) {
  FAKE_ENTER
  FAKE_NEEDS_CONTEXT
  *stream = fake_cuda_create_stream(reinterpret_cast<CUcontext>(current()), flags);
  return CUDA_SUCCESS;
}
CUresult cuStreamDestroy_v2(CUstream handle) {
  FAKE_ENTER
  Stream *stream = find(state().streams, handle);
  if (stream == nullptr || !stream->alive) return CUDA_ERROR_INVALID_HANDLE;
  stream->alive = false;
  return CUDA_SUCCESS;
}
CUresult cuStreamSynchronize(CUstream stream) {
  FAKE_ENTER
  FAKE_NEEDS_CONTEXT
  FAKE_SPOILS_CAPTURE
  return check_stream_idle(stream);
}
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode) {
  FAKE_ENTER
  std::swap(*mode, this_thread().capture_mode);
  return CUDA_SUCCESS;
}

// ---- code ----

CUresult cuLibraryLoadData(CUlibrary *handle, const void *code, CUjit_option *, void **, unsigned, CUlibraryOption *,
                           void **, unsigned) {
  FAKE_ENTER
  FAKE_SPOILS_CAPTURE
  Library library;
  if (!read_cubin(static_cast<const char *>(code), library.image, library.kernels)) return CUDA_ERROR_INVALID_IMAGE;
  *handle = handle_of<CUlibrary>(state().libraries.emplace_back(std::move(library)));
  return CUDA_SUCCESS;
}
CUresult cuLibraryUnload(CUlibrary handle) {
  FAKE_ENTER
  Library *library = find(state().libraries, handle);
  if (library == nullptr || !library->alive) return CUDA_ERROR_INVALID_HANDLE;
  library->alive = false;
  return CUDA_SUCCESS;
}
CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary handle, const char *name) {
  FAKE_ENTER
  Library *library = find(state().libraries, handle);
  if (library == nullptr || !library->alive) return CUDA_ERROR_INVALID_HANDLE;
  for (KernelCode &code : library->kernels) {
    if (code.name != name) continue;
    *kernel = handle_of<CUkernel>(state().kernels.emplace_back(Kernel{library, &code}));
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_NOT_FOUND;
}
CUresult cuKernelGetFunction(CUfunction *function, CUkernel handle) {
  FAKE_ENTER
  FAKE_NEEDS_CONTEXT
  const Kernel *kernel = find(state().kernels, handle);
  if (kernel == nullptr || !kernel->library->alive) return CUDA_ERROR_INVALID_HANDLE;
  std::unique_ptr<Function> &slot = kernel->library->functions[{kernel->code, current()}];
  if (slot == nullptr) slot.reset(new Function{kernel->library, kernel->code, current()});
  *function = reinterpret_cast<CUfunction>(slot.get());
  return CUDA_SUCCESS;
}
CUresult cuFuncLoad(CUfunction handle) {
  FAKE_ENTER
  FAKE_SPOILS_CAPTURE
  reinterpret_cast<Function *>(handle)->loaded = true;
  return CUDA_SUCCESS;
}
CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction handle) {
  FAKE_ENTER
  auto *function = reinterpret_cast<Function *>(handle);
  function->loaded = true;
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      *value = 32;
      break;
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *value = static_cast<int>(function->code->max_threads);
      break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      *value = function->shared_limit;
      break;
    default:
      *value = 0;
  }
  return CUDA_SUCCESS;
}
CUresult cuFuncSetAttribute(CUfunction handle, CUfunction_attribute attribute, int value) {
  FAKE_ENTER
  auto *function = reinterpret_cast<Function *>(handle);
  if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) return CUDA_SUCCESS;
  if (value < 0 || value > state().devices.at(function->context->device).shared_bytes) return CUDA_ERROR_INVALID_VALUE;
  function->shared_limit = value;
  return CUDA_SUCCESS;
}
static CUresult record_launch(CUfunction handle, Launch launch, void **parameters) {
  if (const CUresult result = check_stream(launch.stream)) return result;
  const auto &function = *reinterpret_cast<Function *>(handle);
  const Stream *stream = find(state().streams, launch.stream);
  launch.entry = function.code->name.c_str();
  launch.image = function.library->image.data();
  launch.image_bytes = function.library->image.size();
  launch.context_id = current()->id;
  launch.captured = stream != nullptr && stream->capture != CU_STREAM_CAPTURE_STATUS_NONE;
  if (const CUresult result = check_launch(function, launch)) return result;
  RecordedLaunch &recorded = state().launches.emplace_back();
  recorded.parameters.assign(static_cast<const char *>(parameters[0]), function.code->parameter_bytes);
  launch.parameters = recorded.parameters.data();
  launch.parameter_bytes = recorded.parameters.size();
  recorded.launch = launch;
  state().clock_ms += state().launch_ms;
  return CUDA_SUCCESS;
}
CUresult cuLaunchKernel(CUfunction handle, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                        unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream, void **parameters,
                        void **) {
  FAKE_ENTER
  FAKE_NEEDS_CONTEXT
  Launch launch{};
  launch.grid[0] = grid_x, launch.grid[1] = grid_y, launch.grid[2] = grid_z;
  launch.block[0] = block_x, launch.block[1] = block_y, launch.block[2] = block_z;
  launch.shared_bytes = shared_bytes;
  launch.stream = stream;
  return record_launch(handle, launch, parameters);
}
CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction handle, void **parameters, void **) {
  FAKE_ENTER
  FAKE_NEEDS_CONTEXT
  Launch launch{};
  launch.grid[0] = config->gridDimX, launch.grid[1] = config->gridDimY, launch.grid[2] = config->gridDimZ;
  launch.block[0] = config->blockDimX, launch.block[1] = config->blockDimY, launch.block[2] = config->blockDimZ;
  launch.shared_bytes = config->sharedMemBytes;
  launch.stream = config->hStream;
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    if (config->attrs[i].id != CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION) return CUDA_ERROR_INVALID_VALUE;
    launch.overlaps = config->attrs[i].value.programmaticStreamSerializationAllowed != 0;
  }
  return record_launch(handle, launch, parameters);
}

// ---- tensor maps ----

// The map's words: address, rank, dtype, swizzle, then 5 sizes, 4 strides and 5 box extents packed by 12 bits.
CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType dtype, cuuint32_t rank, void *address,
                                const cuuint64_t *sizes, const cuuint64_t *strides, const cuuint32_t *box,
                                const cuuint32_t *element_strides, CUtensorMapInterleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill) {
  FAKE_ENTER
  const auto data = reinterpret_cast<std::uintptr_t>(address);
  if (reinterpret_cast<std::uintptr_t>(map) % 64 != 0 || data == 0 || data % 16 != 0) return CUDA_ERROR_INVALID_VALUE;
  if (rank < 1 || rank > 5 || promotion == CU_TENSOR_MAP_L2_PROMOTION_L2_256B) return CUDA_ERROR_INVALID_VALUE;
  *map = {};
  map->opaque[0] = data;
  map->opaque[1] = rank | static_cast<std::uint64_t>(dtype) << 8U | static_cast<std::uint64_t>(swizzle) << 16U;
  for (cuuint32_t i = 0; i < rank; ++i) {
    if (sizes[i] == 0 || sizes[i] > std::uint64_t{1} << 32U) return CUDA_ERROR_INVALID_VALUE;
    if (box[i] == 0 || box[i] > 256 || element_strides[i] != 1) return CUDA_ERROR_INVALID_VALUE;
    if (i > 0 && (strides[i - 1] % 16 != 0 || strides[i - 1] >= std::uint64_t{1} << 40U))
      return CUDA_ERROR_INVALID_VALUE;
    map->opaque[2 + i] = sizes[i];
    if (i > 0) map->opaque[6 + i] = strides[i - 1];
    map->opaque[11] |= static_cast<std::uint64_t>(box[i]) << (12 * i);
  }
  return CUDA_SUCCESS;
}

// ---- memory ----

CUresult cuMemAlloc_v2(CUdeviceptr *address, std::size_t bytes) {
  FAKE_ENTER
  FAKE_NEEDS_CONTEXT
  FAKE_SPOILS_CAPTURE
  Device &device = state().devices.at(current()->device);
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (bytes > device.memory_bytes - device.used_bytes) return CUDA_ERROR_OUT_OF_MEMORY;
  void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  device.used_bytes += bytes;
  *address = reinterpret_cast<CUdeviceptr>(memory);
  state().buffers[*address] = {bytes, current()->device};
  return CUDA_SUCCESS;
}
CUresult cuMemFree_v2(CUdeviceptr address) {
  FAKE_ENTER
  FAKE_NEEDS_CONTEXT
  FAKE_SPOILS_CAPTURE
  const auto it = state().buffers.find(address);
  if (it == state().buffers.end()) return CUDA_ERROR_INVALID_VALUE;
  state().devices.at(it->second.device).used_bytes -= it->second.bytes;
  munmap(reinterpret_cast<void *>(address), it->second.bytes);
  state().buffers.erase(it);
  return CUDA_SUCCESS;
}
CUresult cuMemGetInfo_v2(std::size_t *free, std::size_t *total) {
  FAKE_ENTER
  FAKE_NEEDS_CONTEXT
  const Device &device = state().devices.at(current()->device);
  *total = device.memory_bytes;
  *free = device.memory_bytes - device.used_bytes;
  return CUDA_SUCCESS;
}
CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, std::size_t bytes) {
  FAKE_ENTER
  FAKE_NEEDS_CONTEXT
  FAKE_SPOILS_CAPTURE
  std::memcpy(reinterpret_cast<void *>(to), from, bytes);
  return CUDA_SUCCESS;
}
CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, std::size_t bytes) {
  FAKE_ENTER
  FAKE_NEEDS_CONTEXT
  FAKE_SPOILS_CAPTURE
  std::memcpy(to, reinterpret_cast<const void *>(from), bytes);
  return CUDA_SUCCESS;
}
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, std::size_t bytes, CUstream stream) {
  FAKE_ENTER
  FAKE_NEEDS_CONTEXT
  if (const CUresult result = check_stream(stream)) return result;
  std::memcpy(reinterpret_cast<void *>(to), from, bytes);
  return CUDA_SUCCESS;
}
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  FAKE_ENTER
  FAKE_NEEDS_CONTEXT
  if (const CUresult result = check_stream(stream)) return result;
  std::memmove(reinterpret_cast<void *>(to), reinterpret_cast<const void *>(from), bytes);
  return CUDA_SUCCESS;
}
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, std::size_t bytes, CUstream stream) {
  FAKE_ENTER
  FAKE_NEEDS_CONTEXT
  if (const CUresult result = check_stream(stream)) return result;
  // The first MiB stands for the rest: fills here flush caches, and would only cost host memory.
  std::memset(reinterpret_cast<void *>(to), value, std::min(bytes, std::size_t{1} << 20));
  return CUDA_SUCCESS;
}
CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr address) {
  FAKE_ENTER
  if (is_made_up(address)) {
    if (attribute == CU_POINTER_ATTRIBUTE_MEMORY_TYPE) *static_cast<unsigned *>(data) = CU_MEMORYTYPE_DEVICE;
    return CUDA_SUCCESS;
  }
  auto it = state().buffers.upper_bound(address);
  if (it == state().buffers.begin()) return CUDA_ERROR_INVALID_VALUE;
  --it;
  if (address >= it->first + it->second.bytes) return CUDA_ERROR_INVALID_VALUE;
  if (attribute == CU_POINTER_ATTRIBUTE_MEMORY_TYPE) *static_cast<unsigned *>(data) = CU_MEMORYTYPE_DEVICE;
  if (attribute == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) *static_cast<int *>(data) = it->second.device;
  return CUDA_SUCCESS;
}

// ---- events: they read a clock that only launches move ----

CUresult cuEventCreate(CUevent *event, unsigned) {
  FAKE_ENTER
  FAKE_NEEDS_CONTEXT
  *event = handle_of<CUevent>(state().events.emplace_back(Event{current()}));
  return CUDA_SUCCESS;
}
CUresult cuEventDestroy_v2(CUevent handle) {
  FAKE_ENTER
  Event *event = find(state().events, handle);
  if (event == nullptr || !event->alive) return CUDA_ERROR_INVALID_HANDLE;
  event->alive = false;
  return CUDA_SUCCESS;
}
CUresult cuEventRecord(CUevent handle, CUstream stream) {
  FAKE_ENTER
  FAKE_NEEDS_CONTEXT
  Event *event = find(state().events, handle);
  if (event == nullptr || !event->alive || event->context != current()) return CUDA_ERROR_INVALID_HANDLE;
  if (const CUresult result = check_stream(stream)) return result;
  event->recorded = true;
  event->ms = state().clock_ms;
  return CUDA_SUCCESS;
}
CUresult cuEventSynchronize(CUevent handle) {
  FAKE_ENTER
  FAKE_SPOILS_CAPTURE
  const Event *event = find(state().events, handle);
  return event != nullptr && event->alive ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
CUresult cuEventElapsedTime(float *ms, CUevent start_handle, CUevent end_handle) {
  FAKE_ENTER
  const Event *start = find(state().events, start_handle);
  const Event *end = find(state().events, end_handle);
  if (start == nullptr || end == nullptr || !start->recorded || !end->recorded) return CUDA_ERROR_INVALID_HANDLE;
  *ms = static_cast<float>(end->ms - start->ms);
  return CUDA_SUCCESS;
}

}  // extern "C"
