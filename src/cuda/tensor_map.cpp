#include "cuda/tensor_map.h"

#include <algorithm>

#include "base/error.h"

namespace msj::cuda {

namespace {

constexpr std::uint64_t kStrideUnit = 16;

CUtensorMapDataType data_type(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    case DType::f16:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    case DType::f32:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
    default:
      return CU_TENSOR_MAP_DATA_TYPE_UINT8;  // fp8, masks, codes
  }
}

CUtensorMapSwizzle swizzle(int bytes) {
  switch (bytes) {
    case 32:
      return CU_TENSOR_MAP_SWIZZLE_32B;
    case 64:
      return CU_TENSOR_MAP_SWIZZLE_64B;
    case 128:
      return CU_TENSOR_MAP_SWIZZLE_128B;
    default:
      return CU_TENSOR_MAP_SWIZZLE_NONE;
  }
}

}  // namespace

TensorMapRequest tensor_map_request(const TensorView &tensor, const TensorBox &box) {
  TensorMapRequest request;
  request.data = reinterpret_cast<std::uintptr_t>(tensor.data);
  request.dtype = tensor.dtype;
  request.rank = tensor.rank;
  request.swizzle_bytes = box.swizzle_bytes;
  const auto element = static_cast<std::uint64_t>(bytes(tensor.dtype));
  std::uint64_t extent = element;  // of the dimensions so far
  for (int i = 0; i < tensor.rank; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const auto from = static_cast<std::size_t>(tensor.rank - 1 - i);
    request.sizes[at] = static_cast<std::uint64_t>(tensor.shape[from]);
    request.box[at] = box.extent[from];
    if (i > 0) {
      // The stride of a single place is anything, but not to the driver.
      const std::uint64_t stride = tensor.shape[from] > 1 ? static_cast<std::uint64_t>(tensor.strides[from]) * element
                                                          : (extent + kStrideUnit - 1) / kStrideUnit * kStrideUnit;
      request.strides[at - 1] = stride;
      extent = stride;
    }
    extent *= request.sizes[at];
  }
  return request;
}

CUtensorMap encode_tensor_map(const Driver &driver, const TensorMapRequest &request) {
  constexpr std::array<std::uint32_t, kMaxMapRank> kEveryElement = {1, 1, 1, 1, 1};
  // Of its own, not the caller's place for the result: GCC does not align temporaries to the 64 bytes of this type.
  struct {
    CUtensorMap map{};
  } local;
  driver.check(driver.TensorMapEncodeTiled(&local.map, data_type(request.dtype), static_cast<cuuint32_t>(request.rank),
                                           reinterpret_cast<void *>(request.data), request.sizes.data(),
                                           request.strides.data(), request.box.data(), kEveryElement.data(),
                                           CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle(request.swizzle_bytes),
                                           CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
               "cuTensorMapEncodeTiled");
  return local.map;
}

// ---- the cache -----------------------------------------------------------------------------------------------------

TensorMapCache::Key TensorMapCache::key_of(const TensorMapRequest &request) {
  Key key{};
  std::size_t at = 0;
  key[at++] = request.data;
  key[at++] = static_cast<std::uint64_t>(request.dtype) << 32 | static_cast<std::uint64_t>(request.rank) << 16 |
              static_cast<std::uint64_t>(request.swizzle_bytes);
  std::uint64_t box = 0;
  for (const std::uint32_t extent : request.box) box = box << 12 | extent;  // 256 at most
  key[at++] = box;
  for (const std::uint64_t size : request.sizes) key[at++] = size;
  for (const std::uint64_t stride : request.strides) key[at++] = stride;
  return key;
}

bool TensorMapCache::read(const Place &place, const Key &key, CUtensorMap &map) {
  const std::uint64_t version = place.version.load(std::memory_order_acquire);
  if (version == 0 || version % 2 != 0) return false;
  for (std::size_t i = 0; i < kKeyWords; ++i) {
    if (place.words[i].load(std::memory_order_acquire) != key[i]) return false;
  }
  for (std::size_t i = 0; i < kMapWords; ++i) {
    map.opaque[i] = place.words[kKeyWords + i].load(std::memory_order_acquire);
  }
  return place.version.load(std::memory_order_relaxed) == version;
}

void TensorMapCache::write(Place &place, const Key &key, const CUtensorMap &map) {
  std::uint64_t version = place.version.load(std::memory_order_relaxed);
  if (version % 2 != 0 || !place.version.compare_exchange_strong(version, version + 1, std::memory_order_acquire))
    return;
  for (std::size_t i = 0; i < kKeyWords; ++i) place.words[i].store(key[i], std::memory_order_release);
  for (std::size_t i = 0; i < kMapWords; ++i) {
    place.words[kKeyWords + i].store(map.opaque[i], std::memory_order_release);
  }
  place.version.store(version + 2, std::memory_order_release);
}

CUtensorMap TensorMapCache::get(const TensorMapRequest &request) {
  const Key key = key_of(request);
  std::uint64_t hash = 0;
  for (const std::uint64_t word : key) {
    constexpr std::uint64_t kMultiplier = 0x9E3779B97F4A7C15ULL;  // 2^64 / golden ratio
    hash = (hash ^ word) * kMultiplier;
    hash ^= hash >> 29;
  }
  Place &place = places_[hash % kPlaces];
  CUtensorMap map{};
  if (read(place, key, map)) return map;
  map = encode_tensor_map(*driver_, request);
  write(place, key, map);
  return map;
}

}  // namespace msj::cuda
