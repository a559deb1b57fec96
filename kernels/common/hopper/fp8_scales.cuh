#pragma once
// Scales of fp8 on the hopper paths:
//
//   D rows: a document token's scale lies beside its tile (cp.async), a factor per finished row
//   Q rows: a query token's scale lies beside its column, a factor after the max
//   one for all: read on the device; of D it is a factor after the max as well, if no other value can overtake by it

namespace msj {

struct Fp8Scales {
  static constexpr int query_extra_bytes = 4, row_extra_bytes = 4;
  struct QueryExtras {
    float scale[feature::scale_q_per_token ? block_query : 1];
  };
  struct RowExtras {
    float scale[feature::scale_d_per_token ? tile_rows : 2];
  };

  float query_scale = 1.0f;     // for all of Q, unless each token has its own
  float document_scale = 1.0f;  // for all of D, after the max
  float row_scale = 1.0f;       // for all of D, before it

  // A positive finite factor keeps the order of values, so that max commutes with it.
  __device__ __forceinline__ explicit Fp8Scales(const Args& args) {
    if (!feature::scale_q_per_token) query_scale = at(args.scale_q, 0, 0);
    if (!feature::scale_d_per_token) {
      const float scale = at(args.scale_d, 0, 0);
      (scale > 0.0f && scale < infinity ? document_scale : row_scale) = scale;
    }
  }

  static __device__ __forceinline__ float at(const Operand<2>& scale, long long row, long long token) {
    return scale.data ? static_cast<const float*>(scale.data)[row * scale.stride[0] + token * scale.stride[1]] : 1.0f;
  }

  static __device__ __forceinline__ float of_query(const Args& args, const Group::Token& token) {
    return token.present ? at(args.scale_q, token.query, token.s) : 1.0f;
  }

  static __device__ __forceinline__ void copy_rows(const Args& args, const Document& document, int first_t,
                                                   RowExtras& extras, int lane) {
    const auto* scale = static_cast<const float*>(args.scale_d.data) + document.index * args.scale_d.stride[0];
#pragma unroll
    for (int row = lane; row < tile_rows; row += 32) {
      const int t = first_t + row;
      const bool present = t < document.length;
      ptx::copy_4_if(ptx::shared_address(&extras.scale[row]), present ? scale + t * args.scale_d.stride[1] : scale,
                     present);
    }
  }

  // Whether products are to be multiplied before the max. 0 times a negative scale is +0, as ties are told by their bits;
  // nothing else depends on the sign of a zero.
  __device__ __forceinline__ bool multiplies_rows() const {
    return feature::scale_d_per_token || feature::save_argmax || row_scale != 1.0f;
  }

  // A query token's value with its factors.
  __device__ __forceinline__ float factored(float best, const QueryExtras& extras, int column) const {
    const float value = feature::scale_d_per_token ? best : best * document_scale;
    return value * (feature::scale_q_per_token ? extras.scale[column] : query_scale);
  }
};

}  // namespace msj
