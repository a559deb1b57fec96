// What the tables of several ops say in the same words: dtype rules and run-time parameters.
#pragma once

#include <array>

#include "base/op_spec.h"

namespace msj::ops {

inline constexpr std::int64_t kMaxCount = std::int64_t{1} << 40;   // queries, documents: addresses are 64-bit
inline constexpr std::int64_t kMaxTokens = std::int64_t{1} << 30;  // of one query or document
inline constexpr std::int64_t kMaxWidth = 4096;                    // features of a token

inline constexpr std::array<DType, 3> kMatrixDtypes = {DType::bf16, DType::f16, DType::f32};
inline constexpr std::array<DType, 2> kFp8Dtypes = {DType::fp8_e4m3, DType::fp8_e5m2};
inline constexpr std::array<DType, 3> kMaskDtypes = {DType::i8, DType::u8, DType::boolean};
inline constexpr std::array<DType, 1> kInt32Only = {DType::i32};
inline constexpr std::array<DType, 1> kInt64Only = {DType::i64};
inline constexpr std::array<DType, 1> kByteOnly = {DType::u8};
inline constexpr std::array<DType, 1> kFloat32Only = {DType::f32};

inline constexpr DtypeRule kOwnMatrix = {DtypeRule::Kind::own, DType::bf16, kMatrixDtypes};
inline constexpr DtypeRule kOwnFp8 = {DtypeRule::Kind::own, DType::fp8_e4m3, kFp8Dtypes};
inline constexpr DtypeRule kMask = {DtypeRule::Kind::fixed, DType::i8, kMaskDtypes};
inline constexpr DtypeRule kInt32 = {DtypeRule::Kind::fixed, DType::i32, kInt32Only};
inline constexpr DtypeRule kInt64 = {DtypeRule::Kind::fixed, DType::i64, kInt64Only};
inline constexpr DtypeRule kBytes = {DtypeRule::Kind::fixed, DType::u8, kByteOnly};
inline constexpr DtypeRule kFloat32 = {DtypeRule::Kind::fixed, DType::f32, kFloat32Only};
// The dtype of operand `leader`, or one of `others`.
constexpr DtypeRule like(int leader, std::span<const DType> others = {}) {
  return {DtypeRule::Kind::follows, DType::bf16, others, leader};
}

// Of flags: true of each op that has one.
inline constexpr std::string_view kNormalizeDoc =
    "scale every token to length 1; of the fused head, every projected token; of residual documents, every decoded "
    "token, not the query's";
inline constexpr std::string_view kLsbFirstDoc = "the bits of each byte of residuals are in the other order";

inline constexpr std::array<NamedValue, 2> kEmptyDocValues = {
    {{"zero", MSJ_EMPTY_DOC_ZERO}, {"neginf", MSJ_EMPTY_DOC_NEG_INF}}};
inline constexpr ParamSpec kEmptyDoc = {.name = "empty_doc",
                                        .id = MSJ_PARAM_EMPTY_DOC,
                                        .is_double = false,
                                        .default_int = MSJ_EMPTY_DOC_ZERO,
                                        .min_int = MSJ_EMPTY_DOC_ZERO,
                                        .max_int = MSJ_EMPTY_DOC_NEG_INF,
                                        .values = kEmptyDocValues,
                                        .doc = "what a document without an active token scores"};

}  // namespace msj::ops
