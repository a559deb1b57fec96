// Ops that the library does not have, described as msj_describe() would: what the command must handle unchanged.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/op_table.h"

namespace msj::testing {

// `plain` has a mask, a flag, a length and an optional result; `scaled` has two dtypes of its own and scales by rank.
inline constexpr std::string_view kMadeUpOps = R"({
  "schema": "maxsim-jit/ops/1",
  "ops": [
    {"name": "plain", "id": 1, "doc": "a plain op",
     "sizes": [{"name": "Nq", "static": false, "max": 1000}, {"name": "Nd", "static": false, "max": 100000},
               {"name": "Lq", "static": false, "max": 5000}, {"name": "Ld", "static": false, "max": 9000},
               {"name": "d", "static": true, "max": 4096, "default": 128}],
     "operands": [
       {"name": "q", "index": 0, "rank": 3, "dims": ["Nq", "Lq", "d"],
        "dtype": {"kind": "own", "accepted": ["bf16", "f16", "f32"]}},
       {"name": "d", "index": 1, "rank": 3, "dims": ["Nd", "Ld", "d"], "dtype": {"kind": "follows", "follows": "q"}},
       {"name": "d_mask", "index": 2, "rank": 2, "dims": ["Nd", "Ld"], "optional": true,
        "dtype": {"kind": "fixed", "canonical": "i8", "accepted": ["bool", "u8", "i8"]}},
       {"name": "d_lengths", "index": 3, "rank": 1, "dims": ["Nd"], "optional": true,
        "dtype": {"kind": "fixed", "canonical": "i32", "accepted": ["i32"]}},
       {"name": "scores", "index": 4, "rank": 2, "dims": ["Nq", "Nd"], "result": true,
        "dtype": {"kind": "fixed", "canonical": "f32", "accepted": ["f32"]}},
       {"name": "argmax", "index": 5, "rank": 3, "dims": ["Nq", "Nd", "Lq"], "result": true, "optional": true,
        "dtype": {"kind": "fixed", "canonical": "i32", "accepted": ["i32"]}}],
     "features": [{"name": "d_mask", "source": "presence", "operand": "d_mask"},
                  {"name": "normalize", "source": "flag", "flag": 4},
                  {"name": "save_argmax", "source": "presence", "operand": "argmax"}],
     "representative_features": ["normalize"],
     "params": [{"name": "empty_doc", "id": 1, "kind": "int", "default": 0, "min": 0, "max": 1}]},
    {"name": "scaled", "id": 2,
     "sizes": [{"name": "Nq", "static": false, "max": 0}, {"name": "Lq", "static": false, "max": 0},
               {"name": "d", "static": true, "max": 64}],
     "operands": [
       {"name": "q", "index": 0, "rank": 3, "dims": ["Nq", "Lq", "d"],
        "dtype": {"kind": "own", "accepted": ["fp8_e4m3", "fp8_e5m2"]}},
       {"name": "d", "index": 1, "rank": 2, "dims": ["Lq", "d"],
        "dtype": {"kind": "own", "accepted": ["fp8_e4m3", "fp8_e5m2"]}},
       {"name": "scale_q", "index": 2, "rank": 2, "dims": ["Nq", "Lq"], "optional": true,
        "may_be_single": true, "dtype": {"kind": "fixed", "canonical": "f32", "accepted": ["f32"]}},
       {"name": "scores", "index": 3, "rank": 1, "dims": ["Nq"], "result": true,
        "dtype": {"kind": "fixed", "canonical": "f32", "accepted": ["f32"]}}],
     "features": [{"name": "scale_q_per_token", "source": "rank", "operand": "scale_q"}],
     "params": []}]})";

[[nodiscard]] inline std::vector<cli::OpInfo> made_up_ops() { return cli::parse_ops(kMadeUpOps); }

// The sentence of the exception that `action` throws; "(no error)" without one.
template <typename Exception>
[[nodiscard]] std::string sentence_of(const std::function<void()> &action) {
  try {
    action();
  } catch (const Exception &error) {
    return error.what();
  }
  return "(no error)";
}

[[nodiscard]] inline bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace msj::testing
