// The files of a `score`: each read, converted to a dtype that its operand takes, and bound to the op's sizes.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/console.h"
#include "cli/op_table.h"
#include "cli/warm_request.h"

namespace msj::cli {

// A dense tensor in host memory, in C or Fortran order; data is aligned to its elements.
struct HostTensor {
  const OperandInfo *operand = nullptr;
  std::string source;  // "--q q.npy", for messages
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;  // elements
  const std::byte *data = nullptr;
  std::shared_ptr<const void> owner;

  [[nodiscard]] std::int64_t elements() const;
  [[nodiscard]] std::size_t bytes() const { return static_cast<std::size_t>(elements() * cli::bytes(dtype)); }
};

// Reads `file` for `operand`. `wanted` is --dtype: matrices are converted to it, and files of bits (uint8, uint16)
// are taken to hold it. Conversions that lose something are noted on the console. `source` names the file in messages;
// "": as the value of the operand's option. Throws Failure.
[[nodiscard]] HostTensor load_operand(const OperandInfo &operand, const std::string &file, std::optional<DType> wanted,
                                      Console &console, const std::string &source = {});
// C order, in memory that the tensor then shares.
[[nodiscard]] HostTensor make_tensor(const OperandInfo &operand, std::string source, DType dtype,
                                     std::vector<std::int64_t> shape,
                                     const std::shared_ptr<std::vector<std::byte>> &data);

// Checks ranks, shapes and dtypes against the op and one another, and gives the op's sizes. A tensor that lacks only
// its leading batch dimension (Nq, Nd: what the op's first result has) gets one of size 1. Throws Failure.
[[nodiscard]] SizeMap bind_sizes(const OpInfo &op, std::vector<HostTensor> &tensors);

}  // namespace msj::cli
