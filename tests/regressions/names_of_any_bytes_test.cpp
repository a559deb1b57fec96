// A file name that is no UTF-8 below the cache made `cache verify`, `cache path` and `doctor` fail as a defect.
#include <doctest/doctest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "support/session.h"
#include "support/tiny_kernels.h"

using namespace msj;
using namespace msj::testing;

TEST_CASE("documents about paths of any bytes are JSON") {
  const TinyKernels kernels;
  FakeGpu gpu;
  const ScratchDirectory cache;
  const std::string root = cache.path() + "/caf\xe9";
  Session session(root, "off");
  session.must_run(small_call(*ops::all_ops()[0].spec, 0));
  std::ofstream(root + "/v1/cubins/\xff.cubin") << "no cubin";
  for (const std::int32_t action : {MSJ_CACHE_PATH, MSJ_CACHE_VERIFY, MSJ_CACHE_PRUNE, MSJ_CACHE_CLEAR}) {
    char *text = nullptr;
    const msj_status status = msj_cache(session.get(), action, &text);
    INFO(msj_last_error());
    REQUIRE(status == MSJ_OK);
    const nlohmann::json json = nlohmann::json::parse(text);
    msj_string_free(text);
    CHECK(json.at("schema") == "maxsim-jit/cache/1");
    if (action == MSJ_CACHE_VERIFY) CHECK(json.at("problems").size() == 1);
  }
  char *text = nullptr;
  REQUIRE(msj_doctor(session.get(), &text) == MSJ_OK);
  CHECK(nlohmann::json::parse(text).at("schema") == "maxsim-jit/doctor/1");
  msj_string_free(text);
}
