// Specializations that are loaded and can be launched at once: an insert-only hash table with lock-free reads.
#pragma once

#include <cuda.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "base/call.h"
#include "cuda/module.h"

namespace msj::ops {

// What decides which loaded kernel a call launches. Two calls with equal keys launch the same one.
struct LaunchKey {
  const OpSpec *op = nullptr;
  std::uint64_t context_id = 0;
  int device = 0;
  FeatureSet features = 0;
  Layout layout = Layout::aligned16;
  std::array<DType, kMaxOperands> dtypes{};
  Sizes edges{};  // of the shape bucket, static sizes among them
  friend bool operator==(const LaunchKey &, const LaunchKey &) = default;
  [[nodiscard]] std::size_t hash() const;
  [[nodiscard]] std::string text() const;  // unique per key
};

struct Ready {
  LaunchKey key;
  TileConfig config;
  const PathSpec *path = nullptr;
  Sizes static_sizes{};
  int sm_count = 0;
  std::shared_ptr<const cuda::Module> module;
  std::array<CUfunction, kMaxLaunches> functions{};  // by entry
};

class ReadyTable {
 public:
  ReadyTable() = default;
  ~ReadyTable();
  ReadyTable(const ReadyTable &) = delete;
  ReadyTable &operator=(const ReadyTable &) = delete;

  [[nodiscard]] const Ready *find(const LaunchKey &key) const;
  // The first of equal keys stays. The result lives as long as the table.
  const Ready *insert(std::shared_ptr<const Ready> ready);

 private:
  struct Node {
    std::shared_ptr<const Ready> ready;
    const Node *next;
  };
  static constexpr std::size_t kSlots = 4096;

  std::array<std::atomic<const Node *>, kSlots> slots_{};
  std::mutex insert_mutex_;
};

}  // namespace msj::ops
