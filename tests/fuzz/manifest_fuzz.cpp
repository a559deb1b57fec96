// libFuzzer over the manifests of `warm`: any bytes give requests that name sizes, dtypes and features of their op, or
// one sentence.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "cli/failure.h"
#include "cli/made_up_ops.h"
#include "cli/warm_request.h"

namespace {

void check(const msj::cli::WarmRequest &request) {
  const msj::cli::OpInfo &op = *request.op;
  if (request.sizes.size() != op.sizes.size() || request.dtypes.empty()) std::abort();
  for (const msj::cli::SizeInfo &size : op.sizes) {
    const std::int64_t value = request.sizes.at(size.name);
    if (value < 1 || (size.max > 0 && value > size.max)) std::abort();
  }
  for (const msj::cli::FeatureSet set : request.feature_sets) {
    if (set > op.all_features()) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
  static const auto ops = msj::testing::made_up_ops();
  const std::string_view text(reinterpret_cast<const char *>(data), size);
  try {
    for (const msj::cli::WarmRequest &request : msj::cli::parse_manifest(ops, text, "fuzz")) check(request);
  } catch (const msj::cli::Failure &failure) {
    const std::string_view sentence = failure.what();
    if (!sentence.starts_with("fuzz: ") || sentence.size() > 500) std::abort();
  }
  return 0;
}
