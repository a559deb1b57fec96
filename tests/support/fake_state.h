// The stand-in driver's world: devices, contexts, streams, events, code, memory, and what a test asked for.
// Dead objects stay until reset, so that a stale handle is noticed instead of followed.
#pragma once

#include <cuda.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "fake_cubin.h"
#include "fake_cuda.h"

namespace fake {

constexpr int kDefaultSharedBytes = 48 * 1024;
constexpr std::size_t kDefaultMemory = std::size_t{16} << 30;

struct Device {
  std::string name;
  int compute_capability;
  int sm_count;
  int shared_bytes;
  std::size_t memory_bytes;
  std::size_t used_bytes = 0;
  CUcontext primary = nullptr;
  int primary_references = 0;
};

struct Context {
  unsigned long long id;
  int device;
  bool alive = true;
};

struct Stream {
  Context *context;
  bool blocking;
  bool alive = true;
  CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
};

struct Event {
  Context *context;
  bool alive = true;
  bool recorded = false;
  double ms = 0;
};

struct Function;
struct Library {
  std::string image;
  std::deque<KernelCode> kernels;
  std::map<std::pair<const KernelCode *, Context *>, std::unique_ptr<Function>> functions;
  bool alive = true;
};
struct Kernel {
  Library *library;
  KernelCode *code;
};
struct Function {
  Library *library;
  KernelCode *code;
  Context *context;
  bool loaded = false;  // drivers load lazily, which a capture forbids
  int shared_limit = kDefaultSharedBytes;
};

struct RecordedLaunch {
  Launch launch;
  std::string parameters;
};

struct Buffer {
  std::size_t bytes;
  int device;
};

struct Injection {
  CUresult result;
  int remaining;
};

struct State {
  std::recursive_mutex mutex;
  int driver_version = 13000;
  std::vector<Device> devices;
  std::deque<Context> contexts;
  std::deque<Stream> streams;
  std::deque<Event> events;
  std::deque<Library> libraries;
  std::deque<Kernel> kernels;
  std::map<CUdeviceptr, Buffer> buffers;
  std::deque<RecordedLaunch> launches;
  std::map<std::string, Injection, std::less<>> injections;
  std::map<std::string, std::size_t, std::less<>> calls;
  double clock_ms = 0;
  double launch_ms = 1;
  bool pageable_access = false;
};

inline std::atomic<unsigned long long> next_context_id{1};  // never reused, not even over a reset
inline std::atomic<unsigned> epoch{1};                      // raised by reset

inline void add_device(State &state, const std::string &name, int capability, int sm_count, int shared_bytes,
                       std::size_t memory_bytes) {
  Device device{};
  device.name = name;
  device.compute_capability = capability;
  device.sm_count = sm_count;
  device.shared_bytes = shared_bytes;
  device.memory_bytes = memory_bytes;
  state.devices.push_back(device);
}

inline void add_devices_of_environment(State &state, std::string list) {
  for (std::size_t start = 0; start < list.size();) {
    const std::size_t end = std::min(list.find(',', start), list.size());
    const std::string item = list.substr(start, end - start);
    std::array<char, 128> name{};
    int capability = 0;
    int sm_count = 0;
    int shared_bytes = 0;
    if (std::sscanf(item.c_str(), "%127[^:]:%d:%d:%d", name.data(), &capability, &sm_count, &shared_bytes) == 4) {
      add_device(state, name.data(), capability, sm_count, shared_bytes, kDefaultMemory);
    }
    start = end + 1;
  }
}

inline State &state() {
  static State *instance = [] {
    auto *made = new State;  // outlives every static destructor of a test
    const char *devices = std::getenv("FAKE_CUDA_DEVICES");
    const char *version = std::getenv("FAKE_CUDA_DRIVER");
    add_devices_of_environment(*made, devices != nullptr ? devices : "NVIDIA H200:90:132:232448");
    if (version != nullptr) made->driver_version = std::atoi(version);
    return made;
  }();
  return *instance;
}

struct Thread {
  unsigned epoch = 0;
  std::vector<Context *> stack;
  CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
};
inline Thread &this_thread() {
  static thread_local Thread thread;
  if (thread.epoch != epoch) thread = Thread{epoch, {}, CU_STREAM_CAPTURE_MODE_GLOBAL};
  return thread;
}

inline Context *current() {
  const Thread &thread = this_thread();
  return thread.stack.empty() ? nullptr : thread.stack.back();
}

template <typename Object>
Object *find(std::deque<Object> &objects, const void *handle) {
  for (Object &object : objects) {
    if (&object == handle) return &object;
  }
  return nullptr;
}

// Handles are the objects' addresses, CUDA's opaque types in name only.
template <typename Handle, typename Object>
Handle handle_of(Object &object) {
  return reinterpret_cast<Handle>(&object);
}

}  // namespace fake
