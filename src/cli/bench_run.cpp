#include "cli/bench_run.h"

#include <chrono>

#include "cli/session.h"

namespace msj::cli {

BenchReport run_cases(const std::vector<BenchCase> &cases, double seconds, const MeasureCase &measure,
                      Console &console) {
  const auto start = std::chrono::steady_clock::now();
  const auto spent = [start] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  BenchReport report;
  std::int64_t done = 0;
  for (const BenchCase &of : cases) {
    if (spent() > seconds) {
      report.left_out.push_back(of);
      continue;
    }
    try {
      report.rows.push_back(measure(of));
    } catch (const maxsim_jit::Error &error) {
      report.failed.push_back({of, status_name(error.status()), error.what()});
    } catch (const std::bad_alloc &) {
      report.failed.push_back({of, "", "the host has not enough memory for this"});
    } catch (const std::exception &error) {  // the launched config was not timed, or the library's JSON is another one
      report.failed.push_back({of, "", error.what()});
    }
    console.progress("bench", ++done, static_cast<std::int64_t>(cases.size()));
  }
  console.clear_bar();
  report.seconds = spent();
  return report;
}

}  // namespace msj::cli
