#include "cli/bench_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <vector>

#include "cli/bench_report.h"
#include "cli/words.h"

namespace msj::cli {
namespace {

constexpr double kWidth = 960;
constexpr double kLeft = 330;  // of the bars: labels stand before them
constexpr double kRowHeight = 20;
constexpr double kTop = 70;
constexpr double kPlotHeight = 420;
constexpr const char *kGrid = "#dddddd";
constexpr const char *kInk = "#333333";
constexpr std::array<const char *, 6> kColors = {"#3366aa", "#cc6633", "#338855", "#885599", "#aa8822", "#557799"};

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : printable(text)) {
    if (c == '<') {
      result += "&lt;";
    } else if (c == '&') {
      result += "&amp;";
    } else {
      result += c;
    }
  }
  return result;
}

std::string label_of(const BenchRow &row) {
  std::string label = fmt::format("{} {}", row.of.shape, name(row.of.dtype));
  if (row.of.features != 0 && row.of.features == row.of.op->all_features()) label += ", every feature";
  return label;
}

// The elements of an SVG, one a line.
class Drawing {
 public:
  void line(double x1, double y1, double x2, double y2, const char *color, double width = 1) {
    add(R"(<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" stroke="{}" stroke-width="{}"/>)", x1, y1, x2, y2,
        color, width);
  }
  void text(double x, double y, const char *anchor, std::string_view words, int size = 12) {
    add(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="{}" font-size="{}" fill="{}">{}</text>)", x, y, anchor, size, kInk,
        escaped(words));
  }
  void bar(double x, double y, double width, double height, const char *color, bool is_sure) {
    add(R"(<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" fill="{}" fill-opacity="{}"/>)", x, y, width,
        height, color, is_sure ? 0.9 : 0.35);
  }
  void point(double x, double y, const char *color, std::string_view words) {
    add(R"(<circle cx="{:.1f}" cy="{:.1f}" r="4" fill="{}"><title>{}</title></circle>)", x, y, color, escaped(words));
  }
  [[nodiscard]] std::string finish(double height) const {
    return fmt::format(R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {0:.0f} {1:.0f}" width="{0:.0f}" )"
                       R"(height="{1:.0f}" font-family="sans-serif">
<rect width="{0:.0f}" height="{1:.0f}" fill="#ffffff"/>
{2}</svg>
)",
                       kWidth, height, body_);
  }

 private:
  template <typename... Args>
  void add(fmt::format_string<Args...> format, Args &&...args) {
    fmt::format_to(std::back_inserter(body_), format, std::forward<Args>(args)...);
    body_ += '\n';
  }

  std::string body_;
};

// A color for each op, in the order of the rows.
class OpColors {
 public:
  explicit OpColors(std::span<const BenchRow> rows) {
    for (const BenchRow &row : rows) {
      if (std::ranges::find(ops_, row.of.op) == ops_.end()) ops_.push_back(row.of.op);
    }
  }
  [[nodiscard]] const char *of(const OpInfo *op) const {
    return kColors[static_cast<std::size_t>(std::ranges::find(ops_, op) - ops_.begin()) % kColors.size()];
  }
  void draw(Drawing &drawing, double y) const {
    double x = kLeft;
    for (const OpInfo *op : ops_) {
      drawing.bar(x, y - 9, 10, 10, of(op), true);
      drawing.text(x + 15, y, "start", op->name);
      x += 40 + 7.0 * static_cast<double>(op->name.size());
    }
  }

 private:
  std::vector<const OpInfo *> ops_;
};

// Returns where it ends.
double draw_bars(Drawing &drawing, std::span<const BenchRow> rows, const OpColors &colors) {
  constexpr double kMost = 1.1;  // a bar's scale ends a little above the floor
  const double width = kWidth - kLeft - 90;
  const double bottom = kTop + kRowHeight * static_cast<double>(rows.size());
  for (int percent = 0; percent <= 100; percent += 25) {
    const double x = kLeft + width * percent / 100 / kMost;
    drawing.line(x, kTop, x, bottom, percent == 100 ? kInk : kGrid);
    drawing.text(x, bottom + 16, "middle", fmt::format("{} %", percent));
  }
  double y = kTop;
  for (const BenchRow &row : rows) {
    const auto known = row.efficiency();
    const auto shown = known || row.matrix_rate ? known : row.least_efficiency();
    const double length = width * std::min(shown.value_or(0), kMost) / kMost;
    drawing.text(kLeft - 8, y + 14, "end", label_of(row));
    drawing.bar(kLeft, y + 3, length, kRowHeight - 6, colors.of(row.of.op), known.has_value());
    drawing.text(kLeft + length + 6, y + 14, "start", efficiency_text(row));
    y += kRowHeight;
  }
  return bottom + 30;
}

// Which labels of a plot have room: those that no earlier one is near.
class Labels {
 public:
  [[nodiscard]] bool take(double x, double y) {
    const bool is_free = std::ranges::none_of(
        taken_, [&](const auto &at) { return std::abs(at.first - x) < 130 && std::abs(at.second - y) < 12; });
    if (is_free) taken_.emplace_back(x, y);
    return is_free;
  }

 private:
  std::vector<std::pair<double, double>> taken_;
};

// Two logarithmic axes over whole decades.
class Axes {
 public:
  Axes(double top, std::span<const std::pair<double, double>> points) : top_(top) {
    for (const auto &[x, y] : points) {
      x_.hold(x);
      y_.hold(y);
    }
  }

  [[nodiscard]] double x(double value) const { return kPlotLeft + x_.place(value) * (kWidth - kPlotLeft - 40); }
  [[nodiscard]] double y(double value) const { return top_ + (1 - y_.place(value)) * kPlotHeight; }
  [[nodiscard]] double most_x() const { return std::pow(10.0, x_.last); }
  [[nodiscard]] double most_y() const { return std::pow(10.0, y_.last); }
  [[nodiscard]] double least_y() const { return std::pow(10.0, y_.first); }
  [[nodiscard]] double least_x() const { return std::pow(10.0, x_.first); }

  void draw(Drawing &drawing) const {
    const double right = x(most_x());
    const double bottom = y(least_y());
    for (int decade = x_.first; decade <= x_.last; ++decade) {
      const double at = x(std::pow(10.0, decade));
      drawing.line(at, top_, at, bottom, kGrid);
      drawing.text(at, bottom + 18, "middle", fmt::format("{:g}", std::pow(10.0, decade)));
    }
    for (int decade = y_.first; decade <= y_.last; ++decade) {
      const double at = y(std::pow(10.0, decade));
      drawing.line(kPlotLeft, at, right, at, kGrid);
      drawing.text(kPlotLeft - 8, at + 4, "end", fmt::format("{:g}", std::pow(10.0, decade)));
    }
    drawing.line(kPlotLeft, top_, kPlotLeft, bottom, kInk);
    drawing.line(kPlotLeft, bottom, right, bottom, kInk);
    drawing.text((kPlotLeft + right) / 2, bottom + 38, "middle", "FLOP for each byte read");
    drawing.text(kPlotLeft, top_ - 10, "middle", "TFLOP/s");
  }

 private:
  static constexpr double kPlotLeft = 80;
  struct Scale {
    int first = 0;
    int last = 1;
    bool is_empty = true;
    void hold(double value) {
      const int below = static_cast<int>(std::floor(std::log10(value)));
      const int above = static_cast<int>(std::ceil(std::log10(value)));
      first = is_empty ? below : std::min(first, below);
      last = std::max(is_empty ? above : std::max(last, above), first + 1);
      is_empty = false;
    }
    [[nodiscard]] double place(double value) const { return (std::log10(value) - first) / (last - first); }
  };

  double top_;
  Scale x_;
  Scale y_;
};

// The fastest read gives the slope, each known matrix rate a plateau.
void draw_roofline(Drawing &drawing, std::span<const BenchRow> rows, const OpColors &colors, double top) {
  const auto slope = read_rate(rows);
  const auto plateaus = matrix_rates(rows);
  std::vector<std::pair<double, double>> points;
  std::vector<const BenchRow *> drawn;
  for (const BenchRow &row : rows) {
    if (!row.achieved_rate() || !row.intensity()) continue;
    points.emplace_back(*row.intensity(), *row.achieved_rate());
    drawn.push_back(&row);
  }
  auto held = points;
  if (slope) {
    for (const auto &[dtype, rate] : plateaus) held.emplace_back(rate / *slope, rate);
  }
  const Axes axes(top, held);
  axes.draw(drawing);
  double highest = plateaus.empty() ? axes.most_y() : 0;
  for (const auto &[dtype, rate] : plateaus) highest = std::max(highest, rate);
  Labels labels;
  if (slope) {
    const double from = std::max(axes.least_x(), axes.least_y() / *slope);
    const double to = std::min(axes.most_x(), highest / *slope);
    if (from < to) drawing.line(axes.x(from), axes.y(from * *slope), axes.x(to), axes.y(to * *slope), kInk, 2);
    for (const auto &[dtype, rate] : plateaus) {
      drawing.line(axes.x(rate / *slope), axes.y(rate), axes.x(axes.most_x()), axes.y(rate), kInk, 2);
      double x = axes.x(axes.most_x());
      while (!labels.take(x, axes.y(rate) - 5)) x -= 130;
      drawing.text(x, axes.y(rate) - 5, "end", fmt::format("{} {:.0f} TFLOP/s", dtype, rate));
    }
    drawing.text(axes.x(from) + 12, top + 14, "start", fmt::format("slope: {:.2f} TB/s read", *slope));
  }
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    const double x = axes.x(points[i].first);
    const double y = axes.y(points[i].second);
    const std::string label = label_of(*drawn[i]);
    drawing.point(x, y, colors.of(drawn[i]->of.op),
                  fmt::format("{} {}: {:.1f} TFLOP/s", drawn[i]->of.op->name, label, points[i].second));
    if (labels.take(x, y)) drawing.text(x + 7, y + 4, "start", label, 10);
  }
}

}  // namespace

std::string bench_svg(std::span<const BenchRow> rows) {
  const OpColors colors(rows);
  Drawing drawing;
  drawing.text(kWidth / 2, 26, "middle", "Floor / time", 16);
  colors.draw(drawing, 52);
  const double bars_end = draw_bars(drawing, rows, colors);
  drawing.text(kWidth / 2, bars_end + 24, "middle", "Roofline", 16);
  draw_roofline(drawing, rows, colors, bars_end + 60);
  return drawing.finish(bars_end + 60 + kPlotHeight + 60);
}

}  // namespace msj::cli
