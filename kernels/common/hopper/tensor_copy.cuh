#pragma once
// Bulk tensor copies: one thread moves a box of a tensor map [batch, rows, k] to shared memory, zero where the box
// passes the tensor's edge, and its bytes (all of the box's) arrive at a barrier.

namespace msj::ptx {

__device__ __forceinline__ void prefetch_map(const TensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

__device__ __forceinline__ void copy_box(unsigned destination, const TensorMap& map, int k, int row, int batch,
                                         unsigned barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];"
      ::"r"(destination), "l"(&map), "r"(k), "r"(row), "r"(batch), "r"(barrier)
      : "memory");
}

}  // namespace msj::ptx
