// The table of mutants.
#include "Tally.h"

#include "llvm/Support/Format.h"

namespace kolo::mutation {

Counts &Counts::operator+=(const Counts &other) {
  unchanged += other.unchanged;
  flagged += other.flagged;
  harmless += other.harmless;
  missed += other.missed;
  flaggedHarmless += other.flaggedHarmless;
  numJudged += other.numJudged;
  return *this;
}

Tally &Tally::operator+=(const Tally &other) {
  all += other.all;
  for (size_t kind = 0; kind < numMutantKinds; ++kind)
    byKind[kind] += other.byKind[kind];
  for (size_t property = 0; property < byProperty.size(); ++property)
    byProperty[property] += other.byProperty[property];
  return *this;
}

std::string tableHead() {
  return std::string(34, ' ') + "mutants  flagged  harmless  missed  (flagged, judged harmless)  unchanged\n";
}

std::string tableRow(llvm::StringRef name, const Counts &counts) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << llvm::format("%-34s%7ld  %7ld  %8ld  %6ld", name.str().c_str(), long(counts.mutants()),
                         long(counts.flagged), long(counts.harmless), long(counts.missed));
  if (counts.numJudged)
    stream << llvm::format("%12ld of %-12ld", long(counts.flaggedHarmless), long(counts.numJudged));
  else
    stream << llvm::format("%-27s", "   not judged");
  stream << llvm::format("%9ld\n", long(counts.unchanged));
  return text;
}

std::string table(const std::vector<std::pair<std::string, Tally>> &byAlgorithm) {
  std::string text = tableHead();
  Tally total;
  for (const auto &[name, tally] : byAlgorithm) {
    text += tableRow(name, tally.all);
    total += tally;
  }
  text += tableRow("total", total.all) + "\n" + tableHead();
  for (size_t kind = 0; kind < numMutantKinds; ++kind)
    text += tableRow(nameOf(MutantKind(kind)), total.byKind[kind]);
  text += "\nflagged because of";
  for (size_t property = 0; property < total.byProperty.size(); ++property)
    if (total.byProperty[property])
      text += " " + shortName(Property(property)) + ": " + std::to_string(total.byProperty[property]);
  return text + "\n";
}

} // namespace kolo::mutation
