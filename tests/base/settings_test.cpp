#include "base/settings.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <map>

#include "base/error.h"

namespace msj {

namespace {

using Variables = std::map<std::string, std::string>;

Settings read(const Variables &variables, const char *cache_dir = nullptr, const char *tune = nullptr) {
  const auto get = [&](const char *name) -> const char * {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
  return read_settings(get, cache_dir, tune);
}

// The sentence of the error that these settings are refused with; "" if they are accepted.
std::string refusal(const Variables &variables, const char *cache_dir = nullptr, const char *tune = nullptr) {
  try {
    (void)read(variables, cache_dir, tune);
  } catch (const Error &error) {
    CHECK(error.status() == MSJ_ERROR_INVALID_ARGUMENT);
    return error.what();
  }
  return {};
}

}  // namespace

TEST_CASE("defaults") {
  const Settings settings = read({{"HOME", "/home/u"}});
  CHECK(settings.cache_dir == "/home/u/.cache/maxsim-jit");
  CHECK(settings.home == "/home/u");
  CHECK(settings.cache_dir_problem.empty());
  CHECK(settings.read_only_dirs.empty());
  CHECK(settings.tune == TuneMode::on);
  CHECK(settings.libcuda.empty());
  CHECK(settings.libnvrtc.empty());
  CHECK(settings.kernel_dir.empty());
  CHECK(settings.log_level.empty());
  CHECK(settings.cache_limit_bytes == std::int64_t{1} << 30);
  CHECK(settings.lock_timeout_seconds == 120);
}

TEST_CASE("the cache's place: variable, then XDG, then home") {
  CHECK(read({{"XDG_CACHE_HOME", "/xdg"}, {"HOME", "/h"}}).cache_dir == "/xdg/maxsim-jit");
  CHECK(read({{"XDG_CACHE_HOME", "/xdg"}, {"HOME", "/h"}}).home.empty());
  CHECK(read({{"XDG_CACHE_HOME", "relative"}, {"HOME", "/h"}}).cache_dir == "/h/.cache/maxsim-jit");
  CHECK(read({{"XDG_CACHE_HOME", ""}, {"HOME", "/h"}}).cache_dir == "/h/.cache/maxsim-jit");
  const Settings named = read({{"MAXSIM_JIT_CACHE_DIR", "/c"}, {"XDG_CACHE_HOME", "/xdg"}, {"HOME", "/h"}});
  CHECK(named.cache_dir == "/c");
  CHECK(named.home.empty());
  CHECK(read({{"MAXSIM_JIT_CACHE_DIR", ""}, {"HOME", "/h"}}).cache_dir == "/h/.cache/maxsim-jit");
}

TEST_CASE("no home, or a relative one: no cache, and a sentence that says what to set") {
  for (const Variables &variables : {Variables{}, Variables{{"HOME", ""}}, Variables{{"HOME", "relative"}}}) {
    const Settings settings = read(variables);
    CHECK(settings.cache_dir.empty());
    CHECK(settings.cache_dir_problem.find("HOME is") != std::string::npos);
    CHECK(settings.cache_dir_problem.find("MAXSIM_JIT_CACHE_DIR") != std::string::npos);
  }
}

TEST_CASE("layers") {
  using Dirs = std::vector<std::string>;
  const Settings three = read({{"MAXSIM_JIT_CACHE_DIR", "/rw:/ro 1:/ro-é"}});
  CHECK(three.cache_dir == "/rw");
  CHECK(three.read_only_dirs == Dirs{"/ro 1", "/ro-é"});

  const Settings none = read({{"MAXSIM_JIT_CACHE_DIR", ":/ro"}, {"HOME", "/h"}});
  CHECK(none.cache_dir.empty());
  CHECK(none.cache_dir_problem.empty());  // wanted so
  CHECK(none.read_only_dirs == Dirs{"/ro"});

  const Settings gaps = read({{"MAXSIM_JIT_CACHE_DIR", "/rw::/ro:"}});
  CHECK(gaps.cache_dir == "/rw");
  CHECK(gaps.read_only_dirs == Dirs{"/ro"});
}

TEST_CASE("layers that name no directory are refused") {
  for (const char *text : {":", "::"}) {
    const std::string expected =
        "\"" + std::string(text) + "\", which names no directory; \"rw\", \"rw:ro\" or \":ro\" is accepted";
    CHECK(refusal({{"MAXSIM_JIT_CACHE_DIR", text}, {"HOME", "/h"}}) == "MAXSIM_JIT_CACHE_DIR is " + expected);
    CHECK(refusal({{"HOME", "/h"}}, text) == "msj_context_options.cache_dir is " + expected);
  }
}

TEST_CASE("paths that are longer than any are refused, without being repeated") {
  const std::string longest = "/" + std::string(4094, 'x');
  const std::string quoted = "xxx… (4096 bytes)\"; a path of at most 4095 bytes is accepted";
  for (const std::string variable :
       {"MAXSIM_JIT_CACHE_DIR", "MAXSIM_JIT_LIBCUDA", "MAXSIM_JIT_LIBNVRTC", "MAXSIM_JIT_KERNEL_DIR"}) {
    CAPTURE(variable);
    CHECK(refusal({{variable, longest}}).empty());
    const std::string sentence = refusal({{variable, longest + "x"}});
    CHECK(sentence.starts_with(variable + " is \"/xxx"));
    CHECK(sentence.ends_with(quoted));
  }
  CHECK(refusal({{"MAXSIM_JIT_CACHE_DIR", longest + ":" + longest}}).empty());
  CHECK(refusal({{"MAXSIM_JIT_CACHE_DIR", "/rw:" + longest + "x"}}).ends_with(quoted));
  CHECK(refusal({}, (longest + "x").c_str()).starts_with("msj_context_options.cache_dir is \"/xxx"));
  for (const char *variable : {"HOME", "XDG_CACHE_HOME"}) {  // whoever set these did not think of this library
    const Settings settings = read({{variable, longest + "x"}});
    CHECK(settings.cache_dir.empty());
    CHECK(settings.cache_dir_problem.find(std::string(variable) + " is \"/xxx") != std::string::npos);
    CHECK(settings.cache_dir_problem.size() < 300);
  }
}

TEST_CASE("relative layers are made absolute") {
  const std::string here = std::filesystem::current_path().string();
  const Settings settings = read({{"MAXSIM_JIT_CACHE_DIR", "cache:../ro"}});
  CHECK(settings.cache_dir == here + "/cache");
  REQUIRE(settings.read_only_dirs.size() == 1);
  CHECK(settings.read_only_dirs[0] == here + "/../ro");
}

TEST_CASE("options override variables, empty ones don't") {
  const Variables variables = {{"MAXSIM_JIT_CACHE_DIR", "/env"}, {"MAXSIM_JIT_TUNE", "off"}};
  CHECK(read(variables, "/option:/ro").cache_dir == "/option");
  CHECK(read(variables, "/option:/ro").read_only_dirs.size() == 1);
  CHECK(read(variables, "").cache_dir == "/env");
  CHECK(read(variables, nullptr, "cached").tune == TuneMode::cached);
  CHECK(read(variables, nullptr, "").tune == TuneMode::off);
  // A variable that an option overrides is not looked at.
  CHECK(refusal({{"MAXSIM_JIT_TUNE", "bad"}}, nullptr, "on").empty());
}

TEST_CASE("values") {
  const Settings settings = read({{"MAXSIM_JIT_TUNE", "cached"},
                                  {"MAXSIM_JIT_LIBCUDA", "/a/libcuda.so"},
                                  {"MAXSIM_JIT_LIBNVRTC", "/b/libnvrtc.so"},
                                  {"MAXSIM_JIT_KERNEL_DIR", "/k"},
                                  {"MAXSIM_JIT_LOG", "debug"},
                                  {"MAXSIM_JIT_CACHE_LIMIT_MB", "5"},
                                  {"MAXSIM_JIT_LOCK_TIMEOUT", "0.5"}});
  CHECK(settings.tune == TuneMode::cached);
  CHECK(settings.libcuda == "/a/libcuda.so");
  CHECK(settings.libnvrtc == "/b/libnvrtc.so");
  CHECK(settings.kernel_dir == "/k");
  CHECK(settings.log_level == "debug");
  CHECK(settings.cache_limit_bytes == 5 << 20);
  CHECK(settings.lock_timeout_seconds == 0.5);
  CHECK(read({{"MAXSIM_JIT_CACHE_LIMIT_MB", "1000000000"}}).cache_limit_bytes == 1'000'000'000LL << 20);
  CHECK(read({{"MAXSIM_JIT_LOCK_TIMEOUT", "0"}}).lock_timeout_seconds == 0);
}

TEST_CASE("a value that is not accepted: one sentence with the variable, the value and what is accepted") {
  CHECK(refusal({{"MAXSIM_JIT_TUNE", "yes"}}) ==
        "MAXSIM_JIT_TUNE is \"yes\"; \"on\", \"cached\" or \"off\" is accepted");
  CHECK(refusal({}, nullptr, "On") == "msj_context_options.tune is \"On\"; \"on\", \"cached\" or \"off\" is accepted");
  CHECK(refusal({{"MAXSIM_JIT_LOG", "verbose"}}) ==
        "MAXSIM_JIT_LOG is \"verbose\"; \"off\", \"error\", \"warn\", \"info\" or \"debug\" is accepted");
  for (const char *bad : {"0", "-1", "1.5", "12x", " 1", "1000000001", "99999999999999999999", "abc"}) {
    CHECK(refusal({{"MAXSIM_JIT_CACHE_LIMIT_MB", bad}}) ==
          "MAXSIM_JIT_CACHE_LIMIT_MB is \"" + std::string(bad) + "\"; a number from 1 to 1000000000 is accepted");
  }
  for (const char *bad : {"-1", "nan", "inf", "1s", "86401", ""}) {
    const std::string text = refusal({{"MAXSIM_JIT_LOCK_TIMEOUT", bad}});
    CHECK(text.empty() == (*bad == '\0'));
    if (!text.empty()) CHECK(text.find("a number from 0 to 86400 is accepted") != std::string::npos);
  }
}

TEST_CASE("secure_environment reads the environment of an ordinary process") {
  ::setenv("MSJ_SETTINGS_TEST", "value", 1);
  CHECK(std::string(secure_environment("MSJ_SETTINGS_TEST")) == "value");
  ::unsetenv("MSJ_SETTINGS_TEST");
  CHECK(secure_environment("MSJ_SETTINGS_TEST") == nullptr);
}

}  // namespace msj
