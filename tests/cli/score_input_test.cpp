#include "cli/score_input.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <numeric>

#include "cli/convert.h"
#include "cli/failure.h"
#include "cli/made_up_ops.h"
#include "cli/npy_write.h"
#include "support/scratch.h"

using namespace msj::cli;
using namespace msj::testing;
using Shape = std::vector<std::int64_t>;

namespace {

struct Files {
  ScratchDirectory directory;
  std::vector<OpInfo> ops = made_up_ops();
  std::unique_ptr<std::FILE, int (*)(std::FILE *)> sink{std::tmpfile(), std::fclose};
  Console console{sink.get(), false};

  // Zeros of a type and shape, but for the bytes given.
  std::string write(const std::string &name, NpyType type, const Shape &shape, std::vector<std::byte> data = {}) {
    std::int64_t elements = 1;
    for (const std::int64_t size : shape) elements *= size;
    data.resize(static_cast<std::size_t>(elements * bytes(type)));
    write_npy(directory / name, type, shape, data);
    return directory / name;
  }

  HostTensor load(const std::string &operand, const std::string &file, std::optional<DType> wanted = {},
                  std::size_t op = 0) {
    return load_operand(*ops[op].find_operand(operand), file, wanted, console);
  }

  std::string refusal(const std::string &operand, NpyType type, std::optional<DType> wanted = {}, std::size_t op = 0) {
    const std::string file = write("refused.npy", type, {1, 2, 3});
    return sentence_of<Failure>([&] { static_cast<void>(load(operand, file, wanted, op)); });
  }

  std::string said() {
    std::rewind(sink.get());
    std::string text(10000, '\0');
    text.resize(std::fread(text.data(), 1, text.size(), sink.get()));
    return text;
  }
};

template <typename T>
std::vector<std::byte> bytes_of(const std::vector<T> &values) {
  std::vector<std::byte> result(values.size() * sizeof(T));
  std::memcpy(result.data(), values.data(), result.size());
  return result;
}

std::string binding_refusal(const OpInfo &op, std::vector<HostTensor> tensors) {
  return sentence_of<Failure>([&] { static_cast<void>(bind_sizes(op, tensors)); });
}

}  // namespace

TEST_CASE("the dtype is the file's") {
  Files files;
  const HostTensor q = files.load("q", files.write("q.npy", NpyType::f16, {2, 3, 4}));
  CHECK(q.dtype == DType::f16);
  CHECK(q.shape == Shape{2, 3, 4});
  CHECK(q.strides == Shape{12, 4, 1});
  CHECK(q.bytes() == 48);
  CHECK(contains(q.source, "--q "));
  for (const NpyType type : {NpyType::boolean, NpyType::u8, NpyType::i8}) {
    CHECK(files.load("d_mask", files.write("m.npy", type, {2, 3})).dtype == *dtype_of(type));
  }
  CHECK(files.said().empty());
}

TEST_CASE("float64 is converted with a note, others on request") {
  Files files;
  const std::string wide = files.write("w.npy", NpyType::f64, {1, 1, 2}, bytes_of<double>({1.5, 0.1}));
  const HostTensor q = files.load("q", wide);
  CHECK(q.dtype == DType::f32);
  float values[2];
  std::memcpy(values, q.data, sizeof values);
  CHECK(values[0] == 1.5F);
  CHECK(values[1] == 0.1F);
  CHECK(contains(files.said(), "holds float64: converted to f32"));
  CHECK(files.load("q", wide, DType::bf16).dtype == DType::bf16);
  CHECK(files.load("d", files.write("h.npy", NpyType::f16, {1, 1, 2}), DType::f32).dtype == DType::f32);
}

TEST_CASE("values lost to the range are told") {
  Files files;
  const std::string file = files.write("q.npy", NpyType::f32, {1, 1, 2}, bytes_of<float>({1.0F, 1e6F}));
  static_cast<void>(files.load("q", file, DType::f16));
  CHECK(contains(files.said(), "values beyond the range of f16, now infinite: 1"));
}

TEST_CASE("bytes are what --dtype says, where the op takes it") {
  Files files;
  const std::string file = files.write("q.npy", NpyType::u8, {1, 1, 2}, {std::byte{0x38}, std::byte{0xb8}});
  const HostTensor q = files.load("q", file, DType::fp8_e4m3, 1);
  CHECK(q.dtype == DType::fp8_e4m3);
  CHECK(q.data[1] == std::byte{0xb8});
  CHECK(contains(files.refusal("q", NpyType::u8), "holds uint8; bf16, f16, f32 is accepted for q"));
  CHECK(contains(files.refusal("q", NpyType::u8, DType::bf16), "holds uint8"));
  CHECK(contains(files.refusal("q", NpyType::u8, {}, 1), "--dtype fp8_e4m3"));
}

TEST_CASE("bf16 kept as uint16 is what --dtype says, or how to say it is said") {
  Files files;
  const std::string file = files.write("q.npy", NpyType::u16, {1, 1, 2}, bytes_of<std::uint16_t>({0x3f80, 0x4000}));
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const HostTensor q = files.load("q", file, dtype);
    CHECK(q.dtype == dtype);
    CHECK(q.data[3] == std::byte{0x40});
  }
  CHECK(contains(files.refusal("q", NpyType::u16),
                 "holds uint16; bf16, f16, f32 is accepted for q, or uint16 with "
                 "--dtype bf16 or f16, which says what they are"));
  CHECK(contains(files.refusal("q", NpyType::u16, DType::f32), "--dtype bf16 or f16"));
  CHECK(contains(files.refusal("d_mask", NpyType::u16, DType::bf16), "holds uint16; bool, u8, i8 is accepted"));
}

TEST_CASE("other dtypes are refused with file, dtype and what is accepted") {
  Files files;
  CHECK(contains(files.refusal("q", NpyType::i64), "refused.npy holds int64; bf16, f16, f32 is accepted for q"));
  CHECK(contains(files.refusal("q", NpyType::i64, DType::bf16), "holds int64"));
  CHECK(contains(files.refusal("d_mask", NpyType::i32), "holds int32; bool, u8, i8 is accepted for d_mask"));
  CHECK(contains(files.refusal("d_lengths", NpyType::f32), "holds float32; i32 is accepted"));
  CHECK(contains(files.refusal("q", NpyType::f16, {}, 1), "--dtype converts"));
}

TEST_CASE("fixed dtypes: lengths of int64 and scales of any float") {
  Files files;
  const auto file = files.write("l.npy", NpyType::i64, {2}, bytes_of<std::int64_t>({3, -1}));
  const HostTensor lengths = files.load("d_lengths", file);
  CHECK(lengths.dtype == DType::i32);
  std::int32_t second = 0;
  std::memcpy(&second, lengths.data + 4, sizeof second);
  CHECK(second == -1);
  CHECK(files.load("scale_q", files.write("s.npy", NpyType::f16, {1}), DType::fp8_e4m3, 1).dtype == DType::f32);
}

TEST_CASE("data at an odd byte of its file is aligned") {
  Files files;
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 2), }";
  const std::vector<float> values = {2.5F, -1.0F};
  std::string text = "\x93NUMPY";
  text += {'\x01', '\x00', static_cast<char>(header.size() + 1), '\x00'};
  if ((text.size() + header.size() + 1) % 2 == 0) {
    header += ' ';
    text[8] = static_cast<char>(header.size() + 1);
  }
  text += header + "\n";
  REQUIRE(text.size() % 2 == 1);
  text.append(reinterpret_cast<const char *>(values.data()), 8);
  std::ofstream(files.directory / "odd.npy", std::ios::binary) << text;
  const HostTensor q = files.load("q", files.directory / "odd.npy");
  CHECK(reinterpret_cast<std::uintptr_t>(q.data) % 4 == 0);
  CHECK(std::equal(q.data, q.data + 8, bytes_of(values).begin()));
}

TEST_CASE("sizes come from the files and must agree") {
  Files files;
  const HostTensor q = files.load("q", files.write("q.npy", NpyType::f16, {2, 3, 16}));
  const HostTensor d = files.load("d", files.write("d.npy", NpyType::f16, {5, 7, 16}));
  std::vector<HostTensor> tensors = {q, d};
  CHECK(bind_sizes(files.ops[0], tensors) == SizeMap{{"Nq", 2}, {"Lq", 3}, {"d", 16}, {"Nd", 5}, {"Ld", 7}});
  const HostTensor narrow = files.load("d", files.write("e.npy", NpyType::f16, {5, 7, 8}));
  const std::string sentence = binding_refusal(files.ops[0], {q, narrow});
  CHECK(contains(sentence, "e.npy has shape [5, 7, 8], which makes d = 8, but --q "));
  CHECK(contains(sentence, "q.npy makes it 16; [Nd, Ld, d] is accepted for d"));
  const HostTensor wrong_rank = files.load("d", files.write("f.npy", NpyType::f16, {7}));
  CHECK(contains(binding_refusal(files.ops[0], {q, wrong_rank}), "f.npy has shape [7]; [Nd, Ld, d] is accepted for d"));
  CHECK(contains(binding_refusal(files.ops[0], {q}), "no file gives the size Nd"));
  const HostTensor other = files.load("d", files.write("g.npy", NpyType::f32, {5, 7, 16}));
  CHECK(contains(binding_refusal(files.ops[0], {q, other}), "holds f32, but --q "));
}

TEST_CASE("a lone query or document needs no leading dimension") {
  Files files;
  std::vector<HostTensor> tensors = {files.load("q", files.write("q.npy", NpyType::f16, {3, 16})),
                                     files.load("d", files.write("d.npy", NpyType::f16, {7, 16})),
                                     files.load("d_mask", files.write("m.npy", NpyType::boolean, {7})),
                                     files.load("d_lengths", files.write("l.npy", NpyType::i32, {}))};
  const SizeMap sizes = bind_sizes(files.ops[0], tensors);
  CHECK(sizes.at("Nq") == 1);
  CHECK(sizes.at("Nd") == 1);
  CHECK(tensors[1].shape == Shape{1, 7, 16});
  CHECK(tensors[1].strides.size() == 3);
  CHECK(tensors[3].shape == Shape{1});
  // The message shows the file's own shape.
  tensors[2] = files.load("d_mask", files.write("m.npy", NpyType::boolean, {8}));
  tensors[0] = files.load("q", files.directory / "q.npy");
  tensors[1] = files.load("d", files.directory / "d.npy");
  CHECK(contains(binding_refusal(files.ops[0], tensors), "m.npy has shape [8], which makes Ld = 8"));
}

TEST_CASE("one scale for a tensor binds no size") {
  Files files;
  const HostTensor q = files.load("q", files.write("q.npy", NpyType::u8, {2, 3, 16}), DType::fp8_e4m3, 1);
  const HostTensor d = files.load("d", files.write("d.npy", NpyType::u8, {3, 16}), DType::fp8_e5m2, 1);
  const HostTensor scale = files.load("scale_q", files.write("s.npy", NpyType::f32, {1}), {}, 1);
  std::vector<HostTensor> tensors = {q, d, scale};
  CHECK(bind_sizes(files.ops[1], tensors) == SizeMap{{"Nq", 2}, {"Lq", 3}, {"d", 16}});
  CHECK(tensors[2].shape == Shape{1});
}
