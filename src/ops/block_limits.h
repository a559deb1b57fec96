#pragma once
// What every kernel's closed form shares: rows of tiles in shared memory, and what a block may have of
// threads, registers and shared memory. Pure functions; any thread.

#include <algorithm>
#include <cstdint>
#include <string>

namespace msj::ops {

inline constexpr int block_reserve = 1024;  // shared memory that the system keeps for itself per block
inline constexpr int row_padding = 16;

constexpr int divide_up(int a, int b) { return (a + b - 1) / b; }
constexpr int round_up(int a, int b) { return divide_up(a, b) * b; }
constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
constexpr std::int64_t round_up(std::int64_t a, std::int64_t b) { return divide_up(a, b) * b; }

// Bytes from one row of a tile to the next.
constexpr std::int64_t row_pitch(int width, int element_bytes) {
  return std::int64_t{width} * element_bytes + row_padding;
}

// The closed form's figures of one block, every feature on.
struct BlockUse {
  int threads = 0;
  int min_blocks = 0;  // that share a multiprocessor
  int registers = 0;   // of a thread
  std::int64_t shared_bytes = 0;
};

// "" or one sentence that says why no block has so many threads.
inline std::string thread_rejection(int threads) {
  return threads > 1024 ? std::to_string(threads) + " threads, a block has at most 1024" : std::string();
}

// "" or one sentence that says what a block of at most 1,024 threads has too much of.
// shared_limit_bytes: what one block may have (the multiprocessor has 1 KB more).
inline std::string block_rejection(const BlockUse &use, std::int64_t shared_limit_bytes) {
  const std::int64_t threads = std::int64_t{use.threads} * use.min_blocks;
  const std::int64_t register_limit = std::min<std::int64_t>(255, 65536 / threads / 8 * 8);
  if (use.registers > register_limit)
    return "about " + std::to_string(use.registers) + " registers a thread, min_blocks leaves " +
           std::to_string(register_limit);
  if ((use.shared_bytes + block_reserve) * use.min_blocks > shared_limit_bytes + block_reserve)
    return std::to_string(use.min_blocks) + " block(s) of " + std::to_string(use.shared_bytes) +
           " bytes of shared memory do not fit, a block may have " + std::to_string(shared_limit_bytes);
  return {};
}

}  // namespace msj::ops
