// A tensor in device memory, laid out as a test wants it, between guard zones; every byte that is no element is poison.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "gpu/gpu.h"
#include "gpu/oracle_task.h"
#include "maxsim_jit/maxsim_jit.hpp"

namespace msj::gpu {

enum class Placing : std::uint8_t { contiguous, padded, offset_one, odd_rows, inner_two };
inline constexpr std::array<Placing, 5> kPlacings = {Placing::contiguous, Placing::padded, Placing::offset_one,
                                                     Placing::odd_rows, Placing::inner_two};
[[nodiscard]] std::string name(Placing placing);

// Where the elements of a tensor lie, apart from any memory.
struct Placement {
  DType dtype = DType::f32;
  int rank = 0;
  std::array<std::int64_t, 3> shape = {1, 1, 1};
  std::array<std::int64_t, 3> strides = {0, 0, 0};
  std::int64_t offset = 0;  // elements past the allocation's alignment

  [[nodiscard]] std::int64_t elements() const { return shape[0] * shape[1] * shape[2]; }
  [[nodiscard]] std::int64_t span() const;  // elements from the first to past the last
  // The tensor at `base`, which is aligned as memory from the driver is.
  [[nodiscard]] maxsim_jit::Tensor tensor(const void *base) const;
  [[nodiscard]] View view(void *base) const;
};

// `padded`: rows of multiples of 16 bytes, some unused; `odd_rows`: rows that no 16 bytes divide.
[[nodiscard]] Placement place(DType dtype, const std::vector<std::int64_t> &shape, Placing placing);

inline constexpr unsigned char kInputPoison = 0xFF;  // NaN in every float, kept in masks, -1 in lengths
inline constexpr unsigned char kResultPoison = 0xA5;
inline constexpr int kPoisonedWord = static_cast<int>(0xA5A5A5A5U);

class Operand {
 public:
  // `guard` bytes before and behind, a multiple of 256.
  Operand(const Placement &placement, unsigned char poison, std::size_t guard, CUcontext context = nullptr);

  [[nodiscard]] const Placement &placement() const { return placement_; }
  [[nodiscard]] const DeviceBytes &memory() const { return memory_; }
  [[nodiscard]] maxsim_jit::Tensor tensor() const { return placement_.tensor(memory_.get() + guard_); }
  [[nodiscard]] View view() const { return placement_.view(memory_.get() + guard_); }
  void poison() const { memory_.fill(poison_); }

  // All memory, guards too, on the host, and the same view of it.
  [[nodiscard]] std::vector<char> download() const;
  [[nodiscard]] maxsim_jit::Tensor tensor_in(std::vector<char> &host) const {
    return placement_.tensor(host.data() + guard_);
  }

  // The elements in C order.
  template <typename T>
  [[nodiscard]] std::vector<T> elements() const {
    const std::vector<char> host = download();
    return gather<T>(host);
  }
  template <typename T>
  [[nodiscard]] std::vector<T> gather(const std::vector<char> &host) const {
    std::vector<T> values;
    values.reserve(static_cast<std::size_t>(placement_.elements()));
    for_each([&](std::int64_t at) {
      T value;
      std::memcpy(&value, host.data() + guard_ + static_cast<std::size_t>(at) * sizeof(T), sizeof(T));
      values.push_back(value);
    });
    return values;
  }
  // Writes all elements, given in C order.
  template <typename T>
  void set(const std::vector<T> &values) const {
    std::vector<char> host(memory_.bytes(), static_cast<char>(poison_));
    std::size_t next = 0;
    for_each([&](std::int64_t at) {
      std::memcpy(host.data() + guard_ + static_cast<std::size_t>(at) * sizeof(T), &values.at(next++), sizeof(T));
    });
    memory_.upload(host.data());
  }

 private:
  template <typename Body>
  void for_each(const Body &body) const {
    const auto &p = placement_;
    for (std::int64_t a = 0; a < p.shape[0]; ++a) {
      for (std::int64_t b = 0; b < p.shape[1]; ++b) {
        for (std::int64_t c = 0; c < p.shape[2]; ++c) {
          body(p.offset + a * p.strides[0] + b * p.strides[1] + c * p.strides[2]);
        }
      }
    }
  }

  Placement placement_;
  unsigned char poison_;
  std::size_t guard_;
  DeviceBytes memory_;
};

// ---- names --------------------------------------------------------------------------------------------------------

inline std::string name(Placing placing) {
  constexpr std::array<const char *, 5> kNames = {"contiguous", "padded rows", "offset by one", "odd row stride",
                                                  "inner stride 2"};
  return kNames[static_cast<std::size_t>(placing)];
}

// ---- placement ------------------------------------------------------------------------------------------------------

inline std::int64_t Placement::span() const {
  std::int64_t last = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    if (shape[i] == 0) return 0;
    last += (shape[i] - 1) * strides[i];
  }
  return last + 1;
}

inline maxsim_jit::Tensor Placement::tensor(const void *base) const {
  const auto *first = static_cast<const char *>(base) + offset * bytes(dtype);
  const auto count = static_cast<std::size_t>(rank);
  return maxsim_jit::Tensor(first, static_cast<maxsim_jit::DType>(dtype), shape.data(), count)
      .with_strides(strides.data(), count);
}

inline View Placement::view(void *base) const {
  View view{static_cast<char *>(base) + offset * bytes(dtype), {}, {}};
  for (std::size_t i = 0; i < 3; ++i) {
    view.shape[i] = shape[i];
    view.stride[i] = strides[i];
  }
  return view;
}

inline Placement place(DType dtype, const std::vector<std::int64_t> &shape, Placing placing) {
  Placement placement;
  placement.dtype = dtype;
  placement.rank = static_cast<int>(shape.size());
  const std::int64_t unit = 16 / bytes(dtype);  // elements in 16 bytes
  std::int64_t stride = placing == Placing::inner_two ? 2 : 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    placement.shape[i] = shape[i];
    placement.strides[i] = stride;
    stride *= std::max<std::int64_t>(shape[i], 1);
    if (i + 1 != shape.size()) continue;
    if (placing == Placing::padded) stride = (stride + unit - 1) / unit * unit + unit;
    if (placing == Placing::odd_rows) stride += stride % 2 == 0 ? 1 : 2;
  }
  placement.offset = placing == Placing::offset_one ? 1 : 0;
  return placement;
}

// ---- operand --------------------------------------------------------------------------------------------------------

inline Operand::Operand(const Placement &placement, unsigned char poison, std::size_t guard, CUcontext context)
    : placement_(placement),
      poison_(poison),
      guard_(guard),
      memory_(2 * guard + static_cast<std::size_t>((placement.offset + placement.span()) * bytes(placement.dtype)),
              context) {
  memory_.fill(poison);
}

inline std::vector<char> Operand::download() const {
  std::vector<char> host(memory_.bytes());
  memory_.download(host.data());
  return host;
}

}  // namespace msj::gpu
