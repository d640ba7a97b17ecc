// Every pass, in the order in which Pipeline.cpp runs them.
include "mlir/Pass/PassBase.td"

// Of passes that ask the checker what a program may do without. The budget of the first guess is each pass's own.
defvar optionsOfGuess = [
  Option<"inFull", "in-full", "bool", "false",
         "ask about the meshes themselves; without it, a small mesh is asked about, and kolo-check-program confirms the answer">,
  Option<"budget", "budget", "int64_t", "int64_t(1) << 31", "as that of kolo-check-program">,
  Option<"represented", "represented", "bool", "false", "as that of kolo-check-program">,
  Option<"standInBudget", "stand-in-budget", "int64_t", "1 << 20", "as that of kolo-check-program">
];

def CheckChoreography : Pass<"kolo-check-choreography", "::kolo::ChoreographyOp"> {
  let summary = "refuses a choreography that does not do what its collective asks, at the author's line";
  let description = [{
    Runs the choreography over symbolic chunks on every mesh that it is compiled for, with every root. Reports:

    - slices out of range, and relations that the mesh does not allow;
    - chunks that a statement reads before any wrote them, or that one statement writes twice;
    - chunks of different size that are moved onto each other;
    - loops with more executions, and grids with more chunks, than can be gone through;
    - a result that is not the collective's.

    A smaller mesh of the same kind replaces one of more than 64 ranks (32 for a collective with a root); powers of two stay
    powers of two. The attribute `checked` records the mesh that was looked at.
  }];
  let options = [Option<"result", "result", "bool", "true", "check the result too, not only the statements">];
}

def PlaceSlots : Pass<"kolo-place-slots", "::kolo::ChoreographyOp"> {
  let summary = "sends what combines over a network to slots of its receiver, which combines it";
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect"];
}

def FuseStripes : Pass<"kolo-fuse-stripes", "::kolo::ChoreographyOp"> {
  let summary = "runs the variants of a stripe side by side";
}

def PlaceStaging : Pass<"kolo-place-staging", "::kolo::ChoreographyOp"> {
  let summary = "gives statements that read memory that they also write a staging buffer";
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect"];
}

def PublishInputs : Pass<"kolo-publish-inputs", "::kolo::ChoreographyOp"> {
  let summary = "every rank publishes its input; transfers from the input become reads of published inputs";
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

def PlacePackets : Pass<"kolo-place-packets", "::kolo::ChoreographyOp"> {
  let summary = "every transfer uses packets with the number of the call; the receiver copies the data out of them";
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect"];
  let options = [Option<"ll128", "ll128", "bool", "false", "LL128: packets of 128 bytes, 120 of them data; else LL: 8 bytes, 4 of them data">];
}

def Project : Pass<"kolo-project", "::mlir::ModuleOp"> {
  let summary = "turns every choreography into the program of one rank";
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect"];
  let options = [Option<"transfers", "transfers", "::kolo::Transfers", "::kolo::Transfers::Auto",
                        "which side moves the data of a transfer that overwrites", [{::llvm::cl::values(
                          clEnumValN(::kolo::Transfers::Auto, "auto", "the receiver reads what only a root has; else the sender writes"),
                          clEnumValN(::kolo::Transfers::Push, "push", "the sender writes"),
                          clEnumValN(::kolo::Transfers::Pull, "pull", "the receiver reads"))}]>,
                 Option<"together", "together", "bool", "false", "every rank waits for all others before the first transfer">];
}

def PlaceEncoding : Pass<"kolo-place-encoding", "::kolo::ProgramOp"> {
  let summary = "encodes what goes to packets, and decodes what comes out of them, in scratch memory";
}

def VerifyProjected : Pass<"kolo-verify-projected", "::mlir::ModuleOp"> {
  let summary = "states what holds from kolo-project on";
  let description = [{
    Refuses a module in which a choreography is left, and a program of kolo-project that a later pass could not work on:
    constraints projected_c1 to projected_c6 of compiler/project/VerifyProjected.cpp. Changes nothing.
  }];
}

def PlacePipeline : Pass<"kolo-place-pipeline", "::kolo::ProgramOp"> {
  let summary = "cuts chunks into slices that go through the phases of the program one behind the other";
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect"];
  let options = [Option<"depth", "depth", "int64_t", "1", "slices per chunk; 1 leaves the program as it is">];
}

def InferSynchronisation : Pass<"kolo-infer-synchronisation", "::kolo::ProgramOp"> {
  let summary = "adds the weakest credits with which the checker proves the program, and drops redundant signals";
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect"];
  let options = !listconcat(optionsOfGuess, [
    Option<"guessBudget", "guess-budget", "int64_t", "1 << 13", "bytes that the first guess on small meshes may take">
  ]);
}

def InferHandshake : Pass<"kolo-infer-handshake", "::kolo::ProgramOp"> {
  let summary = "adds the signals that make every transfer wait for both sides";
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect"];
}

def PlaceLanes : Pass<"kolo-place-lanes", "::kolo::ProgramOp"> {
  let summary = "lets every lane move its own part of every chunk";
}

def VerifySynchronised : Pass<"kolo-verify-synchronised", "::kolo::ProgramOp"> {
  let summary = "states what holds once synchronisation is inferred and lanes are placed";
  let description = [{
    Refuses a program that an earlier pass left half done: constraints synchronised_c1 and synchronised_c2 of
    compiler/sync/VerifySynchronised.cpp. Changes nothing. kolo-check-program decides whether the synchronisation is right.
  }];
}

def FuseMoves : Pass<"kolo-fuse-moves", "::kolo::ProgramOp"> {
  let summary = "makes one pass over memory of moves that have a chunk in common, also in other codecs";
  let dependentDialects = ["::mlir::scf::SCFDialect"];
  let options = !listconcat(optionsOfGuess, [
    Option<"guessBudget", "guess-budget", "int64_t", "1 << 13", "bytes that the first guess on small meshes may take">
  ]);
}

def FuseDivision : Pass<"kolo-fuse-division", "::kolo::ProgramOp"> {
  let summary = "divides an average in the pass over memory that makes its sum";
  let options = !listconcat(optionsOfGuess, [
    Option<"guessBudget", "guess-budget", "int64_t", "1 << 14", "bytes that the first guess on small meshes may take">
  ]);
}

def CheckProgram : Pass<"kolo-check-program", "::kolo::ProgramOp"> {
  let summary = "refuses a program that is not proved right, with the shortest interleaving that breaks it";
  let description = [{
    Asks the checker (compiler/check/Verdict.h) about the program on every mesh that it is compiled for, whoever wrote it. The
    attribute `proved` records the meshes on which it is proved, each with the mesh that the checker ran for it.
  }];
  let options = [
    Option<"unproved", "unproved", "bool", "false", "warn instead of refusing, and mark the program `unproved`">,
    Option<"transport", "transport", "std::string", "\"\"",
                        "shared, peer, network, network:nics=K, staged or direct; empty: what network_dims and network_staged say">,
    Option<"budget", "budget", "int64_t", "int64_t(1) << 31", "bytes that the check of one mesh may take">,
    Option<"represented", "represented", "bool", "false", "let a smaller mesh stand for one that takes more">,
    Option<"standInBudget", "stand-in-budget", "int64_t", "1 << 20", "bytes that the check of such a smaller mesh may take">,
    Option<"steps", "steps", "bool", "true", "explain a refutation by the shortest interleaving, which costs a second run">,
    Option<"oneOrder", "one-order", "bool", "false", "refuse a program whose sums have no order of their own (V12)">
  ];
}
