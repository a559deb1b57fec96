#include "cli/usage.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "cli/failure.h"
#include "cli/words.h"
#include "text/path_limit.h"

namespace msj::cli {
namespace {

std::string command_names(CLI::App &app) {
  std::vector<std::string> names;
  for (const CLI::App *command : app.get_subcommands({})) names.push_back(command->get_name());
  return fmt::format("{}", fmt::join(names, ", "));
}

bool has_option(const CLI::App &app, const std::string &name) { return app.get_option_no_throw(name) != nullptr; }

bool has_option_below(CLI::App &app, const std::string &name) {
  return std::ranges::any_of(app.get_subcommands({}), [&](CLI::App *command) {
    return has_option(*command, name) || has_option_below(*command, name);
  });
}

// An option in front of a command, where only those of the program are accepted.
void refuse_early_option(CLI::App &app, CLI::App &at, const std::string &word) {
  const std::string name = word.substr(0, word.find('='));
  if (has_option(app, name) || has_option(at, name)) return;
  if (has_option_below(at, name)) {
    usage_error("'{}' is given before the command; it is accepted after it ({} --help)", shortened(word),
                at.get_name());
  }
  usage_error("'{}' is no option of {}; accepted: {} --help lists them", shortened(word), at.get_name(), at.get_name());
}

// Where a command is missing or unknown: what was in its place, and which there are.
void refuse_unknown_command(CLI::App &app, const std::vector<std::string> &words) {
  CLI::App *at = &app;
  for (const std::string &word : words) {
    const auto commands = at->get_subcommands({});
    if (commands.empty()) return;
    if (word.starts_with('-')) {
      refuse_early_option(app, *at, word);
      continue;
    }
    const auto found = std::ranges::find(commands, word, [](const CLI::App *command) { return command->get_name(); });
    if (found == commands.end()) {
      usage_error("'{}' is no command of {}; accepted: {}", shortened(word), at->get_name(), command_names(*at));
    }
    at = *found;
  }
  if (at->get_subcommands({}).empty()) return;
  usage_error("{} is given without a command; accepted: {}", at->get_name(), command_names(*at));
}

// The command that was parsed last: "maxsim-jit cache path", and its options with those of the commands above it.
struct Place {
  std::string name;
  std::vector<const CLI::Option *> options;

  explicit Place(const CLI::App &app) {
    for (const CLI::App *at = &app; at != nullptr; at = next(*at)) {
      name += (name.empty() ? "" : " ") + at->get_name();
      for (const CLI::Option *option : at->get_options()) options.push_back(option);
    }
  }

  [[nodiscard]] std::string help() const { return fmt::format("({} --help)", name); }

 private:
  static const CLI::App *next(const CLI::App &app) {
    const auto parsed = app.get_subcommands();
    return parsed.empty() ? nullptr : parsed.front();
  }
};

bool takes_value(const CLI::Option &option) { return option.get_items_expected_max() > 0; }

// Of "-v=3" CLI11 leaves "-=3".
std::string as_typed(const std::string &extra, const std::vector<std::string> &words) {
  if (std::ranges::find(words, extra) != words.end()) return extra;
  const auto typed = std::ranges::find_if(words, [&](const std::string &word) {
    return word.starts_with('-') && word.ends_with(std::string_view(extra).substr(1));
  });
  return typed == words.end() ? extra : *typed;
}

void refuse_extra(const CLI::App &app, const Place &place, const std::vector<std::string> &words) {
  const auto extra = app.remaining(true);
  if (extra.empty() || extra.front().empty()) return;
  const std::string word = shortened(as_typed(extra.front(), words));
  if (word.starts_with('-')) usage_error("'{}' is no option of {} {}", word, place.name, place.help());
  usage_error("'{}' is more than {} accepts {}", word, place.name, place.help());
}

void refuse_count(const CLI::ParseError &error, const Place &place, const std::vector<std::string> &words) {
  for (const std::string &word : words) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos) continue;
    for (const CLI::Option *option : place.options) {
      if (takes_value(*option) || !option->check_name(word.substr(0, equals))) continue;
      usage_error("{} is '{}'; it is accepted without a value {}", option->get_name(),
                  shortened(word.substr(equals + 1)), place.help());
    }
  }
  for (const CLI::Option *option : place.options) {
    if (takes_value(*option) && option->count() > 1) {
      usage_error("{} is given {} times; once is accepted {}", option->get_name(), option->count(), place.help());
    }
  }
  // CLI11 tells the option in its text alone: "--op: 1 required TEXT missing".
  for (const CLI::Option *option : place.options) {
    if (!std::string_view(error.what()).starts_with(option->get_name() + ": ")) continue;
    usage_error("{} is given without a value; one is accepted {}", option->get_name(), place.help());
  }
}

void refuse_missing(const Place &place) {
  for (const CLI::Option *option : place.options) {
    if (!option->get_required() || option->count() > 0) continue;
    usage_error("{} is missing; {} needs it {}", option->get_name(), place.name, place.help());
  }
}

void refuse_together(const Place &place) {
  for (const CLI::Option *option : place.options) {
    for (const CLI::Option *other : option->get_excludes()) {
      if (option->count() == 0 || other->count() == 0) continue;
      usage_error("{} is given beside {}; one of them is accepted {}", option->get_name(), other->get_name(),
                  place.help());
    }
  }
}

}  // namespace

CLI::Validator one_of(const std::vector<std::string> &accepted) {
  return {[accepted](const std::string &text) {
            if (std::ranges::find(accepted, text) != accepted.end()) return std::string();
            return fmt::format("it is '{}'; accepted: {}", shortened(text), fmt::join(accepted, ", "));
          },
          fmt::format("{{{}}}", fmt::join(accepted, ","))};
}

CLI::Validator whole_number(std::int64_t least, std::int64_t most) {
  return {
      [least, most](const std::string &text) {
        std::int64_t value = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        const bool good = error == std::errc() && end == text.data() + text.size() && value >= least && value <= most;
        return good ? std::string()
                    : fmt::format("it is '{}'; a whole number from {} to {} is accepted", shortened(text), least, most);
      },
      fmt::format("{}..{}", least, most)};
}

// An empty value is most often an unset variable of a script, and must not read as if the option were not there. Nor
// must the next option be taken for the value that was forgotten, or a file be made whose name others take for stdout.
void refuse_odd_values(CLI::App &app) {
  const CLI::Validator not_empty(
      [](const std::string &text) {
        if (text.empty() || text.starts_with("--"))
          return fmt::format("it is '{}'; a value is accepted", shortened(text));
        if (text == "-")
          return std::string(
              "it is '-', which names no stream here; the name of a file is accepted, ./- for one of that name");
        if (text.size() > kMostPathBytes)
          return fmt::format("it is '{}'; at most {} bytes are accepted", shortened(text), kMostPathBytes);
        return std::string();
      },
      "");
  for (CLI::Option *option : app.get_options()) {
    if (takes_value(*option)) {
      option->check(not_empty);
    } else {
      option->disable_flag_override();
    }
  }
  for (CLI::App *command : app.get_subcommands({})) refuse_odd_values(*command);
}

void refuse_words(CLI::App &app, const CLI::ParseError &error, const std::vector<std::string> &words) {
  refuse_unknown_command(app, words);
  const Place place(app);
  if (dynamic_cast<const CLI::ExtrasError *>(&error) != nullptr) refuse_extra(app, place, words);
  if (dynamic_cast<const CLI::ArgumentMismatch *>(&error) != nullptr) refuse_count(error, place, words);
  if (dynamic_cast<const CLI::RequiredError *>(&error) != nullptr) refuse_missing(place);
  if (dynamic_cast<const CLI::ExcludesError *>(&error) != nullptr) refuse_together(place);
  std::string sentence = error.what();  // a validator's own words, after the option's name
  std::ranges::replace(sentence, '\n', ' ');
  usage_error("{} {}", sentence, place.help());
}

}  // namespace msj::cli
