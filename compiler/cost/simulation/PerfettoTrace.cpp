#include "compiler/cost/simulation/PerfettoTrace.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <iterator>
#include <utility>

namespace kolo::cost {

namespace {

class TraceWriter {
public:
  TraceWriter(const Timeline &timeline, std::span<const StatementLabel> statements,
              std::span<const std::string> rankNames)
      : timeline(timeline), statements(statements), rankNames(rankNames), threads(timeline.records.size()),
        numThreads(rankNames.size(), 1) {}

  std::string write();

private:
  /// An event; those of one time have an order.
  struct Item {
    double time;
    size_t order;
    uint32_t record;
    uint32_t arrow; // none: the record itself
    bool isEnd;     // of the arrow
  };
  static constexpr uint32_t none = UINT32_MAX;

  void placePuts();
  std::vector<Item> itemsInOrder() const;
  void writeNames();
  void writeItem(const Item &item);
  void next() { text += std::exchange(separator, ",\n"); }
  template <typename... Values> void print(fmt::format_string<Values...> format, Values &&...values) {
    fmt::format_to(std::back_inserter(text), format, std::forward<Values>(values)...);
  }

  const Timeline &timeline;
  std::span<const StatementLabel> statements;
  std::span<const std::string> rankNames;
  std::vector<uint32_t> threads;    // of records
  std::vector<uint32_t> numThreads; // of ranks
  std::vector<std::string> quotedNames, quotedPlaces;
  std::string text;
  const char *separator = "";
};

const char *kindName(Record::Kind kind) {
  switch (kind) {
  case Record::Kind::Move:
    return "move";
  case Record::Kind::Put:
    return "put";
  case Record::Kind::Signal:
    return "signal";
  case Record::Kind::Wait:
    return "wait";
  case Record::Kind::Flush:
    return "flush";
  case Record::Kind::Enter:
    return "enter";
  }
  return "";
}

std::string quoted(const std::string &plain) {
  return nlohmann::json(plain).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

constexpr double microseconds = 1e6;

/// Slices of one thread may not overlap: each put goes to the first thread that is free.
void TraceWriter::placePuts() {
  std::vector<std::vector<uint32_t>> puts(rankNames.size());
  for (uint32_t number = 0; number < timeline.records.size(); ++number)
    if (timeline.records[number].kind == Record::Kind::Put)
      puts[timeline.records[number].rank].push_back(number);
  for (size_t rank = 0; rank < puts.size(); ++rank) {
    std::ranges::sort(puts[rank], {},
                      [&](uint32_t number) { return std::pair(timeline.records[number].begin, number); });
    std::vector<double> freeFrom;
    for (uint32_t number : puts[rank]) {
      const Record &put = timeline.records[number];
      auto thread = std::ranges::find_if(freeFrom, [&](double time) { return time <= put.begin; });
      threads[number] = 1 + uint32_t(thread - freeFrom.begin());
      if (thread == freeFrom.end())
        freeFrom.push_back(put.end);
      else
        *thread = put.end;
    }
    numThreads[rank] += uint32_t(freeFrom.size());
  }
}

/// By time. An arrow's end is drawn at the slice that is the innermost one there: it follows that slice at once.
std::vector<TraceWriter::Item> TraceWriter::itemsInOrder() const {
  std::vector<std::vector<uint32_t>> leaving(timeline.records.size()), arriving(timeline.records.size());
  for (uint32_t arrow = 0; arrow < timeline.arrows.size(); ++arrow) {
    leaving[timeline.arrows[arrow].from].push_back(arrow);
    arriving[timeline.arrows[arrow].to].push_back(arrow);
  }
  std::vector<Item> items;
  for (uint32_t number = 0; number < timeline.records.size(); ++number) {
    double begin = timeline.records[number].begin;
    items.push_back({begin, items.size(), number, none, false});
    for (uint32_t arrow : leaving[number])
      items.push_back({begin, items.size(), number, arrow, false});
    for (uint32_t arrow : arriving[number])
      items.push_back(
          {std::max(begin, timeline.records[timeline.arrows[arrow].from].begin), items.size(), number, arrow, true});
  }
  std::ranges::sort(items, {}, [](const Item &item) { return std::pair(item.time, item.order); });
  return items;
}

void TraceWriter::writeNames() {
  for (size_t rank = 0; rank < rankNames.size(); ++rank) {
    next();
    print(R"({{"ph":"M","name":"process_name","pid":{},"args":{{"name":{}}}}})", rank, quoted(rankNames[rank]));
    next();
    print(R"({{"ph":"M","name":"process_sort_index","pid":{0},"args":{{"sort_index":{0}}}}})", rank);
    for (uint32_t thread = 0; thread < numThreads[rank]; ++thread) {
      next();
      print(R"({{"ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":"{}"}}}})", rank, thread,
            thread == 0 ? "lanes" : fmt::format("puts {}", thread));
    }
  }
}

void TraceWriter::writeItem(const Item &item) {
  const Record &record = timeline.records[item.record];
  uint32_t thread = threads[item.record];
  next();
  if (item.arrow != none) {
    print(R"({{"ph":"{}","cat":"signal","name":"signal","id":{},"pid":{},"tid":{},"ts":{:.6f}{}}})",
          item.isEnd ? "f" : "s", item.arrow, record.rank, thread, item.time * microseconds,
          item.isEnd ? R"(,"bp":"e")" : "");
    return;
  }
  print(
      R"({{"ph":"X","cat":"{0}","name":{1},"pid":{2},"tid":{3},"ts":{4:.6f},"dur":{5:.6f},"args":{{"step":"{0}","statement":{6})",
      kindName(record.kind), quotedNames[record.statement], record.rank, thread, record.begin * microseconds,
      (record.end - record.begin) * microseconds, quotedPlaces[record.statement]);
  if (record.bytes > 0)
    print(R"(,"bytes":{})", record.bytes);
  text += "}}";
}

std::string TraceWriter::write() {
  for (const StatementLabel &statement : statements) {
    quotedPlaces.push_back(quoted(statement.place));
    quotedNames.push_back(quoted(statement.text.empty() ? statement.place : statement.place + "  " + statement.text));
  }
  placePuts();
  text = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n";
  writeNames();
  for (const Item &item : itemsInOrder())
    writeItem(item);
  text += "\n]}\n";
  return std::move(text);
}

} // namespace

std::string perfettoTrace(const Timeline &timeline, std::span<const StatementLabel> statements,
                          std::span<const std::string> rankNames) {
  return TraceWriter(timeline, statements, rankNames).write();
}

} // namespace kolo::cost
