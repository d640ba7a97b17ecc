#include "compiler/import/PlanText.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <iterator>
#include <optional>

namespace kolo::foreign {

namespace {

/// Counts the lines that the parser has read.
struct LineIterator {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char *;
  using reference = const char &;

  const char *at;
  int32_t *line;

  reference operator*() const { return *at; }
  LineIterator &operator++() {
    *line += int32_t(*at == '\n');
    ++at;
    return *this;
  }
  bool operator==(const LineIterator &other) const { return at == other.at; }
  bool operator!=(const LineIterator &other) const { return at != other.at; }
};

/// What nlohmann's parser calls. It has no recursion, and ends when a function returns false.
class Handler {
public:
  explicit Handler(const int32_t &line) : line(line) {
    root.kind = PlanNode::Kind::Array;
    open.push_back(&root);
  }

  // NOLINTBEGIN(readability-identifier-naming): the names are those that nlohmann's parser calls
  bool null() { return add({}); }
  bool boolean(bool value) { return addNumber(PlanNode::Kind::Truth, int64_t(value)); }
  bool number_integer(int64_t value) { return addNumber(PlanNode::Kind::Number, value); }
  bool number_unsigned(uint64_t value) {
    return value > uint64_t(INT64_MAX) ? add({}) : addNumber(PlanNode::Kind::Number, int64_t(value));
  }
  bool number_float(double, const std::string &) { return add({}); }
  bool string(std::string &value) {
    PlanNode node;
    node.kind = PlanNode::Kind::Text;
    node.text = std::move(value);
    return add(std::move(node));
  }
  bool binary(nlohmann::json::binary_t &) { return add({}); }
  bool start_object(size_t) { return begin(PlanNode::Kind::Object); }
  bool start_array(size_t) { return begin(PlanNode::Kind::Array); }
  bool end_object() { return end(); }
  bool end_array() { return end(); }
  bool key(std::string &name) {
    PlanNode &object = *open.back();
    if (object.find(name.c_str()))
      return refuse(fmt::format("{} stands twice in one object", quote(name)));
    object.elements.emplace_back().name = std::move(name);
    return true;
  }
  bool parse_error(size_t, const std::string &, const nlohmann::json::exception &error) {
    std::string text = error.what();
    return refuse("is no JSON: " + text.substr(std::min(text.find("] ") + 2, text.size())));
  }
  // NOLINTEND(readability-identifier-naming)

  PlanNode root; // an array of the one value
  std::optional<Refusal> refusal;

private:
  bool refuse(std::string message) {
    refusal = Refusal{line, std::move(message)};
    return false;
  }
  PlanNode &place() {
    PlanNode &parent = *open.back();
    return parent.kind == PlanNode::Kind::Object ? parent.elements.back() : parent.elements.emplace_back();
  }
  bool add(PlanNode node) {
    if (++numValues > mostValues)
      return refuse(fmt::format("has more than {} values, and no executor reads so many", mostValues));
    PlanNode &there = place();
    node.line = line;
    node.name = std::move(there.name);
    there = std::move(node);
    return true;
  }
  bool addNumber(PlanNode::Kind kind, int64_t value) {
    PlanNode node;
    node.kind = kind;
    node.number = value;
    return add(std::move(node));
  }
  bool begin(PlanNode::Kind kind) {
    if (open.size() > mostLevels)
      return refuse(fmt::format("has more than {} levels, and plans have fewer", mostLevels));
    PlanNode node;
    node.kind = kind;
    if (!add(std::move(node)))
      return false;
    PlanNode &parent = *open.back();
    open.push_back(&parent.elements.back());
    return true;
  }
  bool end() {
    open.pop_back();
    return true;
  }

  static constexpr size_t mostLevels = 32;
  static constexpr int64_t mostValues = 1 << 22;
  int64_t numValues = 0;
  const int32_t &line;
  std::vector<PlanNode *> open; // a parent gets no further child while one is open, so none of them moves
};

} // namespace

const PlanNode *PlanNode::find(const char *wanted) const {
  auto found = std::ranges::find(elements, wanted, &PlanNode::name);
  return found == elements.end() ? nullptr : &*found;
}

std::variant<PlanNode, Refusal> readPlanText(const ForeignText &source) {
  const std::string &text = source.text();
  int32_t line = 1;
  Handler handler(line);
  LineIterator first{text.data(), &line}, last{text.data() + text.size(), &line};
  bool isRead = nlohmann::json::sax_parse(first, last, &handler);
  if (handler.refusal)
    return std::move(*handler.refusal);
  if (!isRead || handler.root.elements.size() != 1)
    return Refusal{line, "is no JSON"};
  return std::move(handler.root.elements.front());
}

} // namespace kolo::foreign
