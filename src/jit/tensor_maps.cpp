#include "jit/tensor_maps.h"

#include <algorithm>

namespace msj::jit {

void add_tensor_maps(const PathSpec &path, const TileConfig &config, const Sizes &static_sizes, const BoundCall &call,
                     cuda::TensorMapCache &cache, Arguments &arguments) {
  for (const TensorMapSpec &spec : path.tensor_maps) {
    const TensorView &tensor = call.operands[static_cast<std::size_t>(spec.operand)];
    const bool has_elements = std::all_of(tensor.shape.begin(), tensor.shape.begin() + tensor.rank,
                                          [](std::int64_t size) { return size > 0; });
    const TensorBox box = spec.box({config, static_sizes, call.dtypes});
    // Of an empty tensor nothing is copied, and the driver encodes no map.
    arguments.add(has_elements ? cache.get(cuda::tensor_map_request(tensor, box)) : CUtensorMap{});
  }
}

}  // namespace msj::jit
