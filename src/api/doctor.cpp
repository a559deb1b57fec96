#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "api/documents.h"
#include "base/error.h"

namespace msj::api {

namespace {

using Json = nlohmann::ordered_json;

Json check(std::string_view name, std::string_view status, const std::string &found, const std::string &fix = {}) {
  return {{"name", name}, {"status", status}, {"found", found}, {"fix", fix}};
}

std::string driver_version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

// Gives the architectures of the GPUs that can be used.
std::vector<cuda::Architecture> check_driver(ops::Pipeline &pipeline, Json &checks) {
  std::vector<cuda::Architecture> architectures;
  try {
    const auto driver = pipeline.driver();
    checks.push_back(check(
        "driver", "ok", fmt::format("CUDA {} from {}", driver_version_text(driver->version()), driver->opened_as())));
    for (int ordinal = 0; ordinal < driver->device_count(); ++ordinal) {
      try {
        const cuda::DeviceInfo &info = pipeline.device(ordinal);
        architectures.push_back(info.architecture);
        checks.push_back(check(
            fmt::format("gpu {}", ordinal), "ok",
            fmt::format("{}, {}, {} multiprocessors, {} KiB of shared memory a block", info.name,
                        info.architecture.name, info.limits.sm_count, info.limits.shared_bytes_per_block / 1024)));
      } catch (const Error &error) {
        checks.push_back(check(fmt::format("gpu {}", ordinal), "warning", error.what(),
                               "use another device: the library needs compute capability 8.0 or newer"));
      }
    }
  } catch (const Error &error) {
    checks.push_back(
        check("driver", "warning", error.what(),
              "install NVIDIA's driver, or set MAXSIM_JIT_LIBCUDA to libcuda.so.1; without it `warm --arch`, "
              "`score --device cpu` and MSJ_DEVICE_CPU still work"));
  }
  return architectures;
}

// A library that opens may still compile nothing: too old for the GPUs, or without its builtins. So it is tried.
void check_nvrtc(ops::Pipeline &pipeline, std::vector<cuda::Architecture> targets, Json &checks) {
  if (targets.empty()) targets.push_back(cuda::parse_architecture("sm_90a"));  // what is most often warmed for
  try {
    const auto nvrtc = pipeline.nvrtc();
    std::vector<std::string> names;  // each architecture once, however many GPUs it has
    for (const cuda::Architecture &target : targets) {
      if (std::ranges::find(names, target.name) != names.end()) continue;
      Counters not_the_callers;
      (void)nvrtc->compile("__global__ void doctor() {}", "doctor.cu", target, {}, not_the_callers);
      names.push_back(target.name);
    }
    checks.push_back(check("nvrtc", "ok",
                           fmt::format("NVRTC {} from {}, compiles for {}", nvrtc->version(), nvrtc->opened_as(),
                                       fmt::join(names, ", "))));
  } catch (const Error &error) {
    checks.push_back(
        check("nvrtc", "warning", error.what(),
              "install the CUDA toolkit's NVRTC package (12.0 or newer, whole), or set MAXSIM_JIT_LIBNVRTC to its "
              "libnvrtc.so; without it only what the cache holds can run"));
  }
}

constexpr const char *kFixCache =
    "set MAXSIM_JIT_CACHE_DIR to a directory that you own and only you can write (chown, chmod go-w); until then "
    "everything is compiled and tuned again in each process";
constexpr const char *kFixLayer =
    "correct the read-only layers in MAXSIM_JIT_CACHE_DIR, or give the directory to yourself or root and take write "
    "access from all others (chown, chmod go-w); until then the layer is as good as empty";

bool is_unusable_root(const Json &problem, const Json &verified) {
  return std::ranges::find(verified.at("unusable"), problem.at("path")) != verified.at("unusable").end();
}

// "; not read: /opt/baked, which can't be used", of the layers whose files are not among those that are counted.
std::string not_read_text(const Json &verified) {
  const auto unusable = verified.at("unusable").get<std::vector<std::string>>();
  return unusable.empty() ? "" : fmt::format("; not read: {}, which can't be used", fmt::join(unusable, ", "));
}

void check_cache(ops::Pipeline &pipeline, Json &checks) {
  const auto layers = pipeline.root().examine_layers();
  if (layers.empty() || !layers.front().writable) {
    checks.push_back(
        check("cache", "ok", "none: MAXSIM_JIT_CACHE_DIR names read-only layers alone, so nothing is kept"));
  }
  for (const auto &layer : layers) {
    const char *name = layer.writable ? "cache" : "cache layer";
    if (layer.problem.empty()) {
      checks.push_back(check(name, "ok", layer.path));
    } else {
      checks.push_back(check(name, "warning", layer.problem, layer.writable ? kFixCache : kFixLayer));
    }
  }
  const Json verified = verified_files(pipeline);
  Json problems = Json::array();
  for (const Json &problem : verified.at("problems")) {
    if (!is_unusable_root(problem, verified)) problems.push_back(problem);
  }
  const std::string not_read = not_read_text(verified);
  if (problems.empty() && verified.at("files") == 0 && !verified.at("unusable").empty()) {
    const bool writable = layers.empty() || layers.front().problem.empty();
    checks.push_back(check("cache files", "warning", "none" + not_read, writable ? kFixLayer : kFixCache));
  } else if (problems.empty()) {
    checks.push_back(
        check("cache files", "ok", fmt::format("{} files, all valid{}", verified.at("files").dump(), not_read)));
  } else {
    const Json &first = problems.front();
    checks.push_back(
        check("cache files", "warning",
              fmt::format("{} of {} are not valid; the first: {}: {}{}", problems.size(), verified.at("files").dump(),
                          first.at("path").get<std::string>(), first.at("problem").get<std::string>(), not_read),
              "`maxsim-jit cache verify` lists them; each is ignored and replaced when it is needed, or "
              "run `maxsim-jit cache prune`"));
  }
}

}  // namespace

std::string doctor(ops::Pipeline &pipeline) {
  Json checks = Json::array();
  const auto architectures = check_driver(pipeline, checks);
  check_nvrtc(pipeline, architectures, checks);
  check_cache(pipeline, checks);
  return to_text(Json{{"schema", "maxsim-jit/doctor/1"}, {"version", msj_version()}, {"checks", std::move(checks)}});
}

}  // namespace msj::api
