// Tensor maps: what bulk tensor copies need to know of a tensor in device memory, encoded by the driver.
#pragma once

#include <cuda.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "base/call.h"
#include "cuda/driver.h"

namespace msj::cuda {

inline constexpr int kMaxMapRank = 5;

// All that decides a map, dimensions from the innermost one, which is contiguous.
struct TensorMapRequest {
  std::uint64_t data = 0;
  DType dtype = DType::bf16;
  int rank = 0;
  int swizzle_bytes = 0;
  std::array<std::uint64_t, kMaxMapRank> sizes{};
  std::array<std::uint64_t, kMaxMapRank - 1> strides{};  // of the dimensions from the second, bytes
  std::array<std::uint32_t, kMaxMapRank> box{};
};

// Of a tensor of layout class aligned16 that has elements.
[[nodiscard]] TensorMapRequest tensor_map_request(const TensorView &tensor, const TensorBox &box);

// Zeros where the box passes the tensor's edge; L2 fetches at most 128 bytes ahead. Throws Error(MSJ_ERROR_CUDA).
[[nodiscard]] CUtensorMap encode_tensor_map(const Driver &driver, const TensorMapRequest &request);

// The maps that were used lately, so that calls with known tensors encode none. Bounded: each request has one place,
// which its last user holds. Any thread, without a lock: who meets a place while it is written encodes for itself.
class TensorMapCache {
 public:
  explicit TensorMapCache(std::shared_ptr<const Driver> driver) : driver_(std::move(driver)) {}
  [[nodiscard]] CUtensorMap get(const TensorMapRequest &request);

 private:
  static constexpr std::size_t kPlaces = 512;
  static constexpr std::size_t kKeyWords = 3 + kMaxMapRank + (kMaxMapRank - 1);
  static constexpr std::size_t kMapWords = sizeof(CUtensorMap) / sizeof(std::uint64_t);
  using Key = std::array<std::uint64_t, kKeyWords>;
  // `version` is odd while the words are written; who reads them sees it unchanged, or reads in vain.
  struct Place {
    std::atomic<std::uint64_t> version{0};
    std::array<std::atomic<std::uint64_t>, kKeyWords + kMapWords> words{};
  };

  [[nodiscard]] static Key key_of(const TensorMapRequest &request);
  [[nodiscard]] static bool read(const Place &place, const Key &key, CUtensorMap &map);
  static void write(Place &place, const Key &key, const CUtensorMap &map);

  std::shared_ptr<const Driver> driver_;
  std::array<Place, kPlaces> places_{};
};

}  // namespace msj::cuda
