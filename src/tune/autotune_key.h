// The key of an autotune entry: op, shape bucket, canonical dtype tuple, and nothing else.
//
// There is no constructor that takes a feature set, a layout class, an operand or its presence, so an entry can't be
// split by one. The dtype tuple can only be made from the op's table and the dtypes of required operands.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>

#include "base/op_spec.h"
#include "tune/bucket.h"

namespace msj::tune {

// One dtype for every operand in declared order, present or absent.
class DtypeTuple {
 public:
  // `own`: the dtypes of the operands whose rule is `own`, in order. Throws Error(MSJ_ERROR_INVALID_ARGUMENT) for a
  // dtype that the table does not accept, or a wrong count.
  DtypeTuple(const OpSpec &op, std::span<const DType> own);

  [[nodiscard]] std::span<const DType> all() const { return {dtypes_.data(), count_}; }
  [[nodiscard]] const std::array<DType, kMaxOperands> &array() const { return dtypes_; }
  friend bool operator==(const DtypeTuple &, const DtypeTuple &) = default;

 private:
  std::array<DType, kMaxOperands> dtypes_{};
  std::size_t count_ = 0;
};

// The text of a key, of those of its parts: "Nq1-…-d128-bf16-bf16-i8-…".
[[nodiscard]] std::string key_text(std::string_view bucket, std::span<const std::string_view> dtypes);

class AutotuneKey {
 public:
  AutotuneKey(const OpSpec &op, const ShapeBucket &bucket, const DtypeTuple &dtypes)
      : op_(&op), bucket_(bucket), dtypes_(dtypes) {}

  [[nodiscard]] const OpSpec &op() const { return *op_; }
  [[nodiscard]] const ShapeBucket &bucket() const { return bucket_; }
  [[nodiscard]] const DtypeTuple &dtypes() const { return dtypes_; }
  [[nodiscard]] std::string text() const;  // the file's name, without ".json"
  friend bool operator==(const AutotuneKey &, const AutotuneKey &) = default;

 private:
  const OpSpec *op_;
  ShapeBucket bucket_;
  DtypeTuple dtypes_;
};

}  // namespace msj::tune
