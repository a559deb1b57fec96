// A specialization's text and key: whatever it is made of changes them, and nothing else does.
#include <doctest/doctest.h>

#include <set>

#include "jit/specialization.h"
#include "support/op_calls.h"
#include "tune/space.h"

using namespace msj;
using namespace msj::testing;

namespace {

jit::Specialization specialization() {
  const OpSpec &op = *ops::find_op("dense_forward")->spec;
  jit::Specialization made;
  made.op = &op;
  made.config = tune::CandidateSpace::embedded(op).candidates.front().config;
  made.features = 0b0001;
  const tune::DtypeTuple dtypes(op, std::array{DType::bf16});
  made.dtypes = dtypes.array();
  made.static_sizes[4] = 128;
  made.architecture = cuda::parse_architecture("sm_90a");
  return made;
}

std::vector<jit::Specialization> variants() {
  const jit::Specialization base = specialization();
  std::vector<jit::Specialization> all = {base};
  const auto with = [&](auto change) {
    all.push_back(base);
    change(all.back());
  };
  for (int f = 0; f < base.op->feature_count(); ++f) with([&](auto &s) { s.features ^= 1U << f; });
  for (const auto &[tunable, value] : base.config.tunables) with([&](auto &s) { s.config.tunables[tunable] += 1; });
  with([](auto &s) { s.layout = Layout::any; });
  with([](auto &s) { s.static_sizes[4] = 144; });
  with([](auto &s) { s.dtypes[0] = s.dtypes[1] = DType::f16; });
  with([](auto &s) { s.architecture = cuda::parse_architecture("sm_80"); });
  return all;
}

}  // namespace

TEST_CASE("every part makes another key and another text") {
  jit::KernelSources sources("");
  std::set<std::string> keys;
  std::set<std::string> texts;
  const auto all = variants();
  for (const jit::Specialization &each : all) {
    keys.insert(each.key());
    texts.insert(jit::translation_unit(each, sources));
  }
  CHECK(keys.size() == all.size());
  CHECK(texts.size() == all.size());
}

TEST_CASE("run-time sizes are no part of it") {
  jit::KernelSources sources("");
  const jit::Specialization base = specialization();
  jit::Specialization other = base;
  for (const std::size_t size : {0, 1, 2, 3}) other.static_sizes[size] = 77;
  CHECK(other.key() == base.key());
  CHECK(jit::translation_unit(other, sources) == jit::translation_unit(base, sources));
}

TEST_CASE("the prologue states what the host chose") {
  jit::KernelSources sources("");
  const std::string text = jit::translation_unit(specialization(), sources);
  for (const char *line : {"constexpr int target_arch = 900;", "constexpr bool aligned16 = true;",
                           "constexpr bool q_mask = true;", "constexpr bool d_mask = false;", "constexpr int d = 128;",
                           "constexpr DType q = DType::bf16;", "constexpr DType q_mask = DType::i8;",
                           "constexpr DType scores = DType::f32;", "void *workspace;", "long long param_empty_doc;"}) {
    CAPTURE(line);
    CHECK(text.find(line) != std::string::npos);
  }
  CHECK(text.find("#include") == std::string::npos);
  CHECK(text.find(MSJ_SOURCE_DIR) == std::string::npos);
}

TEST_CASE("options hold no path and no version") {
  for (const std::string &option : jit::compile_options()) CHECK(option.find('/') == std::string::npos);
}
