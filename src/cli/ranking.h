// The best documents of each query.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace msj::cli {

// The indices of the k greatest scores (of all, where there are fewer), greatest first; ties by index, NaN last.
[[nodiscard]] std::vector<std::int64_t> top_k(std::span<const float> scores, std::int64_t k);

}  // namespace msj::cli
