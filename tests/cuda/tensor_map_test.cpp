// Tensor maps: what the driver is asked for, and the bounded cache that asks it once.
#include "cuda/tensor_map.h"

#include <array>
#include <thread>
#include <vector>

#include "cuda/world.h"

using namespace msj;

namespace {

constexpr TensorBox kBox = {.extent = {1, 64, 64}, .swizzle_bytes = 128};

// [Nd, Ld, d] of bf16, rows of 104 elements, documents of a row more than they need.
TensorView documents(std::uintptr_t data) {
  TensorView view;
  view.data = reinterpret_cast<void *>(data);
  view.dtype = DType::bf16;
  view.rank = 3;
  view.shape = {7, 300, 100};
  view.strides = {301 * 104, 104, 1};
  view.present = true;
  return view;
}

}  // namespace

TEST_CASE("the driver is given sizes, strides in bytes and the box, innermost first") {
  const world::Gpu gpu;
  const auto map = cuda::encode_tensor_map(*gpu.driver, cuda::tensor_map_request(documents(0x10000), kBox));
  CHECK(map.opaque[0] == 0x10000);
  CHECK((map.opaque[1] & 0xffU) == 3);
  CHECK((map.opaque[1] >> 8U & 0xffU) == CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
  CHECK((map.opaque[1] >> 16U) == CU_TENSOR_MAP_SWIZZLE_128B);
  CHECK(map.opaque[2] == 100);
  CHECK(map.opaque[3] == 300);
  CHECK(map.opaque[4] == 7);
  CHECK(map.opaque[7] == 208);
  CHECK(map.opaque[8] == 301 * 208);
  CHECK(map.opaque[11] == (64U | 64U << 12U | 1U << 24U));
}

TEST_CASE("the stride of a single place does not count, whatever it is") {
  const world::Gpu gpu;
  for (const std::int64_t stride : {std::int64_t{0}, std::int64_t{-5}, std::int64_t{7}, std::int64_t{1} << 50}) {
    TensorView view = documents(0x10000);
    view.shape = {1, 1, 100};
    view.strides = {stride, stride, 1};
    const auto map = cuda::encode_tensor_map(*gpu.driver, cuda::tensor_map_request(view, kBox));
    CHECK(map.opaque[7] == 208);
    CHECK(map.opaque[8] == 208);
  }
}

TEST_CASE("a known tensor is encoded once, whatever differs is another map") {
  const world::Gpu gpu;
  cuda::TensorMapCache cache(gpu.driver);
  const auto base = cuda::tensor_map_request(documents(0x10000), kBox);
  const auto encodings = [&] { return gpu.fake.calls("cuTensorMapEncodeTiled"); };
  for (int i = 0; i < 3; ++i) CHECK(cache.get(base).opaque[0] == 0x10000);
  CHECK(encodings() == 1);
  const auto check_another = [&](auto change) {
    auto request = base;
    change(request);
    const std::size_t before = encodings();
    (void)cache.get(request);
    CHECK(encodings() == before + 1);
  };
  check_another([](auto &r) { r.data += 16; });
  check_another([](auto &r) { r.dtype = DType::f16; });
  check_another([](auto &r) { r.swizzle_bytes = 64; });
  for (std::size_t i = 0; i < 3; ++i) check_another([i](auto &r) { r.sizes[i] += 1; });
  for (std::size_t i = 0; i < 2; ++i) check_another([i](auto &r) { r.strides[i] += 16; });
  for (std::size_t i = 0; i < 3; ++i) check_another([i](auto &r) { r.box[i] = 8; });
}

TEST_CASE("more tensors than places: each gets its own map still") {
  const world::Gpu gpu;
  cuda::TensorMapCache cache(gpu.driver);
  for (int round = 0; round < 2; ++round) {
    for (std::uintptr_t i = 1; i <= 5000; ++i) {
      REQUIRE(cache.get(cuda::tensor_map_request(documents(i * 4096), kBox)).opaque[0] == i * 4096);
    }
  }
}

TEST_CASE("threads that share few tensors always get the one they asked for") {
  const world::Gpu gpu;
  cuda::TensorMapCache cache(gpu.driver);
  std::array<int, 4> wrong{};
  {
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < wrong.size(); ++t) {
      threads.emplace_back([&, t] {
        for (std::uintptr_t i = 0; i < 20'000; ++i) {
          const std::uintptr_t data = (1 + (i * (t + 1)) % 1500) * 4096;
          const auto map = cache.get(cuda::tensor_map_request(documents(data), kBox));
          if (map.opaque[0] != data || map.opaque[3] != 300) ++wrong[t];
        }
      });
    }
  }
  for (const int count : wrong) CHECK(count == 0);
}

TEST_CASE("what the driver refuses is named") {
  const world::Gpu gpu;
  gpu.fake.fail("cuTensorMapEncodeTiled", CUDA_ERROR_INVALID_VALUE, 1);
  cuda::TensorMapCache cache(gpu.driver);
  const auto request = cuda::tensor_map_request(documents(0x10000), kBox);
  const auto failure = world::failure_of([&] { (void)cache.get(request); });
  CHECK(failure.status == MSJ_ERROR_CUDA);
  CHECK_NAMES(failure, "cuTensorMapEncodeTiled");
  CHECK(cache.get(request).opaque[0] == 0x10000);
}
