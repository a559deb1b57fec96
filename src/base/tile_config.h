// A tile config: the tunables of one candidate, by name. Which names exist is the op's table's business.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace msj {

// Values by name, in the order of the names. One array: every launch reads some of them.
class Tunables {
 public:
  using Value = std::pair<std::string, int>;

  Tunables() = default;
  Tunables(std::initializer_list<Value> values) {
    for (const auto &[name, value] : values) (*this)[name] = value;
  }

  // The value of this name, 0 where there was none.
  int &operator[](std::string_view name) {
    auto at = std::find_if(values_.begin(), values_.end(), [&](const Value &value) { return value.first >= name; });
    if (at == values_.end() || at->first != name) at = values_.insert(at, {std::string(name), 0});
    return at->second;
  }
  [[nodiscard]] bool contains(std::string_view name) const { return find(name) != nullptr; }
  // Null: there is none.
  [[nodiscard]] const int *find(std::string_view name) const {
    for (const Value &value : values_) {
      if (value.first == name) return &value.second;
    }
    return nullptr;
  }
  [[nodiscard]] auto begin() const { return values_.begin(); }
  [[nodiscard]] auto end() const { return values_.end(); }
  friend bool operator==(const Tunables &, const Tunables &) = default;
  friend auto operator<=>(const Tunables &, const Tunables &) = default;

 private:
  std::vector<Value> values_;
};

struct TileConfig {
  std::string path;  // kernel path: kernels/<op>.<path>.cu
  Tunables tunables;

  // Of a config whose names were checked against its path's.
  [[nodiscard]] int at(std::string_view tunable) const { return *tunables.find(tunable); }
  friend bool operator==(const TileConfig &, const TileConfig &) = default;
  friend auto operator<=>(const TileConfig &, const TileConfig &) = default;
};

// "portable block_doc=64 block_query=32 …": for logs and rejections.
[[nodiscard]] std::string to_string(const TileConfig &config);

}  // namespace msj
