// CheckProgram: refuses a program that is not proved right, at the author's line, with the shortest interleaving that
// breaks it.
//   Changes nothing but attributes: `proved`, one proof per proved mesh; on a program with codecs `lossy`, and with the
//   option `one-order` `sum_order`, one entry per proof; and `block_tables`, see BlockTables.h. With the option
//   `unproved` it lets any program pass, and sets `unproved` on one that is not proved on all of its meshes. With the
//   option `represented` a smaller mesh may stand for one that the budget does not suffice for, and the proof names it.
//   A program that it refuses for a counterexample keeps the mark `refuted`.
// Requires channel form, whoever wrote it. Runs last, so that the target gets the program that was proved.
#include "compiler/Passes.h"
#include "compiler/check/ShowVerdict.h"
#include "ir/BlockTables.h"

using namespace mlir;

namespace kolo {
#define GEN_PASS_DEF_CHECKPROGRAM
#include "compiler/Passes.h.inc"

namespace {

struct CheckProgram : impl::CheckProgramBase<CheckProgram> {
  using CheckProgramBase::CheckProgramBase;

  void runOnOperation() override {
    ProgramOp program = getOperation();
    CheckOptions options = optionsOfProof(program, {budget, represented, standInBudget});
    std::optional<Transport> chosen = transport.empty() ? transportOf(program) : parseTransport(transport);
    if (!chosen) {
      program.emitError() << "there is no transport '" << transport << "'";
      return signalPassFailure();
    }
    options.transport = *chosen;
    options.wantSteps = steps;
    options.needsOneOrder = oneOrder;
    SmallVector<Attribute> proved, losses, orders, tables;
    std::vector<Verdict> others;
    for (auto mesh : program.getMeshes().getAsRange<DenseI64ArrayAttr>()) {
      Verdict verdict = checkProgram(program, mesh, options);
      if (!verdict.isProved()) {
        others.push_back(std::move(verdict));
        continue;
      }
      SmallVector<int64_t> from;
      if (llvm::any_of(verdict.allSizes, [](const AllSizes &each) { return each.from.has_value(); }))
        for (from.assign(mesh.size(), 0); const AllSizes &each : verdict.allSizes)
          from[each.dim] = each.from.value_or(0);
      proved.push_back(ProofAttr::get(&getContext(), mesh, verdict.checkedOn, from));
      losses.push_back(lossesAsAttribute(program, verdict));
      orders.push_back(orderAsAttribute(program, verdict));
      tables.push_back(tablesAsAttribute(program, verdict));
    }
    report(others);
    if (oneOrder && !unproved && others.empty() && failed(compareOrders(orders)))
      return signalPassFailure();
    // The order of sums is the algorithm's: no search for synchronisation changes it.
    auto isRefuted = [](const Verdict &verdict) {
      return verdict.refutation && verdict.refutation->property != Property::OneOrder;
    };
    if (!others.empty() && !unproved) {
      if (llvm::any_of(others, isRefuted))
        program->setDiscardableAttr(refutedAttrName, UnitAttr::get(&getContext()));
      return signalPassFailure();
    }
    program.setProvedAttr(ArrayAttr::get(&getContext(), proved));
    program.setUnproved(!others.empty());
    program->removeDiscardableAttr(lossyAttrName);
    if (findCoded(program))
      program->setDiscardableAttr(lossyAttrName, ArrayAttr::get(&getContext(), losses));
    program->removeDiscardableAttr(blockTablesAttrName);
    if (!tables.empty() && mayHaveBlockTables(program.getCollective().getKind()))
      program->setDiscardableAttr(blockTablesAttrName, ArrayAttr::get(&getContext(), tables));
    program->removeDiscardableAttr(sumOrderAttrName);
    if (oneOrder)
      program->setDiscardableAttr(sumOrderAttrName, ArrayAttr::get(&getContext(), orders));
  }

  /// Meshes of as many ranks sum in the same order, so that the shape of the mesh does not matter.
  LogicalResult compareOrders(ArrayRef<Attribute> orders) {
    auto meshes = llvm::to_vector(getOperation().getMeshes().getAsRange<DenseI64ArrayAttr>());
    auto numRanks = [](DenseI64ArrayAttr mesh) { return llvm::product_of(mesh.asArrayRef()); };
    for (auto [index, mesh] : llvm::enumerate(meshes))
      for (size_t other = 0; other < index; ++other)
        if (numRanks(mesh) == numRanks(meshes[other]) && orders[index] != orders[other])
          return getOperation().emitError()
                 << "sums in another order on mesh " << describeMesh(getOperation(), mesh) << " than on mesh "
                 << describeMesh(getOperation(), meshes[other]) << ", which has as many ranks ("
                 << shortName(Property::OneOrder) << ": " << title(Property::OneOrder) << ")";
    return success();
  }

  /// A mistake that shows on several meshes is explained on the first.
  void report(ArrayRef<Verdict> verdicts) {
    for (auto [index, verdict] : llvm::enumerate(verdicts)) {
      auto isSame = [&](const Verdict &other) { return areSame(verdict, other); };
      if (llvm::any_of(verdicts.take_front(index), isSame))
        continue;
      Location loc = locationOf(getOperation(), verdict);
      InFlightDiagnostic diagnostic = unproved ? emitWarning(loc) : emitError(loc);
      diagnostic << describe(getOperation(), verdict);
      if (verdict.tooLarge && !represented)
        diagnostic << representedHint;
      for (const Remark &remark : explain(verdict))
        diagnostic.attachNote(remark.loc) << remark.text;
      for (const Verdict &other : llvm::make_filter_range(verdicts.drop_front(index + 1), isSame))
        diagnostic.attachNote(loc) << "the same on mesh " << describeMesh(getOperation(), other.mesh);
    }
  }

  static bool areSame(const Verdict &a, const Verdict &b) {
    return a.refutation && b.refutation && a.refutation->property == b.refutation->property &&
           a.refutation->op == b.refutation->op && a.refutation->otherOp == b.refutation->otherOp &&
           a.refutation->loc == b.refutation->loc;
  }
};

} // namespace
} // namespace kolo
