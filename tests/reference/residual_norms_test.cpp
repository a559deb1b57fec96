// residual_norms on the CPU against its definition.
#include "reference/residual_norms.h"

#include <doctest/doctest.h>

#include "ops/residual_norms.h"
#include "reference/residual_case.h"

using namespace host;
using msj::DType;

namespace {

struct Norms {
  ResidualIndex index;
  Tensor inv_norms;

  Norms(std::int64_t tokens, std::int64_t d, std::int64_t nbits, bool lsb_first, DType dtype, Order order)
      : index(tokens, 5, d, nbits, lsb_first, dtype, order), inv_norms(DType::f32, {tokens}, order) {
    inv_norms.fill([] { return -7.0; });
  }

  void run(const std::vector<std::int64_t> *starts = nullptr, const std::vector<std::int32_t> *lengths = nullptr) {
    msj::BoundCall call;
    call.op = &msj::ops::residual_norms_spec();
    call.features = index.lsb_first ? 1 : 0;
    index.put_into(call);
    call.operands[MSJ_RESIDUAL_NORMS_INV_NORMS] = inv_norms.view();
    if (starts != nullptr) {
      call.sizes[static_cast<std::size_t>(msj::find_named(call.op->sizes, "Nd"))] =
          static_cast<std::int64_t>(starts->size());
      const auto put = [&](std::size_t operand, const void *data, DType dtype) {
        msj::TensorView &view = call.operands[operand];
        view.data = const_cast<void *>(data), view.dtype = dtype, view.rank = 1, view.present = true;
        view.shape[0] = static_cast<std::int64_t>(starts->size()), view.strides[0] = 1;
      };
      put(MSJ_RESIDUAL_NORMS_D_STARTS, starts->data(), DType::i64);
      put(MSJ_RESIDUAL_NORMS_D_LENGTHS, lengths->data(), DType::i32);
    }
    msj::reference::residual_norms(call);
  }

  [[nodiscard]] double wanted(std::int64_t token) const {
    double sum = 0;
    for (std::int64_t k = 0; k < index.d; ++k) sum += index.row(token, k) * index.row(token, k);
    return 1 / std::max(std::sqrt(sum), 1e-12);
  }
  [[nodiscard]] bool is_right(std::int64_t token) const {
    const auto got = static_cast<double>(inv_norms.raw<float>(token));
    const bool bad = std::isnan(index.row(token, 0));
    return bad ? std::isnan(got) : std::fabs(got - wanted(token)) <= 1e-7 * wanted(token);
  }
  [[nodiscard]] bool is_untouched(std::int64_t token) const { return inv_norms.raw<float>(token) == -7.0F; }
};

}  // namespace

TEST_CASE("residual_norms: of all tokens") {
  const std::uint64_t start = seed();
  Random random(start);
  CAPTURE(start);
  for (const int nbits : {1, 2, 4, 8}) {
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
      for (const bool lsb_first : {false, true}) {
        Norms n(pick(random, 1, 9000), pick(random, 1, 20), nbits, lsb_first, dtype,
                pick(random, 0, 1) == 0 ? Order::contiguous : Order::negative);
        n.index.fill(random, true);
        n.run();
        int wrong = 0;
        for (std::int64_t token = 0; token < n.index.N; ++token) wrong += n.is_right(token) ? 0 : 1;
        CHECK(wrong == 0);
      }
    }
  }
}

TEST_CASE("residual_norms: of documents, others stay as they are; a zero row gives 1e12") {
  Norms n(20, 8, 2, false, DType::f32, Order::contiguous);
  Random random(3);
  n.index.fill(random, false);
  n.index.weights.fill([] { return 0.0; });
  n.index.codes.set(4, 0);
  for (int k = 0; k < 8; ++k) n.index.centroids.set(k, 0.0);
  const std::vector<std::int64_t> starts = {3, 5, 19, -1, 12};
  const std::vector<std::int32_t> lengths = {4, 3, 2, 2, 0};
  n.run(&starts, &lengths);
  for (std::int64_t token = 0; token < 20; ++token) {
    CHECK((token >= 3 && token < 8 ? n.is_right(token) : n.is_untouched(token)));
  }
  CHECK(n.inv_norms.raw<float>(4) == 1e12F);
}
