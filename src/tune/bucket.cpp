#include "tune/bucket.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "tune/embedded_configs.h"

namespace msj::tune {

namespace {

[[noreturn]] void refuse(const std::string &reason) {
  throw_error(MSJ_ERROR_INTERNAL, "configs/buckets.json: {}", reason);
}

// With the sizes that a sweep's other sizes make.
Sizes complete(const OpSpec &op, Sizes sizes) {
  for (std::size_t i = 0; i < op.sizes.size(); ++i) {
    if (op.sizes[i].in_sweep != nullptr) sizes[i] = op.sizes[i].in_sweep(sizes);
  }
  return sizes;
}

bool fits(const OpSpec &op, const Sizes &cut, std::span<const DType> dtypes) {
  const Sizes sizes = complete(op, cut);
  return operand_bytes(op, sizes, dtypes) <= kMaxSweepBytes && op.multiply_adds(sizes) <= kMaxSweepMultiplyAdds;
}

// The largest odd size in [floor, sizes[cut]] that fits, or the floor if none does. Cost grows with every size.
std::int64_t cut_to_fit(const OpSpec &op, Sizes sizes, std::size_t cut, std::int64_t floor,
                        std::span<const DType> dtypes) {
  std::int64_t low = floor;
  std::int64_t high = sizes[cut];
  while (low < high) {
    const std::int64_t middle = low + (high - low + 1) / 2;
    sizes[cut] = middle;
    if (fits(op, sizes, dtypes)) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low > floor && low % 2 == 0 ? low - 1 : low;
}

}  // namespace

// ---- the file ------------------------------------------------------------------------------------------------------

struct BucketRules::Reader {
  static std::int64_t positive(const nlohmann::json &value, const char *what) {
    if (!value.is_number_integer() || value.get<std::int64_t>() < 1)
      refuse(fmt::format("{} is no positive integer", what));
    return value.get<std::int64_t>();
  }

  static std::vector<std::int64_t> increasing(const nlohmann::json &rule, const char *field, const std::string &size) {
    const auto list = rule.find(field);
    if (list == rule.end() || !list->is_array() || list->empty()) refuse(fmt::format("{} has no \"{}\"", size, field));
    std::vector<std::int64_t> values;
    for (const auto &value : *list) {
      values.push_back(positive(value, field));
      if (values.size() > 1 && values.back() <= values[values.size() - 2]) {
        refuse(fmt::format("\"{}\" of {} are not increasing", field, size));
      }
    }
    return values;
  }

  static std::vector<StaticStep> static_steps(const nlohmann::json &json) {
    if (!json.is_array() || json.empty()) refuse("\"static\" is no list");
    std::vector<StaticStep> steps;
    for (const auto &step : json) {
      if (!step.is_object() || !step.contains("multiple")) refuse("a step of \"static\" has no \"multiple\"");
      const bool is_last = steps.size() + 1 == json.size();
      if (step.contains("to") == is_last) refuse("every step of \"static\" but the last one has \"to\"");
      const std::int64_t to = is_last ? kMore : positive(step["to"], "to");
      steps.push_back({to, positive(step["multiple"], "multiple")});
      if (!is_last && to % steps.back().multiple != 0) refuse("\"to\" is no multiple of its \"multiple\"");
    }
    return steps;
  }

  static Edges edges(const std::string &size, const nlohmann::json &rule) {
    if (!rule.is_object()) refuse(fmt::format("the edges of {} are no object", size));
    const std::string above = rule.value("above", "");
    if (above != "more" && above != "last")
      refuse(fmt::format("\"above\" of {} is neither \"more\" nor \"last\"", size));
    Edges edges{increasing(rule, "edges", size), above == "more", increasing(rule, "representative", size)};
    if (edges.representative.size() != edges.edges.size() + (edges.more ? 1 : 0)) {
      refuse(fmt::format("{} needs one representative size for each of its buckets", size));
    }
    for (std::size_t i = 0; i < edges.representative.size(); ++i) {
      const std::int64_t chosen = edges.representative[i];
      const std::int64_t below = i == 0 ? 0 : edges.edges[i - 1];
      const std::int64_t edge = i < edges.edges.size() ? edges.edges[i] : kMore;
      if (chosen <= below || chosen > edge) refuse(fmt::format("{} of {} is not in its bucket", chosen, size));
      if (chosen % 2 == 0) refuse(fmt::format("the representative {} of {} is not odd", chosen, size));
    }
    return edges;
  }
};

BucketRules BucketRules::parse(std::string_view text) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) refuse("it is no JSON object");
  for (const char *field : {"version", "static", "edges"}) {
    if (!json.contains(field)) refuse(fmt::format("it has no \"{}\"", field));
  }
  try {
    BucketRules rules;
    rules.version_ = static_cast<int>(Reader::positive(json["version"], "version"));
    rules.static_steps_ = Reader::static_steps(json["static"]);
    for (const auto &[size, rule] : json["edges"].items()) rules.edges_[size] = Reader::edges(size, rule);
    return rules;
  } catch (const nlohmann::json::exception &error) {
    refuse(error.what());
  }
}

std::string_view BucketRules::embedded() { return config_text(embedded_configs(), "buckets.json"); }

// ---- buckets -------------------------------------------------------------------------------------------------------

std::string bucket_text(std::span<const NamedEdge> edges) {
  std::string text;
  for (const auto &[size, edge] : edges) {
    if (!text.empty()) text += '-';
    text += size + (edge == kMore ? "more" : std::to_string(edge));
  }
  return text;
}

std::string ShapeBucket::text() const {
  std::vector<NamedEdge> named;
  for (std::size_t i = 0; i < op->sizes.size(); ++i) {
    if (edges[i] != 0) named.emplace_back(op->sizes[i].name, edges[i]);
  }
  return bucket_text(named);
}

Sizes ShapeBucket::static_sizes() const {
  Sizes sizes{};
  for (std::size_t i = 0; i < op->sizes.size(); ++i) {
    if (op->sizes[i].is_static) sizes[i] = edges[i];
  }
  return sizes;
}

std::int64_t BucketRules::Edges::edge_of(std::int64_t size) const {
  const auto next = std::lower_bound(edges.begin(), edges.end(), size);
  if (next != edges.end()) return *next;
  return more ? kMore : edges.back();
}

std::size_t BucketRules::Edges::index_of(std::int64_t edge) const {
  const auto at = std::lower_bound(edges.begin(), edges.end(), edge);
  return std::min(static_cast<std::size_t>(at - edges.begin()), representative.size() - 1);
}

std::int64_t BucketRules::Edges::representative_of(std::int64_t edge) const { return representative[index_of(edge)]; }

std::int64_t BucketRules::Edges::least_of(std::int64_t edge) const {
  const std::size_t index = index_of(edge);
  return index == 0 ? 1 : edges[index - 1] + 1;
}

std::int64_t BucketRules::Edges::largest_of(std::int64_t edge) const {
  const std::size_t index = index_of(edge);
  if (index == edges.size()) return 2 * representative[index];
  return !more && index + 1 == edges.size() ? std::max(edges[index], 2 * representative[index]) : edges[index];
}

const BucketRules::Edges *BucketRules::edges_of(std::string_view size) const {
  const auto it = edges_.find(size);
  return it == edges_.end() ? nullptr : &it->second;
}

std::int64_t BucketRules::round_static(std::int64_t size) const {
  const std::int64_t at_least = std::max<std::int64_t>(size, 1);
  for (const StaticStep &step : static_steps_) {
    if (at_least <= step.to) return (at_least + step.multiple - 1) / step.multiple * step.multiple;
  }
  return at_least;  // not reached: the last step has no end
}

OpBuckets::OpBuckets(const BucketRules &rules, const OpSpec &op) : rules_(&rules), op_(&op) {
  for (std::size_t i = 0; i < op.sizes.size(); ++i) {
    const SizeSpec &spec = op.sizes[i];
    edges_[i] = rules.edges_of(spec.edges_name());
    if (edges_[i] == nullptr && spec.accepted.empty() && spec.in_bucket && !spec.is_static) {
      throw_error(MSJ_ERROR_INTERNAL, "configs/buckets.json has no edges for {} of {}", spec.name, op.name);
    }
  }
}

ShapeBucket OpBuckets::bucket(const Sizes &sizes) const {
  ShapeBucket bucket{rules_->version(), op_, {}};
  for (std::size_t i = 0; i < op_->sizes.size(); ++i) {
    const SizeSpec &spec = op_->sizes[i];
    if (!spec.in_bucket && !spec.is_static) continue;
    if (edges_[i] != nullptr) {
      bucket.edges[i] = edges_[i]->edge_of(sizes[i]);
    } else {
      bucket.edges[i] = spec.accepted.empty() ? rules_->round_static(sizes[i]) : sizes[i];
    }
  }
  return bucket;
}

OpBuckets BucketRules::of(const OpSpec &op) const { return {*this, op}; }

ShapeBucket BucketRules::bucket(const OpSpec &op, const Sizes &sizes) const { return of(op).bucket(sizes); }

// ---- representative sizes -----------------------------------------------------------------------------------------

double operand_bytes(const OpSpec &op, const Sizes &sizes, std::span<const DType> dtypes) {
  double total = 0;
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    double elements = 1;
    for (int r = 0; r < op.operands[i].rank; ++r) {
      elements *= static_cast<double>(dim_size(op, sizes, op.operands[i].dims[static_cast<std::size_t>(r)]));
    }
    total += elements * bytes(dtypes[i]);
  }
  return total;
}

template <typename Choose>
Sizes BucketRules::sizes_in(const ShapeBucket &bucket, const Choose &choose) const {
  const OpSpec &op = *bucket.op;
  Sizes sizes{};
  for (std::size_t i = 0; i < op.sizes.size(); ++i) {
    const SizeSpec &spec = op.sizes[i];
    const Edges *edges = spec.is_static || bucket.edges[i] == 0 ? nullptr : edges_of(spec.edges_name());
    if (edges != nullptr) {
      sizes[i] = choose(*edges, bucket.edges[i]);
    } else {
      sizes[i] = spec.is_static ? bucket.edges[i] : std::max<std::int64_t>(spec.default_value, 1);
    }
  }
  return sizes;
}

Sizes BucketRules::least(const ShapeBucket &bucket) const {
  return complete(*bucket.op,
                  sizes_in(bucket, [](const Edges &edges, std::int64_t edge) { return edges.least_of(edge); }));
}

Sizes BucketRules::largest(const ShapeBucket &bucket, std::span<const DType> dtypes) const {
  const OpSpec &op = *bucket.op;
  const Sizes floors = least(bucket);
  Sizes sizes = sizes_in(bucket, [](const Edges &edges, std::int64_t edge) { return edges.largest_of(edge); });
  for (const int index : op.cut_order) {
    if (fits(op, sizes, dtypes)) break;
    const auto cut = static_cast<std::size_t>(index);
    sizes[cut] = cut_to_fit(op, sizes, cut, floors[cut], dtypes);
  }
  return complete(op, sizes);
}

Sizes BucketRules::representative(const ShapeBucket &bucket, std::span<const DType> dtypes) const {
  const OpSpec &op = *bucket.op;
  Sizes sizes = sizes_in(bucket, [](const Edges &edges, std::int64_t edge) { return edges.representative_of(edge); });
  Sizes floors = sizes_in(bucket, [](const Edges &edges, std::int64_t edge) {
    return std::min(edges.representative_of(edge), edges.representative.front());
  });
  for (const bool to_one : {false, true}) {
    for (const int index : op.cut_order) {
      if (fits(op, sizes, dtypes)) return complete(op, sizes);
      const auto cut = static_cast<std::size_t>(index);
      sizes[cut] = cut_to_fit(op, sizes, cut, to_one ? 1 : floors[cut], dtypes);
    }
  }
  return complete(op, sizes);
}

}  // namespace msj::tune
