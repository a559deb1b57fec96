#include <nlohmann/json.hpp>

#include "api/documents.h"
#include "tune/config_json.h"
#include "tune/scratch.h"

namespace msj::api {

namespace {

using Json = nlohmann::ordered_json;

Json sizes_json(const OpSpec &op, const Sizes &sizes) {
  Json json = Json::object();
  for (std::size_t i = 0; i < op.sizes.size(); ++i) json[std::string(op.sizes[i].name)] = sizes[i];
  return json;
}

const char *source_name(tune::Source source) {
  switch (source) {
    case tune::Source::tuned:
      return "tuned";
    case tune::Source::shipped:
      return "shipped";
    case tune::Source::fallback:
      return "default";
  }
  return "";
}

// Of what is timed: documents of as many tokens as scratch operands have.
double multiply_adds(const OpSpec &op, Sizes sizes) {
  const int tokens = find_named(op.sizes, "Ld");
  if (tokens >= 0) sizes[static_cast<std::size_t>(tokens)] = tune::document_tokens(op, sizes);
  return op.multiply_adds(sizes);
}

Json ceilings_json(const std::optional<tune::Ceilings> &ceilings, double multiply_adds) {
  if (!ceilings) return nullptr;
  return {{"empty_ms", ceilings->empty_ms},     {"read_ms", ceilings->read_ms()},
          {"loads_ms", ceilings->loads_ms},     {"bulk_ms", ceilings->bulk_ms ? Json(*ceilings->bulk_ms) : Json()},
          {"read_bytes", ceilings->read_bytes}, {"multiply_adds", multiply_adds}};
}

}  // namespace

std::string measure(ops::Pipeline &pipeline, const BoundCall &call, const ops::LaunchSite &site,
                    const ops::Pipeline::MeasureWish &wish) {
  const ops::Pipeline::Measurement measurement = pipeline.measure(call, site, wish);
  const OpSpec &op = *call.op;
  const tune::BucketRules &buckets = pipeline.tuner().buckets();
  const tune::ShapeBucket &bucket = measurement.key.bucket();
  const auto dtypes = measurement.key.dtypes().all();
  Json json = {{"schema", "maxsim-jit/measure/1"}, {"op", op.name}, {"environment", measurement.environment}};
  json["sizes"] = sizes_json(op, call.sizes);
  json["features"] = feature_names(op, call.features);
  json["layout"] = name(call.layout);
  json["bucket"] = {{"least", sizes_json(op, buckets.least(bucket))},
                    {"middle", sizes_json(op, buckets.representative(bucket, dtypes))},
                    {"largest", sizes_json(op, buckets.largest(bucket, dtypes))}};
  json["config"] = tune::config_to_json(measurement.config);
  json["source"] = source_name(measurement.source);
  json["ceilings"] = ceilings_json(measurement.measured.ceilings, multiply_adds(op, call.sizes));
  json["candidates"] = Json::array();
  for (const tune::CandidateRecord &record : measurement.measured.candidates) {
    Json row = {{"config", tune::config_to_json(record.config)}};
    if (record.rejected.empty()) {
      row["milliseconds"] = record.timing.median_ms;
      row["dispersion"] = record.timing.dispersion;
      row["rounds"] = record.timing.rounds;
    } else {
      row["rejected"] = record.rejected;
    }
    json["candidates"].push_back(std::move(row));
  }
  return to_text(json);
}

}  // namespace msj::api
