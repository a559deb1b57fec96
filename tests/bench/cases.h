// What is measured: DESIGN section 8's shapes, from the shapes of the command, which peers.py reads too.
#pragma once

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "gpu/op_problem.h"
#include "support/op_calls.h"
#include "support/scratch.h"

namespace msj::bench {

inline const std::string kShapesFile = std::string(MSJ_SOURCE_DIR) + "/src/cli/bench_shapes.json";

struct Case {
  std::string shape;
  std::string dtype;
  gpu::OpProblem problem;

  [[nodiscard]] std::string features() const {
    return fmt::format("{}", fmt::join(feature_names(*problem.op, problem.features), " "));
  }
  // As peers.py names it.
  [[nodiscard]] std::string key() const { return fmt::format("{} {} {}", problem.op->name, shape, dtype); }
};

// The file's cases; of these shapes and ops alone where a list names any.
inline std::vector<Case> read_cases(const std::string &file, const std::vector<std::string> &shapes,
                                    const std::vector<std::string> &ops, bool quick) {
  using Json = nlohmann::ordered_json;
  const Json document = Json::parse(testing::read_text(file));
  const auto listed = [](const std::vector<std::string> &list, const std::string &name) {
    return list.empty() || std::find(list.begin(), list.end(), name) != list.end();
  };
  const auto quick_shapes = quick ? document.at("quick").get<std::vector<std::string>>() : std::vector<std::string>{};
  std::vector<Case> cases;
  for (const Json &row : document.at("cases")) {
    const auto op_name = row.at("op").get<std::string>();
    if (!listed(ops, op_name)) continue;
    const auto only = row.value("only", std::vector<std::string>{});
    for (const auto &[shape, sizes] : document.at("groups").at(row.at("group").get<std::string>()).items()) {
      if (!listed(only, shape) || !listed(shapes, shape) || !listed(quick_shapes, shape)) continue;
      Case c{shape, row.at("dtype"), {}};
      const ops::Op *op = ops::find_op(op_name);
      if (op == nullptr) throw std::runtime_error("the registry has no op " + op_name);
      c.problem.op = op->spec;
      const auto dtype = dtype_from(c.dtype);
      if (!dtype) throw std::runtime_error("no dtype is called " + c.dtype);
      c.problem.own.assign(testing::own_dtypes(*op->spec).front().size(), *dtype);
      for (const auto &[name, value] : sizes.items()) c.problem.resize({{name, value.get<std::int64_t>()}});
      if (row.at("features") == "all") {
        c.problem.features = op->spec->all_features();
      } else {
        for (const Json &feature : row.at("features")) {
          c.problem.features |= gpu::features_of(*op->spec, {feature.get<std::string>()});
        }
      }
      c.problem.seed = 42;
      cases.push_back(std::move(c));
    }
  }
  return cases;
}

}  // namespace msj::bench
