#include "compiler/cost/machine/Drawing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numbers>
#include <numeric>

namespace kolo::cost {

namespace {

constexpr double pi = std::numbers::pi;
constexpr double letterWidth = 7.2, boxHeight = 26, margin = 24, titleHeight = 44, rowHeight = 22;

/// Colours that differ for colour-blind readers, on white as on black (Okabe and Ito 2008).
constexpr const char *colours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"};

constexpr const char *style = R"(<style>
  text { font: 12px system-ui, sans-serif; fill: #1b1f24 }
  .title { font-size: 15px; font-weight: 600 }
  .middle { text-anchor: middle; dominant-baseline: central }
  .note { fill: #57606a }
  .page { fill: #ffffff }
  .box { fill: #f6f8fa; stroke: #57606a }
  .nic { fill: #ffffff; stroke: #57606a; stroke-dasharray: 3 2 }
  .unit { fill: none; stroke: #8c959f }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .note { fill: #9198a1 } .page { fill: #0d1117 }
    .box { fill: #21262d; stroke: #9198a1 } .nic { fill: #0d1117; stroke: #9198a1 } .unit { stroke: #6e7681 }
  }
</style>
)";

struct Point {
  double x = 0, y = 0;
};

std::string escaped(const std::string &text) {
  std::string result;
  for (char letter : text)
    result += letter == '<' ? "&lt;" : letter == '>' ? "&gt;" : letter == '&' ? "&amp;" : std::string(1, letter);
  return result;
}

double widthOf(const std::string &text) { return double(text.size()) * letterWidth; }

std::string gigabytes(double bytesPerSecond) { return fmt::format("{:.4g} GB/s", bytesPerSecond / 1e9); }

/// Where the vertices of a node lie: devices on a circle, switches inside, NICs outside.
class NodeLayout {
public:
  explicit NodeLayout(const Machine &machine) : machine(machine), places(machine.vertices().size()) {
    double widest = 0;
    for (const Vertex &vertex : machine.vertices())
      widest = std::max(widest, boxWidth(vertex));
    const auto &vertices = machine.vertices();
    auto numNics = std::ranges::count(vertices, VertexKind::Nic, &Vertex::kind);
    circle = std::max(130.0, machine.devicesPerNode() * (widest + 14) / (2 * pi));
    outer = numNics ? std::max(circle + widest + 30, double(numNics) * (widest + 14) / (2 * pi)) : circle;
    radius = outer + widest / 2 + 4;
    placeDevices();
    placeSwitches();
    placeNics();
  }

  Point of(int vertex) const { return {radius + places[size_t(vertex)].x, radius + places[size_t(vertex)].y}; }
  double size() const { return 2 * radius; }
  static double boxWidth(const Vertex &vertex) { return widthOf(vertex.name) + 14; }

private:
  static Point at(double turn, double distance) {
    return {std::cos(turn - pi / 2) * distance, std::sin(turn - pi / 2) * distance};
  }

  double widthBetween(int a, int b) const {
    for (const Link &link : machine.links())
      if (std::minmax(link.from, link.to) == std::minmax(a, b))
        return machine.linkClasses()[size_t(link.linkClass)].bandwidth.peak * link.count;
    return 0;
  }

  /// The device order in which wide links are short: each next device is the one with the widest link to the last.
  void placeDevices() {
    std::vector<int> left(size_t(machine.devicesPerNode())), order;
    std::iota(left.begin(), left.end(), 0);
    while (!left.empty()) {
      auto next = order.empty() ? left.begin() : std::ranges::max_element(left, {}, [&](int device) {
        return widthBetween(order.back(), device);
      });
      order.push_back(*next);
      left.erase(next);
    }
    turns.resize(order.size());
    for (size_t place = 0; place < order.size(); ++place) {
      double turn = 2 * pi * double(place) / double(order.size());
      turns[size_t(order[place])] = turn;
      places[size_t(order[place])] = at(turn, order.size() == 1 ? 0 : circle);
    }
  }

  void placeSwitches() {
    std::vector<int> switches = verticesOf(VertexKind::Switch);
    for (size_t number = 0; number < switches.size(); ++number)
      places[size_t(switches[number])] =
          at(2 * pi * (double(number) + 0.5) / double(switches.size()), switches.size() == 1 ? 0 : circle * 0.45);
  }

  /// Beside the first device that a NIC is linked to, else where there is room; none on top of another.
  void placeNics() {
    std::vector<std::pair<double, int>> nics;
    std::vector<int> all = verticesOf(VertexKind::Nic);
    for (size_t number = 0; number < all.size(); ++number) {
      double turn = 2 * pi * double(number) / double(all.size());
      for (const Link &link : machine.links())
        if (int device = link.from + link.to - all[number];
            (link.from == all[number] || link.to == all[number]) && device < machine.devicesPerNode()) {
          turn = turns[size_t(device)];
          break;
        }
      nics.push_back({turn, all[number]});
    }
    std::ranges::sort(nics);
    double least = nics.empty() ? 0 : 2 * pi / double(std::max<size_t>(nics.size(), 8)), before = -least;
    for (auto [turn, nic] : nics) {
      before = std::max(turn, before + least);
      places[size_t(nic)] = at(before, outer);
    }
  }

  std::vector<int> verticesOf(VertexKind kind) const {
    std::vector<int> result;
    for (int vertex = 0; vertex < int(machine.vertices().size()); ++vertex)
      if (machine.vertices()[size_t(vertex)].kind == kind)
        result.push_back(vertex);
    return result;
  }

  const Machine &machine;
  double circle = 0, outer = 0, radius = 0;
  std::vector<Point> places;
  std::vector<double> turns; // of devices
};

class Drawing {
public:
  explicit Drawing(const Machine &machine) : machine(machine), layout(machine) {}

  std::string draw() {
    double panel = margin + layout.size() + margin;
    drawNode();
    double legendEnd = drawLegend(panel, titleHeight + margin);
    double levelsEnd = drawLevels(panel, legendEnd + margin);
    double width = panel + panelWidth() + margin, height = std::max(titleHeight + layout.size(), levelsEnd) + margin;
    std::string title = machine.name() + ": " + machine.title();
    width = std::max(width, widthOf(title) * 1.2 + 2 * margin);
    return fmt::format("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
                       "height=\"{1:.0f}\" role=\"img\">\n<title>{2}</title>\n{3}"
                       "<rect class=\"page\" width=\"100%\" height=\"100%\"/>\n"
                       "<text class=\"title\" x=\"{4}\" y=\"30\">{2}</text>\n{5}</svg>\n",
                       width, height, escaped(title), style, margin, out);
  }

private:
  template <class... Values> void add(fmt::format_string<Values...> format, Values &&...values) {
    fmt::format_to(std::back_inserter(out), format, std::forward<Values>(values)...);
  }
  void text(double x, double y, const std::string &words, const char *kind = "") {
    add("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", kind, x, y, escaped(words));
  }
  static const char *colourOf(int linkClass) { return colours[size_t(linkClass) % std::size(colours)]; }
  Point placeOf(int vertex) const {
    Point place = layout.of(vertex);
    return {place.x + margin, place.y + titleHeight};
  }

  /// Wider links are drawn wider, up to three times as wide as the narrowest.
  double strokeOf(const Link &link) const {
    auto width = [&](const Link &other) {
      return machine.linkClasses()[size_t(other.linkClass)].bandwidth.peak * other.count;
    };
    double least = width(*std::ranges::min_element(machine.links(), {}, width));
    return std::min(6.0, 2 * std::sqrt(width(link) / least));
  }

  void drawNode() {
    for (const Link &link : machine.links()) {
      Point from = placeOf(link.from), to = placeOf(link.to);
      add("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" stroke-width=\"{:.1f}\"/>\n",
          from.x, from.y, to.x, to.y, colourOf(link.linkClass), strokeOf(link));
    }
    for (int number = 0; number < int(machine.vertices().size()); ++number) {
      const Vertex &vertex = machine.vertices()[size_t(number)];
      Point place = placeOf(number);
      double width = NodeLayout::boxWidth(vertex);
      add("<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{}\" rx=\"{}\"/>\n",
          vertex.kind == VertexKind::Nic ? "nic" : "box", place.x - width / 2, place.y - boxHeight / 2, width,
          boxHeight, vertex.kind == VertexKind::Switch ? 0 : 6);
      text(place.x, place.y, vertex.name, "middle");
    }
  }

  /// What a class is, where it links vertices: once for each number of links.
  std::vector<std::pair<int, std::string>> legend() const {
    std::vector<std::pair<int, std::string>> rows;
    for (const Link &link : machine.links()) {
      const LinkClass &kind = machine.linkClasses()[size_t(link.linkClass)];
      std::string count = link.count == 1 ? "" : fmt::format("{} x ", link.count);
      std::pair row(link.linkClass, kind.name + ": " + count + gigabytes(kind.bandwidth.peak));
      if (!std::ranges::count(rows, row))
        rows.push_back(row);
    }
    for (const Vertex &vertex : machine.vertices())
      if (vertex.kind == VertexKind::Nic) {
        const LinkClass &kind = machine.linkClasses()[size_t(vertex.wireClass)];
        std::pair row(-1, kind.name + ": wire of a NIC, " + gigabytes(kind.bandwidth.peak));
        if (!std::ranges::count(rows, row))
          rows.push_back(row);
      }
    std::ranges::sort(rows, {},
                      [](const auto &row) { return std::pair(unsigned(row.first), row.second); }); // wires last
    return rows;
  }

  double drawLegend(double x, double y) {
    text(x, y, "Links of a node, per direction", "note");
    for (const auto &[linkClass, words] : legend()) {
      y += rowHeight;
      if (linkClass >= 0)
        add("<line x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{2:.1f}\" y2=\"{1:.1f}\" stroke=\"{3}\" stroke-width=\"4\"/>\n",
            x, y - 4, x + 28, colourOf(linkClass));
      else
        add("<rect class=\"nic\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"28\" height=\"14\" rx=\"4\"/>\n", x, y - 11);
      text(x + 38, y, words);
    }
    return y + 12;
  }

  std::string labelOf(const Level &level) const {
    std::string label = fmt::format(fmt::runtime("{}: {} nodes"), level.name, level.nodes);
    return level.bandwidth > 0 ? label + ", exit " + gigabytes(level.bandwidth) : label;
  }

  double panelWidth() const {
    double widest = 200;
    for (const auto &[linkClass, words] : legend())
      widest = std::max(widest, 38 + widthOf(words));
    for (const Level &level : machine.levels())
      widest = std::max(widest, widthOf(labelOf(level)) + 20 + 20 * double(machine.levels().size()));
    return widest;
  }

  /// Units inside units, the outermost first.
  double drawLevels(double x, double y) {
    auto levels = machine.levels();
    if (levels.empty())
      return y;
    text(x, y, "Levels of the network", "note");
    y += 12;
    double step = rowHeight + 8, width = panelWidth(), end = y + step * double(levels.size()) + 44;
    double bottom = end + 10 * double(levels.size());
    for (size_t number = levels.size(); number-- > 0; x += 10, width -= 20, y += step, bottom -= 10) {
      add("<rect class=\"unit\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" rx=\"6\"/>\n", x, y, width,
          bottom - y);
      text(x + 10, y + rowHeight - 4, labelOf(levels[number]));
    }
    std::string node = fmt::format("node: {} devices, {}", machine.devicesPerNode(), gigabytes(machine.injection()));
    add("<rect class=\"box\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{}\" rx=\"6\"/>\n", x + 6, y,
        widthOf(node) + 8, boxHeight + 4);
    text(x + 14, y + 19, node);
    return end + 10 * double(levels.size());
  }

  const Machine &machine;
  NodeLayout layout;
  std::string out;
};

} // namespace

std::string drawSvg(const Machine &machine) { return Drawing(machine).draw(); }

} // namespace kolo::cost
