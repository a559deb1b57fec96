#include "cuda/architecture.h"

#include "cuda/world.h"

using namespace msj;
using cuda::architecture_of;
using cuda::parse_architecture;

TEST_CASE("both spellings of an architecture are its real target") {
  for (const auto &[plain, target] : {std::pair{"sm_80", "sm_80"},
                                      {"sm_86", "sm_86"},
                                      {"sm_87", "sm_87"},
                                      {"sm_89", "sm_89"},
                                      {"sm_90", "sm_90a"},
                                      {"sm_100", "sm_100a"},
                                      {"sm_103", "sm_103a"},
                                      {"sm_120", "sm_120a"},
                                      {"sm_121", "sm_121a"}}) {
    CHECK(parse_architecture(plain).name == target);
    CHECK(parse_architecture(target).name == target);
    const auto architecture = parse_architecture(plain);
    CHECK(architecture_of(architecture.compute_capability) == architecture);
  }
}

TEST_CASE("limits are those of the architecture") {
  CHECK(parse_architecture("sm_80").limits.shared_bytes_per_block == 163 * 1024);
  CHECK(parse_architecture("sm_89").limits.shared_bytes_per_block == 99 * 1024);
  CHECK(parse_architecture("sm_90a").limits.shared_bytes_per_block == 227 * 1024);
  CHECK(parse_architecture("sm_90a").limits.shared_bytes_per_sm == 228 * 1024);
  CHECK(parse_architecture("sm_120a").limits.shared_bytes_per_block == 99 * 1024);
  CHECK(parse_architecture("sm_90a").limits.compute_capability == 90);
  CHECK(parse_architecture("sm_90a").limits.sm_count == 0);
}

TEST_CASE("an unknown architecture: the error lists what is known") {
  for (const char *name : {"sm_91", "sm_90b", "sm_80a", "hopper", "", "sm_", "sm_9999999999", "compute_90"}) {
    const auto failure = world::failure_of([&] { (void)parse_architecture(name); });
    CHECK(failure.status == MSJ_ERROR_INVALID_ARGUMENT);
    CHECK_NAMES(failure, std::string("\"") + name + "\"");
    CHECK_NAMES(failure, "sm_80, sm_86, sm_87, sm_89, sm_90, sm_90a, sm_100, sm_100a, sm_103");
  }
}

TEST_CASE("an architecture older than sm_80 is unsupported, not unknown") {
  for (const char *name : {"sm_75", "sm_70", "sm_52"}) {
    const auto failure = world::failure_of([&] { (void)parse_architecture(name); });
    CHECK(failure.status == MSJ_ERROR_UNSUPPORTED);
    CHECK_NAMES(failure, name);
    CHECK_NAMES(failure, "sm_80");
  }
}

TEST_CASE("a device newer than this library gets the least that any architecture has") {
  const auto future = architecture_of(150);
  CHECK(future.name == "sm_150");
  CHECK(future.limits.shared_bytes_per_block == 99 * 1024);
  CHECK(future.limits.compute_capability == 150);
}
