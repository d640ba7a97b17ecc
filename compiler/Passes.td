// Every pass, in the order in which Pipeline.cpp runs them.
include "mlir/Pass/PassBase.td"

def CheckChoreography : Pass<"kolo-check-choreography", "::kolo::ChoreographyOp"> {
  let summary = "refuses a choreography that is not what it says, at the author's line";
  let description = [{
    Runs the choreography over symbolic chunks on every mesh it is compiled for, with every root, and reports: slices out of
    range, relations that the mesh does not allow, chunks read before they were written, chunks written twice in one
    statement, chunks of different size, and a result that is not the collective's. A mesh of more than 64 ranks (32 for a
    collective with a root) is replaced by a smaller one of the same kind (powers of two stay powers of two); what was
    looked at is recorded in the attribute `kolo.checked`.
  }];
  let options = [Option<"result", "result", "bool", "true", "check the result too, not only every statement">];
}

def FuseStripes : Pass<"kolo-fuse-stripes", "::kolo::ChoreographyOp"> {
  let summary = "runs the variants of a stripe side by side";
}

def PlaceStaging : Pass<"kolo-place-staging", "::kolo::ChoreographyOp"> {
  let summary = "gives statements that read what they write a staging buffer";
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect"];
}

def PublishInputs : Pass<"kolo-publish-inputs", "::kolo::ChoreographyOp"> {
  let summary = "every rank publishes its input, and transfers from the input become reads of what is published";
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

def PlacePackets : Pass<"kolo-place-packets", "::kolo::ChoreographyOp"> {
  let summary = "what is sent goes in packets, which carry the number of the call, and on from there";
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect"];
  let options = [Option<"ll128", "ll128", "bool", "false", "packets of 128 bytes, 120 of them data, not of 8 and 4">];
}

def Project : Pass<"kolo-project", "::mlir::ModuleOp"> {
  let summary = "turns every choreography into the program of one rank";
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect"];
  let options = [Option<"transfers", "transfers", "::kolo::Transfers", "::kolo::Transfers::Auto",
                        "who moves what overwrites its destination", [{::llvm::cl::values(
                          clEnumValN(::kolo::Transfers::Auto, "auto", "what exists at a root only is pulled"),
                          clEnumValN(::kolo::Transfers::Push, "push", "the sender writes"),
                          clEnumValN(::kolo::Transfers::Pull, "pull", "the receiver reads"))}]>,
                 Option<"together", "together", "bool", "false", "every rank waits for all others before the first transfer">];
}

def PlacePipeline : Pass<"kolo-place-pipeline", "::kolo::ProgramOp"> {
  let summary = "cuts chunks into slices that go through the program's phases one behind the other";
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect"];
  let options = [Option<"depth", "depth", "int64_t", "1", "slices per chunk; 1 leaves the program as it is">];
}

def InferSynchronisation : Pass<"kolo-infer-synchronisation", "::kolo::ProgramOp"> {
  let summary = "adds the weakest credits with which the checker proves the program, and elides the rest";
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect"];
  let options = [Option<"budget", "budget", "int64_t", "1 << 20",
                        "bytes that the check of one mesh may take; a larger one is replaced by a smaller one">];
}

def InferHandshake : Pass<"kolo-infer-handshake", "::kolo::ProgramOp"> {
  let summary = "adds the signals that make every transfer wait for both sides";
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect"];
}

def PlaceLanes : Pass<"kolo-place-lanes", "::kolo::ProgramOp"> {
  let summary = "lets every lane move its own part of every chunk";
}

def FuseMoves : Pass<"kolo-fuse-moves", "::kolo::ProgramOp"> {
  let summary = "moves that have a chunk in common become one pass over memory";
  let dependentDialects = ["::mlir::scf::SCFDialect"];
  let options = [Option<"budget", "budget", "int64_t", "1 << 13",
                        "bytes that the check of one mesh may take; a larger one is replaced by a smaller one">];
}

def FuseDivision : Pass<"kolo-fuse-division", "::kolo::ProgramOp"> {
  let summary = "the division that ends an average becomes part of the pass over memory that makes the sum";
  let options = [Option<"budget", "budget", "int64_t", "1 << 13",
                        "bytes that the check of one mesh may take; a larger one is replaced by a smaller one">];
}

def CheckProgram : Pass<"kolo-check-program", "::kolo::ProgramOp"> {
  let summary = "refuses a program that is not proved right, with the shortest interleaving that breaks it";
  let description = [{
    Asks the checker (compiler/check/Verdict.h) about the program on every mesh it is compiled for, whoever wrote it. The
    meshes that it is proved on are recorded in the attribute `kolo.proved`, each with the mesh that was run through for it.
  }];
  let options = [
    Option<"unproved", "unproved", "bool", "false", "warn instead of refusing, and set the attribute `kolo.unproved`">,
    Option<"transport", "transport", "std::string", "\"shared\"", "shared, peer, network or network:nics=K">,
    Option<"budget", "budget", "int64_t", "1 << 20", "bytes that one mesh may take; a larger one is replaced by a smaller one">
  ];
}
