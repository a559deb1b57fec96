// Scratch operands of a sweep: seeded random inputs and poisoned results of the representative sizes, in device memory
// of its own. The caller's data have no influence on what is timed.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/call.h"
#include "cuda/buffer.h"
#include "tune/timer.h"

namespace msj::tune {

// What an input holds, told from its operand's table.
enum class Fill : std::uint8_t {
  values,         // streamed: random numbers of magnitude below 1, or random bytes
  mask,           // one byte each, 7 of 8 kept
  near_one,       // scales, biases
  lengths,        // from 3/4 of `length` to all of it
  whole_lengths,  // `length`, in a measurement: what it counts is what is read
  codes,          // 0 to below `length`
  starts,         // multiples of `length`, in no order, below `end`
  poison,         // results
};
[[nodiscard]] Fill fill_of(const OperandSpec &operand, DType dtype);

// The most tokens of a document: Ld, and no more than an index has; 0 where the op has no such size.
[[nodiscard]] std::int64_t document_tokens(const OpSpec &op, const Sizes &sizes);

// `bytes` of that kind (rounded down to whole elements): the same for the same arguments, on any machine.
[[nodiscard]] std::string random_block(Fill fill, DType dtype, std::size_t bytes, std::uint64_t seed,
                                       std::int64_t length, std::int64_t end = 0);

// Whether a call with these features has the operand.
[[nodiscard]] bool takes_part(const OpSpec &op, std::size_t operand, FeatureSet features);

class Scratch {
 public:
  // Allocates and fills, on `stream`, in the current context. Throws Error(MSJ_ERROR_OUT_OF_MEMORY) that says how many
  // bytes a sweep needs.
  Scratch(std::shared_ptr<const cuda::Driver> driver, const cuda::Stream &stream, const SweepProblem &problem);

  // Contiguous operands; for `any` the streamed ones start one element later.
  [[nodiscard]] BoundCall call(Layout layout) const;

 private:
  void fill(std::size_t operand, const cuda::Buffer &buffer);
  [[nodiscard]] std::int64_t length_of(const OperandSpec &operand) const;

  std::shared_ptr<const cuda::Driver> driver_;
  const cuda::Stream &stream_;
  const SweepProblem &problem_;
  std::array<std::unique_ptr<cuda::Buffer>, kMaxOperands> buffers_;  // null: absent
};

}  // namespace msj::tune
