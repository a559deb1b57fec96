// What a config of a key is compiled as.
#pragma once

#include "jit/specialization.h"
#include "tune/autotune_key.h"

namespace msj::testing {

[[nodiscard]] inline jit::Specialization specialization_of(const tune::AutotuneKey &key, const TileConfig &config,
                                                           FeatureSet features, Layout layout,
                                                           const cuda::Architecture &architecture) {
  return {.op = &key.op(),
          .config = config,
          .features = features,
          .dtypes = key.dtypes().array(),
          .static_sizes = key.bucket().static_sizes(),
          .layout = layout,
          .architecture = architecture};
}

}  // namespace msj::testing
