// Symbolic expressions as text in the language. Private to dsl/: PrintSource prints the statements around them.
#pragma once

#include "dsl/Recording.h"

#include <map>
#include <set>
#include <string>
#include <vector>

namespace kolo::dsl {

/// Identifiers of C++, each given out once.
class IdentifierSet {
public:
  IdentifierSet();
  /// `wanted`, or what is nearest to it and still free.
  std::string take(const std::string &wanted);
  void giveBack(const std::string &name) { used.erase(name); }

private:
  std::set<std::string> used;
};

/// Prints the expressions of one recording, and remembers which variables the text needs.
class ExpressionPrinter {
public:
  explicit ExpressionPrinter(const Recording &recording);

  /// An index or a condition that can stand between commas. Parts that occur in it more than once get a variable: see
  /// `declarations`.
  std::string print(const ExpressionRef &expression);
  /// The peers that a relation leads to, as a product: "me.next(node).others(gpu)".
  std::string print(const Relation &relation);
  std::string print(const RecordedSlice &slice);

  /// Whether both lead to the same peers, by the same expressions.
  static bool isSameRelation(const Relation &a, const Relation &b);

  IdentifierSet identifiers;
  std::vector<std::string> dims, buffers;          // by number
  std::map<int, std::string> loops;                // indices of the loops around what is printed
  std::map<const Relation *, std::string> peers;   // relations that have a variable where we are
  std::map<const Expression *, std::string> parts; // of expressions: those that have a variable where we are
  std::vector<std::string> declarations;           // of `parts`, that are to stand before what was printed
  struct NamedTable {
    std::string type, name; // "Table", or "std::vector<int64_t>" where ranks are mapped by it
    std::vector<int64_t> entries;
  };
  std::vector<NamedTable> tables; // that the text needs
  std::set<int> usedBuffers, usedLoops;
  bool usesDims = false, usesMe = false, usesRoot = false;

private:
  std::string print(const ExpressionRef &expression, int leastPrecedence);
  std::string printNode(const ExpressionRef &expression, int leastPrecedence);
  void declareParts(const ExpressionRef &expression);
  std::string printLeaf(const Expression &expression);
  std::string printCall(const std::string &name, const ExpressionRef &expression);
  std::string printBinary(const ExpressionRef &expression, const std::string &sign, int precedence);
  /// Coordinates of the root, and `me == root`, as the language writes them; empty: it is neither.
  std::string printRoot(const ExpressionRef &expression);
  bool isOfRoot(const ExpressionRef &expression) const;
  std::string printStep(const Step &step, size_t number);
  std::string printTable(const std::string &type, const std::vector<int64_t> &entries);
  /// "me" of `out[me]`; empty: the slice is no rank's block.
  std::string printOwner(const RecordedSlice &slice);
  /// The rank whose coordinate this is; empty: nobody's that has a name.
  std::string ownerOf(const ExpressionRef &coordinate, int dim) const;
  const std::string &me();
  const std::string &dim(size_t number);

  const Recording &recording;
  std::map<int, ExpressionRef> rootCoordinates; // by dimension
  ExpressionRef isRoot;                         // what `c.rank() == c.root()` records
};

} // namespace kolo::dsl
