// The kernel's Args struct as bytes: the exact mirror of the one that specialization.cpp generates from the op's table.
// Every field is 8 bytes: {data, strides…} of each operand, the sizes, the params, run-time dtypes, the workspace, the
// round where the op has rounds. Then, from the next multiple of 64 bytes, the tensor maps of paths that have some, 128
// bytes each.
#pragma once

#include <cuda.h>

#include <array>
#include <cstdint>

#include "base/call.h"

namespace msj::jit {

// Of a tensor map in Args, in bytes: what the hardware asks for, in every toolkit (CUtensorMap itself is aligned to 64
// or 128, as the headers' version has it).
inline constexpr int kTensorMapAlignment = 64;

class Arguments {
 public:
  Arguments(const BoundCall &call, void *workspace);
  Arguments(const Arguments &) = delete;  // holds a pointer into itself
  Arguments &operator=(const Arguments &) = delete;
  // The next of the path's tensor maps, in the table's order.
  void add(const CUtensorMap &map);
  // What cuLaunchKernel takes: one pointer to the struct.
  [[nodiscard]] void **kernel_params() { return &struct_; }
  [[nodiscard]] int words() const { return count_; }
  // For the next launch; without effect where the op has no rounds.
  void set_round(std::int64_t round) {
    if (round_at_ >= 0) words_[static_cast<std::size_t>(round_at_)] = static_cast<std::uint64_t>(round);
  }

 private:
  void push(std::uint64_t word) { words_[static_cast<std::size_t>(count_++)] = word; }

  static constexpr int kMapWords = sizeof(CUtensorMap) / sizeof(std::uint64_t);
  static constexpr int kAlignedWords = kTensorMapAlignment / static_cast<int>(sizeof(std::uint64_t));
  static constexpr int kMaxWords =
      kMaxOperands * (2 + kMaxRank) + kMaxSizes + kMaxParams + 2 + kAlignedWords + kMaxTensorMaps * kMapWords;
  alignas(CUtensorMap) std::array<std::uint64_t, kMaxWords> words_;  // zeroing them would cost each call
  int count_ = 0;
  int round_at_ = -1;
  void *struct_ = words_.data();
};

}  // namespace msj::jit
