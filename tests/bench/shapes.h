// DESIGN section 8's dense shapes.
#pragma once

#include <array>
#include <cstdint>

namespace msj::bench {

struct Shape {
  const char *name;
  std::int64_t Nq, Nd, Lq, Ld, d;
};

inline constexpr std::array<Shape, 12> kDenseShapes = {{
    {"rerank-1k", 1, 1'000, 32, 300, 128},
    {"rerank-10k", 1, 10'000, 32, 300, 128},
    {"rerank-100k", 1, 100'000, 32, 300, 128},
    {"rerank-long", 1, 1'000, 32, 4'096, 128},
    {"colpali", 1, 1'000, 1'024, 1'024, 128},
    {"batch32-10k", 32, 10'000, 32, 300, 128},
    {"train-128", 128, 128, 32, 300, 128},
    {"train-32-1k", 32, 32, 32, 1'024, 128},
    {"colpali-train", 16, 16, 1'024, 1'024, 128},
    {"edge-d48", 1, 16'000, 32, 512, 48},
    {"d768", 1, 4'000, 32, 300, 768},
    {"colqwen-320", 1, 1'000, 32, 747, 320},
}};

}  // namespace msj::bench
