// Phase 1: the global view. Statements run one after the other on all ranks; a statement reads all its sources on all
// ranks before it writes any destination.
#ifndef KOLO_CHOREOGRAPHY_OPS_TD
#define KOLO_CHOREOGRAPHY_OPS_TD

include "Interfaces.td"
include "KoloBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/IR/RegionKindInterface.td"

def ChoreographyOp : KoloOp<"choreography", [IsolatedFromAbove, NoTerminator, SingleBlock, Symbol]> {
  let summary = "a collective, written once for all ranks";
  let description = [{
    ```mlir
    kolo.choreography @ring #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[4], [8]] { ... }
    ```
    `meshes` lists the mesh sizes that the program is compiled for. CheckChoreography adds `checked [#kolo.proof<...>]`, and
    PlaceStaging `in_place direct` where a call whose input lies inside its output may run as it is.

    choreography_c1: between one and four mesh dimensions, with distinct names.
    choreography_c2: the group dimensions are dimensions of the mesh, each at most once.
    choreography_c3: every entry of `meshes` has one positive size per dimension, and at most 1,048,576 ranks.
    choreography_c4: no op of the channel phase inside.
    choreography_c5: every entry of `checked` is of another entry of `meshes`.
    choreography_c6: the step of a loop is a positive constant, also of a loop that is never entered.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, CollectiveAttr:$collective, StrArrayAttr:$mesh,
                   TypedArrayAttrBase<DenseI64ArrayAttr, "mesh sizes">:$meshes,
                   DefaultValuedAttr<InPlaceAttr, "::kolo::InPlace::CopyInput">:$in_place,
                   OptionalAttr<ProofArrayAttr>:$checked);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $sym_name $collective `mesh` $mesh `meshes` custom<Meshes>($meshes) (`in_place` $in_place^)? (`checked` $checked^)?
    attr-dict-with-keyword $body
  }];
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
}

// The three statements share their operands and their body. The body computes, for a sender, what moves where; it is pure,
// and takes the sender's coordinates, then, for a transfer, the receiver's.
class StatementOp<string mnemonic, string isReducing, list<Trait> traits = []>
    : KoloOp<mnemonic, !listconcat(traits, [SingleBlock, StatementInterface])> {
  let regions = (region SizedRegion<1>:$body);
  let hasRegionVerifier = 1;
  let extraClassDeclaration = "bool isReducing() { return " # isReducing # "; }";
}

def TransferOp : StatementOp<"transfer", "getReducing()"> {
  let summary = "every rank sends a slice of a buffer to the ranks that a relation names";
  let description = [{
    ```mlir
    kolo.transfer %out -> %out to [next %k, keep] {
    ^bb0(%node: index, %gpu: index, %peerNode: index, %peerGpu: index):
      kolo.slices from [%node, %gpu] size [%c1, %c1] to [%node, %gpu] size [%c1, %c1]
    } : !kolo.buffer<2> -> !kolo.buffer<2>
    ```
    The source slice is taken at the sender, the destination slice at each receiver; both are computed from the sender's
    coordinates and that receiver's. `reducing` combines with what the receiver has, instead of overwriting it.

    transfer_c1: one step per mesh dimension.
    transfer_c2: one operand per `next`, `flip` and `at` step, in order.
    transfer_c3: the body takes two coordinates, all of type index, per mesh dimension.
  }];
  let arguments = (ins UnitAttr:$reducing, BufferType:$source, BufferType:$destination, StepArrayAttr:$steps,
                   Variadic<Index>:$amounts);
  let assemblyFormat = [{
    (`reducing` $reducing^)? $source `->` $destination `to` custom<Relation>($steps, $amounts) $body attr-dict
    `:` type($source) `->` type($destination)
  }];
  let hasVerifier = 1;
}

def CopyOp : StatementOp<"copy", "false"> {
  let summary = "every rank copies a slice of one of its buffers to another place of its own";
  let description = [{
    ```mlir
    kolo.copy %in -> %out {
    ^bb0(%me: index):
      kolo.slices from [] size [] to [%me] size [%c1]
    } : !kolo.buffer<0> -> !kolo.buffer<1>
    ```
    copy_c1: the body takes one coordinate of type index per mesh dimension.
  }];
  let arguments = (ins BufferType:$source, BufferType:$destination);
  let assemblyFormat = "$source `->` $destination $body attr-dict `:` type($source) `->` type($destination)";
}

def ReduceOp : StatementOp<"reduce", "true"> {
  let summary = "every rank combines a slice of one of its buffers into another place of its own";
  let description = [{
    As `kolo.copy`, but the destination becomes destination op source, op being the call's.

    reduce_c1: the body takes one coordinate of type index per mesh dimension.
  }];
  let arguments = (ins BufferType:$source, BufferType:$destination);
  let assemblyFormat = "$source `->` $destination $body attr-dict `:` type($source) `->` type($destination)";
}

def SlicesOp : KoloOp<"slices", [AttrSizedOperandSegments, Pure, Terminator, ParentOneOf<["TransferOp", "CopyOp", "ReduceOp"]>]> {
  let summary = "what a statement moves: a slice of the source and a slice of the destination";
  let description = [{
    A slice gives an offset and a size per grid dimension. Offsets wrap (modulo the grid's extent) and so does the range that
    starts there. The chunks of both slices are paired in row-major order. Without `when`, or when it is true, this sender
    takes part.

    slices_c1: one offset and one size per grid dimension of the buffer.
    slices_c2: both slices have the same number of ranged dimensions, those whose size is not the constant 1.
    slices_c3: at most one of the two buffers has slots: the other one says how long the chunks are.
    slices_c4: nothing is combined into a buffer whose codec has scales, or is stochastic.
    slices_c5: the buffers do not have two different codecs with scales.
  }];
  let arguments = (ins Variadic<Index>:$sourceOffsets, Variadic<Index>:$sourceSizes,
                   Variadic<Index>:$destinationOffsets, Variadic<Index>:$destinationSizes, Optional<I1>:$condition);
  let assemblyFormat = [{
    `from` `[` $sourceOffsets `]` `size` `[` $sourceSizes `]`
    `to` `[` $destinationOffsets `]` `size` `[` $destinationSizes `]` (`when` $condition^)? attr-dict
  }];
  let hasVerifier = 1;
}

#endif
