#pragma once
// Bulk tensor copies of a tensor map [rows, k], as those of [batch, rows, k] in tensor_copy.cuh.

namespace msj::ptx {

__device__ __forceinline__ void copy_box(unsigned destination, const TensorMap& map, int k, int row, unsigned barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::
          "r"(destination),
      "l"(&map), "r"(k), "r"(row), "r"(barrier)
      : "memory");
}

}  // namespace msj::ptx
