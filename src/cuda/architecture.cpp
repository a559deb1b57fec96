#include "cuda/architecture.h"

#include <fmt/ranges.h>

#include <array>

#include "base/error.h"
#include "text/printable.h"

namespace msj::cuda {

namespace {

constexpr int kKiB = 1024;
constexpr int kOldest = 80;

// CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"; NVRTC's release notes.
struct Known {
  int compute_capability;
  std::string_view target;
  std::string_view first_nvrtc;
  int shared_kib_per_block;  // opt-in
  int shared_kib_per_sm;
};
constexpr std::array kKnown = {
    Known{80, "sm_80", "11.0", 163, 164},    Known{86, "sm_86", "11.1", 99, 100},
    Known{87, "sm_87", "11.4", 163, 164},    Known{89, "sm_89", "11.8", 99, 100},
    Known{90, "sm_90a", "12.0", 227, 228},   Known{100, "sm_100a", "12.8", 227, 228},
    Known{103, "sm_103a", "12.9", 227, 228}, Known{120, "sm_120a", "12.8", 99, 100},
    Known{121, "sm_121a", "12.9", 99, 100},
};
// What every architecture so far has at least: for those that are newer than this table.
constexpr int kLeastSharedKiBPerBlock = 99;
constexpr int kLeastSharedKiBPerSm = 100;
constexpr int kRegistersPerSm = 65536;
constexpr int kFirstWithTensorMaps = 90;

Architecture make(int compute_capability, std::string name, std::string_view first_nvrtc, int block_kib, int sm_kib) {
  Architecture architecture;
  architecture.compute_capability = compute_capability;
  architecture.name = std::move(name);
  architecture.first_nvrtc = first_nvrtc;
  architecture.limits.compute_capability = compute_capability;
  architecture.limits.shared_bytes_per_block = block_kib * kKiB;
  architecture.limits.shared_bytes_per_sm = sm_kib * kKiB;
  architecture.limits.registers_per_sm = kRegistersPerSm;
  architecture.limits.tensor_maps = compute_capability >= kFirstWithTensorMaps;
  return architecture;
}

Architecture make(const Known &known) {
  return make(known.compute_capability, std::string(known.target), known.first_nvrtc, known.shared_kib_per_block,
              known.shared_kib_per_sm);
}

// "sm_75" → 75; -1 if it is not "sm_" and a number of at most 4 digits, with at most one suffix letter.
int number_of(std::string_view name) {
  if (!name.starts_with("sm_")) return -1;
  name.remove_prefix(3);
  if (!name.empty() && (name.back() == 'a' || name.back() == 'f')) name.remove_suffix(1);
  if (name.empty() || name.size() > 4) return -1;
  int number = 0;
  for (const char digit : name) {
    if (digit < '0' || digit > '9') return -1;
    number = number * 10 + (digit - '0');
  }
  return number;
}

}  // namespace

Architecture parse_architecture(std::string_view name) {
  for (const Known &known : kKnown) {
    const std::string plain = fmt::format("sm_{}", known.compute_capability);
    if (name == known.target || name == plain) return make(known);
  }
  const int number = number_of(name);
  if (number >= 0 && number < kOldest) {
    throw_error(MSJ_ERROR_UNSUPPORTED, "architecture {} is older than sm_{}, the oldest supported", name, kOldest);
  }
  throw_error(MSJ_ERROR_INVALID_ARGUMENT, "architecture {} is unknown; known are {}", in_quotes(name),
              fmt::join(architecture_names(), ", "));
}

std::vector<std::string> architecture_names() {
  std::vector<std::string> names;
  for (const Known &known : kKnown) {
    std::string plain = fmt::format("sm_{}", known.compute_capability);
    if (plain != known.target) names.push_back(std::move(plain));
    names.emplace_back(known.target);
  }
  return names;
}

Architecture architecture_of(int compute_capability) {
  for (const Known &known : kKnown) {
    if (known.compute_capability == compute_capability) return make(known);
  }
  return make(compute_capability, fmt::format("sm_{}", compute_capability), "", kLeastSharedKiBPerBlock,
              kLeastSharedKiBPerSm);
}

}  // namespace msj::cuda
