#include "cuda/device.h"

#include "cuda/world.h"

using namespace msj;
using cuda::query_device;

TEST_CASE("a device as the driver describes it, and its environment") {
  const world::Gpu gpu;
  const auto info = query_device(*gpu.driver, 0);
  CHECK(info.name == "NVIDIA H200");
  CHECK(info.mig_profile.empty());
  CHECK(info.architecture.name == "sm_90a");
  CHECK(info.limits.compute_capability == 90);
  CHECK(info.limits.sm_count == 132);
  CHECK(info.limits.shared_bytes_per_block == 232448);
  CHECK(info.limits.l2_bytes == 60 << 20);
  CHECK(info.driver_version == 13000);
  CHECK(info.uuid == "fafafafafafafafafafafafafafafa00");
  CHECK(info.environment() == "NVIDIA-H200_sm_90a_132sm_227KiB");
}

TEST_CASE("a MIG slice is another environment of the same GPU") {
  const fake::FakeCuda fake(MSJ_FAKE_LIBCUDA);
  fake.clear_devices();
  fake.add_device("NVIDIA H200 MIG 1g.18gb", 90, 16, 232448, 1 << 30);
  const auto driver = cuda::Driver::load(world::fake_settings());
  const auto info = query_device(*driver, 0);
  CHECK(info.name == "NVIDIA H200");
  CHECK(info.mig_profile == "1g.18gb");
  CHECK(info.environment() == "NVIDIA-H200_sm_90a_16sm_227KiB_mig-1g.18gb");
}

TEST_CASE("an environment is a file name, whatever the device is called") {
  cuda::DeviceInfo info;
  info.architecture = cuda::parse_architecture("sm_89");
  info.limits = {.compute_capability = 89, .shared_bytes_per_block = 101376, .sm_count = 128};
  for (const auto &[name, expected] :
       {std::pair{"../../etc/GeForce RTX 4090 / (Ti)", "etc-GeForce-RTX-4090-Ti_sm_89_128sm_99KiB"},
        {"", "GPU_sm_89_128sm_99KiB"},
        {"...", "GPU_sm_89_128sm_99KiB"},
        {"\xce\xb1 1.5", "1.5_sm_89_128sm_99KiB"}}) {
    info.name = name;
    CHECK(info.environment() == expected);
  }
}

TEST_CASE("an unknown newer device is taken with its own limits") {
  const fake::FakeCuda fake(MSJ_FAKE_LIBCUDA);
  fake.clear_devices();
  fake.add_device("NVIDIA Next", 130, 200, 300 * 1024, 1 << 30);
  const auto driver = cuda::Driver::load(world::fake_settings());
  const auto info = query_device(*driver, 0);
  CHECK(info.architecture.name == "sm_130");
  CHECK(info.limits.shared_bytes_per_block == 300 * 1024);
}

TEST_CASE("ordinals that are none, and devices that are too old") {
  const fake::FakeCuda fake(MSJ_FAKE_LIBCUDA);
  fake.add_device("Tesla T4", 75, 40, 65536, 1 << 30);
  const auto driver = cuda::Driver::load(world::fake_settings());
  for (const int ordinal : {-2, -1, 2, 100}) {
    const auto failure = world::failure_of([&] { (void)query_device(*driver, ordinal); });
    CHECK(failure.status == MSJ_ERROR_INVALID_ARGUMENT);
    CHECK_NAMES(failure, "device is " + std::to_string(ordinal));
    CHECK_NAMES(failure, "from 0 to 1");
  }
  const auto failure = world::failure_of([&] { (void)query_device(*driver, 1); });
  CHECK(failure.status == MSJ_ERROR_UNSUPPORTED);
  CHECK_NAMES(failure, "Tesla T4");
  CHECK_NAMES(failure, "7.5");
  CHECK_NAMES(failure, "8.0");
}
