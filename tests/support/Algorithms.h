// The shipped algorithms, and what the compiler takes them for. Used by the tests of several folders.
#pragma once

#include "dsl/EmitChoreography.h"
#include "kolo/runtime/Types.h"

#include <gtest/gtest.h>

namespace kolo::test {

using Sizes = std::vector<int64_t>; // of a mesh, slowest dimension first

/// Those that the compiler lowers: without codecs. In an order that linking does not change.
std::vector<std::string> algorithmNames();
/// Those that sweeps over meshes, mutants and interleavings take by default. Sweeps of the others take minutes each:
/// all are swept with KOLO_SWEEP=all, as `ctest -L heavy` does.
std::vector<std::string> sweptAlgorithmNames();
/// KOLO_SWEEP=all.
bool isSweep();
/// Of the names, some for each collective and each kind of structure. All with KOLO_SWEEP=all. For runs of what other
/// tests run with all algorithms: another protocol of packets, or tables with packets.
std::vector<std::string> exampleNames(std::vector<std::string> names);
bool isExample(const std::string &name);
/// Those whose buffers have codecs.
std::vector<std::string> codedAlgorithmNames();
const dsl::Definition &definitionOf(const std::string &name);
runtime::Mesh namedMesh(const dsl::Definition &definition, const Sizes &sizes);
/// Whether an algorithm has statements that run in nodes of 8 devices alone: trees of a Frontier node.
inline bool isForFrontier(const dsl::Definition &definition) { return definition.name.starts_with("frontier"); }
/// A mesh of 8 ranks, or of 16 if it takes as many, with the dimensions of an algorithm.
Sizes smallMesh(const dsl::Definition &definition);
/// "2x4".
std::string textOf(llvm::ArrayRef<int64_t> mesh);

/// Makes a context with the dialects that choreographies use.
std::unique_ptr<mlir::MLIRContext> makeContext();
/// Fails the test where the algorithm has mistakes of the language.
mlir::OwningOpRef<mlir::ModuleOp> emit(mlir::MLIRContext &context, const std::string &name,
                                       const std::vector<Sizes> &meshes,
                                       const std::map<std::string, codec::Codec> &codecs = {});

/// Has choreographies cross a staged network along the slowest dimension of their meshes.
void useStagedNetwork(mlir::ModuleOp choreographies);

/// What an algorithm says of a mesh that it is not for; empty: it is for it.
std::string requirementAgainst(const std::string &name, const Sizes &mesh);

/// Those of the meshes that the compiler takes an algorithm for. Fails the test where it refuses one for a reason that
/// is not documented.
std::vector<Sizes> allowedMeshes(const std::string &name, std::vector<Sizes> candidates);

/// Whether the compiler said that packets do not suit a choreography's slots, or that it has no input to publish.
bool isProtocolUnsuited(llvm::StringRef said);
/// Those that send something straight from their input, which can be published.
std::vector<std::string> publishingAlgorithmNames();
/// Those that can send in packets: packets can stand for all slots that they send to.
std::vector<std::string> packetAlgorithmNames();
/// Those with codecs that can.
std::vector<std::string> codedPacketAlgorithmNames();

class EveryAlgorithm : public testing::TestWithParam<std::string> {};

} // namespace kolo::test
