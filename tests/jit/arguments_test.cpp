// The bytes that a kernel is given are those of the Args struct that its prologue declares: the same fields in the same
// order, 8 bytes each.
#include <doctest/doctest.h>

#include <sstream>

#include "jit/arguments.h"
#include "jit/specialization.h"
#include "ops/bind.h"
#include "support/op_calls.h"
#include "support/scratch.h"

using namespace msj;
using namespace msj::testing;

namespace {

// The fields of `struct Args` in an op's generated prologue: "q.data", "q.stride[0]", …, "size_Nq", …
std::vector<std::string> declared_fields(const OpSpec &op, const PathSpec &declaring) {
  const ScratchDirectory kernels;
  for (const PathSpec &path : op.paths) {
    write_text(kernels / (std::string(op.name) + "." + std::string(path.name) + ".cu"), "");
  }
  jit::KernelSources sources(kernels.path());
  jit::Specialization specialization;
  specialization.op = &op;
  specialization.config.path = declaring.name;
  specialization.dtypes.fill(DType::f32);
  specialization.architecture = cuda::parse_architecture("sm_80");
  const std::string text = jit::translation_unit(specialization, sources);
  const std::size_t start = text.find("struct Args {");
  REQUIRE(start != std::string::npos);
  std::istringstream lines(text.substr(start, text.find("};", start) - start));
  std::vector<std::string> fields;
  std::string line;
  std::getline(lines, line);
  while (std::getline(lines, line)) {
    line.erase(0, line.find_first_not_of(' '));
    const std::string name = line.substr(line.find_last_of(" *") + 1, line.size() - line.find_last_of(" *") - 2);
    if (line.starts_with("TensorMap ")) {
      while (fields.size() % 8 != 0) fields.emplace_back("");  // the struct is aligned to 64 bytes
      for (int word = 0; word < 16; ++word) fields.push_back(name + ".word[" + std::to_string(word) + "]");
    } else if (line.starts_with("Operand<")) {
      fields.push_back(name + ".data");
      const int rank = std::stoi(line.substr(8));
      for (int r = 0; r < rank; ++r) fields.push_back(name + ".stride[" + std::to_string(r) + "]");
    } else {
      CHECK((line.starts_with("long long ") || line.starts_with("double ") || line.starts_with("void *")));
      fields.push_back(name);
    }
  }
  return fields;
}

}  // namespace

TEST_CASE("arguments mirror the prologue's Args, field by field") {
  for (const ops::Op &op : ops::all_ops()) {
    CAPTURE(op.spec->name);
    const auto fields = declared_fields(*op.spec, op.spec->paths.front());
    CallShape shape = small_call(*op.spec, op.spec->all_features(), Strides::odd_rows);
    shape.featureless = true;
    OpCall call(shape);
    BoundCall bound = ops::bind(call.call(), ops::DataRule::needed);
    for (std::size_t p = 0; p < op.spec->params.size(); ++p) bound.params[p] = 1000 + static_cast<std::int64_t>(p);
    int workspace = 0;
    jit::Arguments arguments(bound, &workspace);
    REQUIRE(static_cast<std::size_t>(arguments.words()) == fields.size());
    const auto *words = static_cast<const std::uint64_t *>(*arguments.kernel_params());
    const auto word = [&](const std::string &field) {
      const auto at = std::find(fields.begin(), fields.end(), field);
      CAPTURE(field);
      REQUIRE(at != fields.end());
      return words[at - fields.begin()];
    };
    for (std::size_t i = 0; i < op.spec->operands.size(); ++i) {
      const std::string name(op.spec->operands[i].name);
      CHECK(word(name + ".data") == reinterpret_cast<std::uintptr_t>(call.tensor(i).data));
      for (int r = 0; r < op.spec->operands[i].rank; ++r) {
        CHECK(word(name + ".stride[" + std::to_string(r) + "]") ==
              static_cast<std::uint64_t>(call.tensor(i).strides[r]));
      }
    }
    for (std::size_t i = 0; i < op.spec->sizes.size(); ++i) {
      CHECK(word("size_" + std::string(op.spec->sizes[i].name)) == static_cast<std::uint64_t>(shape.sizes[i]));
    }
    for (std::size_t p = 0; p < op.spec->params.size(); ++p) {
      CHECK(word("param_" + std::string(op.spec->params[p].name)) == 1000 + p);
    }
    CHECK(word("workspace") == reinterpret_cast<std::uintptr_t>(&workspace));
  }
}

TEST_CASE("an absent operand is null") {
  const OpSpec &op = *ops::find_op("dense_forward")->spec;
  OpCall call(small_call(op));
  BoundCall bound = ops::bind(call.call(), ops::DataRule::needed);
  jit::Arguments arguments(bound, nullptr);
  const auto *words = static_cast<const std::uint64_t *>(*arguments.kernel_params());
  CHECK(words[8] == 0);                      // q_mask, after q and d of four words each
  CHECK(words[arguments.words() - 1] == 0);  // workspace
}

TEST_CASE("a present operand without elements is told from an absent one, whatever strides it came with") {
  const OpSpec &op = *ops::find_op("residual_norms")->spec;
  CallShape shape = small_call(op);
  shape.sizes[static_cast<std::size_t>(find_named(op.sizes, "Nd"))] = 0;
  for (const bool present : {true, false}) {
    shape.featureless = present;
    OpCall call(shape);
    for (const char *name : {"d_starts", "d_lengths"}) {
      if (present) call.tensor(name).data = nullptr, call.tensor(name).strides[0] = 0;
    }
    const BoundCall bound = ops::bind(call.call(), ops::DataRule::needed);
    jit::Arguments arguments(bound, nullptr);
    const auto *words = static_cast<const std::uint64_t *>(*arguments.kernel_params());
    std::size_t at = 0;  // of d_starts
    for (int i = 0; i < MSJ_RESIDUAL_NORMS_D_STARTS; ++i)
      at += 1 + static_cast<std::size_t>(op.operands[static_cast<std::size_t>(i)].rank);
    CHECK(words[at] == 0);
    CHECK((words[at + 1] != 0) == present);
  }
}

// The toolkit's header may align its own type more.
TEST_CASE("a tensor map lies at the next multiple of 64 bytes, however many words an op has before it") {
  for (const ops::Op &op : ops::all_ops()) {
    CAPTURE(op.spec->name);
    OpCall call(small_call(*op.spec));
    jit::Arguments arguments(ops::bind(call.call(), ops::DataRule::needed), nullptr);
    const int first = (arguments.words() + 7) / 8 * 8;
    CUtensorMap map{};
    map.opaque[0] = 77;
    arguments.add(map);
    CHECK(arguments.words() == first + 16);
    CHECK(static_cast<const std::uint64_t *>(*arguments.kernel_params())[first] == 77);
  }
}

TEST_CASE("tensor maps follow at a multiple of 64 bytes, in the table's order") {
  for (const ops::Op &op : ops::all_ops()) {
    for (const PathSpec &path : op.spec->paths) {
      CAPTURE(op.spec->name);
      CAPTURE(path.name);
      const auto fields = declared_fields(*op.spec, path);
      OpCall call(small_call(*op.spec));
      const BoundCall bound = ops::bind(call.call(), ops::DataRule::needed);
      jit::Arguments arguments(bound, nullptr);
      for (std::size_t m = 0; m < path.tensor_maps.size(); ++m) {
        CUtensorMap map{};
        for (std::size_t w = 0; w < 16; ++w) map.opaque[w] = 100 * (m + 1) + w;
        arguments.add(map);
      }
      REQUIRE(static_cast<std::size_t>(arguments.words()) == fields.size());
      const auto *words = static_cast<const std::uint64_t *>(*arguments.kernel_params());
      for (std::size_t m = 0; m < path.tensor_maps.size(); ++m) {
        const OperandSpec &operand = op.spec->operands[static_cast<std::size_t>(path.tensor_maps[m].operand)];
        CHECK(operand.streamed);
        const auto first = std::find(fields.begin(), fields.end(), "map_" + std::string(operand.name) + ".word[0]");
        REQUIRE(first != fields.end());
        for (std::size_t w = 0; w < 16; ++w) {
          CHECK(words[static_cast<std::size_t>(first - fields.begin()) + w] == 100 * (m + 1) + w);
        }
      }
    }
  }
}
