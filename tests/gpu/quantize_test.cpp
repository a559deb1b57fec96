// fp8_quantize: codes and scales are the CPU's bit for bit, for every dtype, one scale or one a token, any layout, and
// numbers of every kind: subnormals, rows of zeros, NaN, infinities, scales at their floor.
#include <doctest/doctest.h>

#include <map>
#include <set>

#include "gpu/op_judge.h"
#include "gpu/op_shapes.h"
#include "support/scratch.h"

using namespace msj;
using namespace msj::gpu;

namespace {

constexpr double kMostElements = 2'000'000;
constexpr std::array<DType, 3> kFrom = {DType::bf16, DType::f16, DType::f32};
constexpr std::array<DType, 2> kTo = {DType::fp8_e4m3, DType::fp8_e5m2};

// A few widths more than once, so that one specialization meets several shapes.
std::int64_t dimension(OpShapes &shapes) {
  constexpr std::array<std::int64_t, 6> kUsual = {128, 96, 40, 384, 1'024, 4'096};
  if (shapes.one_in(2)) return kUsual[static_cast<std::size_t>(shapes.whole(0, 5))];
  return shapes.whole(1, shapes.one_in(8) ? 4'096 : 300);
}

std::vector<OpProblem> problems() {
  OpShapes shapes(test_seed());
  std::vector<OpProblem> all;
  for (const DType from : kFrom) {
    for (const DType to : kTo) {
      for (const FeatureSet features : {0U, 1U}) {
        for (const Placing placing : kPlacings) {
          for (const Fill fill : {Fill::random, Fill::wide, Fill::special, Fill::special}) {
            OpProblem p;
            p.op = &op_of(MSJ_FP8_QUANTIZE);
            p.own = {from, to};
            p.features = features;
            p.fill = fill;
            const std::int64_t d = dimension(shapes);
            const double most = is_quick() ? 20'000 : kMostElements;
            const std::int64_t tokens = shapes.tokens(most / static_cast<double>(d));
            const std::int64_t L = shapes.tokens(static_cast<double>(std::min<std::int64_t>(tokens, 3'000)));
            p.resize({{"N", tokens / L}, {"L", L}, {"d", d}});
            p.streamed = placing;
            p.others = shapes.placing();
            p.seed = static_cast<std::uint64_t>(shapes.whole(1, 1'000'000'000));
            all.push_back(p);
          }
        }
      }
    }
  }
  return all;
}

}  // namespace

TEST_CASE("codes and scales of fp8_quantize are the CPU's bit for bit") {
  const testing::ScratchDirectory cache;
  const maxsim_jit::Context context({.cache_dir = cache.path(), .tune = "off"});
  const std::vector<OpProblem> all = problems();
  in_parallel(all.size(), [&](std::size_t i) { maxsim_jit::prepare(context, all[i].call_to_prepare()); });
  std::size_t elements = 0;
  std::map<DType, std::set<std::uint32_t>> codes;
  std::set<std::uint32_t> scales;
  for (const OpProblem &p : all) {
    CAPTURE(p.text());
    OpInstance instance(p);
    const OpResults got = instance.run(context.get());
    CHECK(difference(p, got, instance.reference(context.get())) == "");
    CHECK(instance.damage() == "");
    elements += got[MSJ_FP8_QUANTIZE_QUANTIZED].size();
    for (const std::uint32_t code : got[MSJ_FP8_QUANTIZE_QUANTIZED]) codes[p.own[1]].insert(code);
    scales.insert(got[MSJ_FP8_QUANTIZE_SCALES].begin(), got[MSJ_FP8_QUANTIZE_SCALES].end());
  }
  // Both dtypes: every finite code of either sign, and the one NaN (a saturated result has no infinity).
  CHECK(codes[DType::fp8_e4m3].size() == 2 * 127 + 1);
  CHECK(codes[DType::fp8_e5m2].size() == 2 * 124 + 1);
  CHECK(scales.contains(std::bit_cast<std::uint32_t>(1.0F)));
  CHECK(scales.contains(std::bit_cast<std::uint32_t>(0x1p-100F)));
  fmt::print("quantize: {} problems, {} elements, {} scales bit-equal to the CPU, {} compiles, seed {}\n", all.size(),
             elements, scales.size(), context.stats().nvrtc_invocations, test_seed());
}
