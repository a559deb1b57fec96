// The tensor maps of one launch, from the path's table and the call's operands.
#pragma once

#include "base/call.h"
#include "cuda/tensor_map.h"
#include "jit/arguments.h"

namespace msj::jit {

// Adds each map that the config's path declares, in the table's order; none for paths without. The call is of layout
// class aligned16 then. Throws Error(MSJ_ERROR_CUDA) where the driver refuses a tensor.
void add_tensor_maps(const PathSpec &path, const TileConfig &config, const Sizes &static_sizes, const BoundCall &call,
                     cuda::TensorMapCache &cache, Arguments &arguments);

}  // namespace msj::jit
