// A context owns everything: settings, log, caches, modules, counters. Contexts share nothing but the disk.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include "base/log.h"
#include "ops/pipeline.h"

namespace msj::api {

// Marks live handles, so that a foreign or destroyed one is an error where it can be seen.
inline constexpr std::uint64_t kContextMagic = 0x6d736a2d63747831;  // "msj-ctx1"
inline constexpr std::uint64_t kPlanMagic = 0x6d736a2d706c6e31;     // "msj-pln1"

}  // namespace msj::api

struct msj_context {
  // `world` replaces parts of the world in tests.
  explicit msj_context(const msj_context_options &options, msj::ops::World world = {});
  ~msj_context() { static_cast<volatile std::uint64_t &>(magic) = 0; }
  msj_context(const msj_context &) = delete;
  msj_context &operator=(const msj_context &) = delete;

  std::uint64_t magic = msj::api::kContextMagic;
  const msj::Settings settings;
  std::mutex progress_mutex;
  msj::Log log;
  msj::ops::Pipeline pipeline;
};

struct msj_plan {
  std::uint64_t magic = msj::api::kPlanMagic;
  const msj_context *owner = nullptr;
  const msj::ops::Ready *ready = nullptr;
};
