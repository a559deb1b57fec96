// What is said of a cached file's bytes by those who know what they mean: the store itself knows only files.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace msj::store {

// Made from the sentence of what is wrong, "" if the bytes are right.
struct Verdict {
  Verdict() = default;
  Verdict(std::string what) : problem(std::move(what)) {}  // NOLINT(google-explicit-constructor): checks return texts
  // Right in itself, but of another version than the one that asks.
  [[nodiscard]] static Verdict passed_over() {
    Verdict verdict;
    verdict.is_passed_over = true;
    return verdict;
  }

  std::string problem;
  bool is_passed_over = false;
};

using Check = std::function<Verdict(std::string_view bytes)>;
// The same for a file at that place below a layer's root: "v1/…".
using PlacedCheck = std::function<Verdict(const std::string &relative, std::string_view bytes)>;

}  // namespace msj::store
