// An index directory of fast-plaid or next-plaid as operands of residual_forward: docs/residual-documents.md has the
// formats. Files are mapped; copied is what the op wants otherwise (codes become int32) or what lies in several files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/console.h"
#include "cli/op_table.h"
#include "cli/score_input.h"

namespace msj::cli {

struct ResidualIndex {
  std::vector<HostTensor> tensors;
  std::optional<std::vector<std::int64_t>> documents;  // the candidates, in their order; absent: all of the index
};

// Whether an index gives this operand of residual documents.
[[nodiscard]] bool is_of_index(std::string_view operand);
// Whether the op reads residual documents: all that an index gives.
[[nodiscard]] bool takes_index(const OpInfo &op);

// `candidates`: a .npy file of document numbers; "": all documents, in the index's order. `wanted`: --dtype, of the
// centroids. Throws Failure or std::runtime_error with one sentence that names the file, what it holds and what is
// accepted.
[[nodiscard]] ResidualIndex load_residual_index(const OpInfo &op, const std::string &directory,
                                                const std::string &candidates, std::optional<DType> wanted,
                                                Console &console);

}  // namespace msj::cli
