#include "base/op_spec.h"

namespace msj {

std::vector<std::string> feature_names(const OpSpec &op, FeatureSet features) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < op.features.size(); ++i) {
    if ((features >> i & 1U) != 0) names.emplace_back(op.features[i].name);
  }
  return names;
}

}  // namespace msj
