// Regret of a shared winner, from measurements made up here.
#include <doctest/doctest.h>

#include "cli/failure.h"
#include "cli/regret.h"

using namespace msj::cli;

namespace {

Json config(int block) { return {{"path", "portable"}, {"tunables", {{"block", block}}}}; }

Json measurement(int shared) {
  Json json = {{"config", config(shared)}, {"source", "tuned"}};
  json["candidates"] = {{{"config", config(1)}, {"milliseconds", 2.0}, {"dispersion", 0.01}, {"rounds", 7}},
                        {{"config", config(2)}, {"milliseconds", 1.6}, {"dispersion", 0.02}},
                        {{"config", config(3)}, {"rejected", "too much shared memory"}}};
  return json;
}

}  // namespace

TEST_CASE("the shared winner's time over the best one's") {
  const Regret regret = regret_of("q_mask", measurement(1));
  CHECK(regret.what == "q_mask");
  CHECK(regret.ratio() == doctest::Approx(0.25));
  CHECK(regret.shared == "portable block=1");
  CHECK(regret.best == "portable block=2");
  CHECK(regret.source == "tuned");
  CHECK(regret.dispersion == 0.02);
  CHECK(regret.rounds == 7);
  CHECK(regret_of("", measurement(2)).ratio() == 0);
}

TEST_CASE("a winner that could not be timed is a failure, not a regret") {
  CHECK_THROWS_AS((void)regret_of("none", measurement(3)), Failure);
  CHECK_THROWS_AS((void)regret_of("none", measurement(4)), Failure);
}

TEST_CASE("median and worst of any number") {
  const auto of = [](std::initializer_list<double> ratios) {
    std::vector<Regret> regrets;
    for (const double ratio : ratios) regrets.push_back({"", 1 + ratio, 1, "", "", "", 0, 0});
    return summary_of(regrets);
  };
  CHECK(of({}).worst == 0);
  CHECK(of({0.5}).median == doctest::Approx(0.5));
  CHECK(of({0.3, 0.1, 0.2}).median == doctest::Approx(0.2));
  CHECK(of({0.4, 0.1, 0.2, 0.3}).median == doctest::Approx(0.25));
  CHECK(of({0.4, 0.1, 0.2, 0.3}).worst == doctest::Approx(0.4));
}
