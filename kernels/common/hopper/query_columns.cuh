#pragma once
// The query tokens of a pass, brought to shared memory by one warp: boxes of 8 tokens x 128 bytes, all of d, and what
// the op and the query mask keep beside them. A k block of them all is one swizzled matrix (wgmma.cuh).

namespace msj {

constexpr int tile_rows = 64, row_bytes = 128, step_bytes = 32, box_bytes = tile_rows * row_bytes;
constexpr int query_block_bytes = block_query * row_bytes;

template <class Block, class Op>
struct QueryColumns {
  static constexpr bool prepares = feature::q_mask || Op::prepares;

  Group group;
  int chunk, eights;

  __device__ __forceinline__ QueryColumns(const Args& args, unsigned group_index, int chunk)
      : group(args, group_index), chunk(chunk) {
    const int left = group.chunks > 1 ? int(args.size_Lq) - chunk * block_query : group.queries * group.padded;
    eights = args.size_Lq == 0 ? 0 : divide_up(min(left, block_query), 8);
  }

  // To buffer `slot`, which is free.
  __device__ __forceinline__ void copy(const Args& args, int slot, unsigned full, int lane) const {
    if (lane == 0) ptx::barrier_arrive_expect(full, eights * Block::k_blocks * 8 * row_bytes);
    __syncwarp();
#pragma unroll 1
    for (int index = lane; index < eights * Block::k_blocks; index += 32) {
      const int eight = index / Block::k_blocks, k = index % Block::k_blocks;
      const Group::Token token = group.token(args, chunk, eight * 8);
      ptx::copy_box(Block::query_address(slot) + k * query_block_bytes + eight * 8 * row_bytes, args.map_q,
                    k * Block::k_block, token.s, int(token.query), full);
    }
  }

  // Keeps and extras of the columns that have come. Two lanes a column.
  __device__ __forceinline__ void prepare(const Args& args, int slot, int lane) const {
#pragma unroll 1
    for (int first = 0; first < eights * 8; first += 16) {
      const int column = first + lane % 16, half = lane / 16;
      const Group::Token token = group.token(args, chunk, column);
      if constexpr (feature::q_mask) {
        const auto* mask = static_cast<const unsigned char*>(args.q_mask.data);
        if (half == 0)
          Block::small().query_keep[slot][column] =
              token.present && mask[token.query * args.q_mask.stride[0] + token.s * args.q_mask.stride[1]] != 0;
      }
      if constexpr (Op::prepares) Op::prepare_column(args, token, column, half, slot, lane);
    }
  }
};

}  // namespace msj
