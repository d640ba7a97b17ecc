// Phase 2: one rank's view. Every lane of every rank runs the same program; all synchronisation is explicit.
#ifndef KOLO_CHANNEL_OPS_TD
#define KOLO_CHANNEL_OPS_TD

include "Interfaces.td"
include "KoloBase.td"
include "mlir/IR/SymbolInterfaces.td"

class ChannelOp<string mnemonic, list<Trait> traits = []> : KoloOp<"chan." # mnemonic, traits>;

def ProgramOp : ChannelOp<"program", [IsolatedFromAbove, NoTerminator, SingleBlock, Symbol]> {
  let summary = "what every rank runs";
  let description = [{
    ```mlir
    kolo.chan.program @ring #kolo.collective<all_gather over 0> mesh ["rank"] meshes [[4]] semaphores 2 { ... }
    ```
    A semaphore is a counter that only grows, one per (number below `semaphores`, sending rank, receiving rank, lane). It
    keeps its value from one invocation to the next. A user may write this phase by hand.

    program_c1: between one and four mesh dimensions, with distinct names.
    program_c2: the group dimensions are dimensions of the mesh, each at most once.
    program_c3: every entry of `meshes` has one positive size per dimension, and at most 1,048,576 ranks.
    program_c4: no statement of the choreography phase inside.
    program_c5: a published buffer is written by this rank only, and only before `enter`.
    program_c6: any rank puts packets, then the rank that owns them copies or reduces them. No other op touches them, no fuse
    does, and no move goes from packets to packets.
    program_c7: where there are packets, ranks access nothing else of each other's: a packet says nothing of other memory.
    program_c8: packets are moved whole, or part `lane` of `num_lanes`. Each of these parts has a packet even if it is empty.
    program_c9: where some packets are LL128, all are.
    program_c10: every entry of `proved` is of another entry of `meshes`.
    program_c11: `unproved` says that some entry of `meshes` is not among `proved`.
    program_c12: a program that needs a handshake has no credits yet.
    program_c13: all signals and waits of one semaphore are credits of the same kind, or none of them is a credit.
    program_c14: the step of a loop is a positive constant, also of a loop that is never entered.

    The passes state here what later ones rely on:

    | clause | meaning | from |
    |---|---|---|
    | `in_place direct` | a call whose input lies inside its output may run as it is | PlaceStaging |
    | `needs_handshake` | the program has data signals only: nothing yet keeps a peer from writing too early | Project |
    | `proved [...]` | the checker has proved the program on these meshes | CheckProgram |
    | `unproved` | the caller accepts the program though it is not proved on every mesh | CheckProgram |
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, CollectiveAttr:$collective, StrArrayAttr:$mesh,
                   TypedArrayAttrBase<DenseI64ArrayAttr, "mesh sizes">:$meshes, I64Attr:$semaphores,
                   DefaultValuedAttr<InPlaceAttr, "::kolo::InPlace::CopyInput">:$in_place, UnitAttr:$needs_handshake,
                   OptionalAttr<ProofArrayAttr>:$proved, UnitAttr:$unproved);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $sym_name $collective `mesh` $mesh `meshes` custom<Meshes>($meshes) `semaphores` $semaphores (`in_place` $in_place^)?
    (`needs_handshake` $needs_handshake^)? (`proved` $proved^)? (`unproved` $unproved^)? attr-dict-with-keyword $body
  }];
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
}

def CoordOp : ChannelOp<"coord", [Pure]> {
  let summary = "this rank's coordinate along one mesh dimension";
  let description = "Example: `%node = kolo.chan.coord 0`. coord_c1: the dimension exists in the program's mesh.";
  let arguments = (ins I64Attr:$dim);
  let results = (outs Index:$result);
  let assemblyFormat = "$dim attr-dict";
  let hasVerifier = 1;
}

def LaneOp : ChannelOp<"lane", [Pure]> {
  let summary = "number of this lane";
  let results = (outs Index:$result);
  let assemblyFormat = "attr-dict";
}

def NumLanesOp : ChannelOp<"num_lanes", [Pure]> {
  let summary = "number of lanes of every rank";
  let results = (outs Index:$result);
  let assemblyFormat = "attr-dict";
}

def SignalOp : ChannelOp<"signal"> {
  let summary = "adds one to a semaphore at a peer";
  let description = [{
    Example: `kolo.chan.signal 0 to %peer`. Never blocks. The lane that waits for the signal then sees what this lane put to
    that peer before. It also sees everything that this lane wrote itself or had waited for.

    `kolo.chan.signal 1 to %peer credit(entry)` announces no data: it gives a credit of this kind (`CreditKind`).

    signal_c1: the semaphore is one of the program's.
  }];
  let arguments = (ins I64Attr:$semaphore, Index:$rank, OptionalAttr<CreditKindAttr>:$credit);
  let assemblyFormat = "$semaphore `to` $rank (`credit` `` $credit^)? attr-dict";
  let hasVerifier = 1;
}

def WaitOp : ChannelOp<"wait"> {
  let summary = "waits for the next signal of a peer";
  let description = [{
    Example: `kolo.chan.wait 0 from %peer`, or `kolo.chan.wait 1 from %peer credit(entry)` for a credit. The k-th wait on a
    semaphore, counted over all invocations, returns once it was signalled k times.

    wait_c1: the semaphore is one of the program's.
  }];
  let arguments = (ins I64Attr:$semaphore, Index:$rank, OptionalAttr<CreditKindAttr>:$credit);
  let assemblyFormat = "$semaphore `from` $rank (`credit` `` $credit^)? attr-dict";
  let hasVerifier = 1;
}

def EnterOp : ChannelOp<"enter"> {
  let summary = "waits until every rank has entered this invocation";
  let description = [{
    Returns once this lane of every rank of the mesh has reached it in this invocation. Then every rank sees what the others
    wrote into published buffers before. It orders no puts of earlier invocations that nobody waited for.

    enter_c1: at the top level of a program, which has one at most.
    enter_c2: nothing comes before it but what fills published buffers from this rank's own memory.
  }];
  let assemblyFormat = "attr-dict";
  let hasVerifier = 1;
}

def FlushOp : ChannelOp<"flush"> {
  let summary = "waits until the sources of all this lane's puts may be overwritten";
  let assemblyFormat = "attr-dict";
}

// Part p of P of a chunk holds the chunk's elements from p*m/P to (p+1)*m/P, rounded as chunks are (see kolo.buffer). Here m
// is the distance of slots for such chunks, however long this chunk is. So a part of a slot is the same memory whichever
// chunk lies in it, and parts of different numbers never meet.
class MoveOp<string mnemonic, dag rank, string rankFormat, string sourceRank, string destinationRank>
    : ChannelOp<mnemonic, [AttrSizedOperandSegments, MoveInterface]> {
  let arguments = !con((ins BufferType:$source, Variadic<Index>:$sourceOffsets, Variadic<Index>:$sourceSizes,
                        BufferType:$destination, Variadic<Index>:$destinationOffsets, Variadic<Index>:$destinationSizes),
                       rank, (ins Optional<Index>:$part, Optional<Index>:$parts));
  let assemblyFormat = "$source `[` $sourceOffsets `]` `size` `[` $sourceSizes `]` `->` "
                       "$destination `[` $destinationOffsets `]` `size` `[` $destinationSizes `]` " # rankFormat #
                       "(`part` $part^ `of` $parts)? attr-dict `:` type($source) `->` type($destination)";
  let extraClassDeclaration = "::mlir::Value getSourceRank() { return " # sourceRank # "; }\n"
                              "::mlir::Value getDestinationRank() { return " # destinationRank # "; }";
  let hasVerifier = 1;
}

def PutOp : MoveOp<"put", (ins Index:$rank), "`to` $rank ", "nullptr", "getRank()"> {
  let summary = "writes a slice of this rank's memory to a peer's";
  let description = [{
    Example: `kolo.chan.put %out[%i] size [%c1] -> %out[%i] size [%c1] to %peer : !kolo.buffer<1> -> !kolo.buffer<1>`.
    Complete at the peer once it waited for a signal that followed; the source may be overwritten after a flush.

    put_c1: one offset and one size per grid dimension. put_c2: both slices have the same number of ranged dimensions.
    put_c3: `part` and `of` come together. put_c4: at most one of the two buffers has slots.
    put_c5: the buffers do not have two different codecs with scales.
  }];
}

def GetOp : MoveOp<"get", (ins Index:$rank), "`from` $rank ", "getRank()", "nullptr"> {
  let summary = "reads a slice of a peer's memory into this rank's";
  let description = [{
    Complete when the op is.

    get_c1: one offset and one size per grid dimension. get_c2: both slices have the same number of ranged dimensions.
    get_c3: `part` and `of` come together. get_c4: at most one of the two buffers has slots.
    get_c5: the buffers do not have two different codecs with scales.
  }];
}

def ChannelCopyOp : MoveOp<"copy", (ins), "", "nullptr", "nullptr"> {
  let summary = "copies inside this rank's memory";
  let description = [{
    copy_c2: one offset and one size per grid dimension. copy_c3: both slices have the same number of ranged dimensions.
    copy_c4: `part` and `of` come together. copy_c5: at most one of the two buffers has slots.
    copy_c6: the buffers do not have two different codecs with scales.
  }];
}

def ChannelReduceOp : MoveOp<"reduce", (ins Optional<Index>:$rank), "(`from` $rank^)? ", "getRank()", "nullptr"> {
  let summary = "combines a slice, of this rank's memory or of a peer's, into this rank's";
  let description = [{
    The destination becomes destination op source, op being the call's. Complete when the op is.

    reduce_c2: one offset and one size per grid dimension. reduce_c3: both slices have the same number of ranged dimensions.
    reduce_c4: `part` and `of` come together. reduce_c5: at most one of the two buffers has slots.
    reduce_c6: nothing is combined into a buffer whose codec has scales, or is stochastic.
  }];
}

def FuseOp : ChannelOp<"fuse", [AttrSizedOperandSegments, NoTerminator, SingleBlock]> {
  let summary = "moves that have a chunk in common, done element by element";
  let description = [{
    ```mlir
    kolo.chan.fuse %out[%me] size [%c1] part %lane of %lanes : !kolo.buffer<1> {
      kolo.chan.copy %in[%me] size [%c1] -> %out[%me] size [%c1] part %lane of %lanes : ...
      scf.for %k = %c1 to %n step %c1 {
        %peer = ...
        kolo.chan.reduce %in[%me] size [%c1] -> %out[%me] size [%c1] from %peer part %lane of %lanes : ...
      }
      kolo.chan.put %out[%me] size [%c1] -> %all[%me] size [%c1] to %next part %lane of %lanes : ...
    }
    ```
    The body runs once for every element of the chunk, in any order of the elements. Its moves are those of that one element.
    Each of its sources is read before anything is written. So every source is read once, however often it is used, and the
    sum of many sources needs no memory. Otherwise the moves mean what they mean outside.

    In a program with codecs, the body runs once for every granule. What a move out of the slice has made, later moves may pass
    on: so a granule is encoded once, however many receive it.

    fuse_c1: one offset and one size per grid dimension; `part` and `of` come together.
    fuse_c2: the slice is one chunk of a buffer without slots.
    fuse_c3: nothing inside but moves, a division, loops without results, and arithmetic.
    fuse_c4: every move has the slice, with its part, as its source or destination in this rank's memory; the moves out of it
    come after those into it. Or its source is where an earlier move of the body, in no loop, copied the slice to,
    and its destination has the same codec.
    fuse_c5: a move that overwrites the slice is the first, and in no loop.
    fuse_c6: memory that is written is read in no other chunk than the one that is written. Input and output
    are one memory if the program is called in place (`in_place direct`). What goes out of the slice may be written to any
    chunk of a buffer from which something goes in: that is read before.
    fuse_c7: what goes out of the slice overwrites: it is the same everywhere.
    fuse_c8: a division is of the slice, with its part, once and in no loop, after the moves into it, of which one combines, and
    before those out of it. It is in no fuse whose buffers have codecs.
    fuse_c9: the buffer has no codec with scales, and none that is stochastic.
  }];
  let arguments = (ins BufferType:$buffer, Variadic<Index>:$offsets, Variadic<Index>:$sizes, Optional<Index>:$part,
                   Optional<Index>:$parts);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $buffer `[` $offsets `]` `size` `[` $sizes `]` (`part` $part^ `of` $parts)? `:` type($buffer) attr-dict-with-keyword $body
  }];
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    /// Whether a move inside goes into the slice; otherwise it goes out of it.
    bool isInto(::kolo::MoveInterface move);
    /// Whether the slice is a move's source; of a move that is not into it, otherwise a copy of the slice is.
    bool isOutOf(::kolo::MoveInterface move);
    /// The moves in the order of the text, each once however often it is run.
    ::llvm::SmallVector<::kolo::MoveInterface> getMoves();
    /// Whether any of them combines.
    bool isReducing();
    /// Whether any of their buffers has a codec.
    bool isCoded();
    /// Whether the slice is overwritten before it is read.
    bool isOverwriting();
    /// Null if there is none.
    ::kolo::DivideOp getDivision();
  }];
}

def DivideOp : ChannelOp<"divide", [AttrSizedOperandSegments]> {
  let summary = "ends an average: divides a slice by the number of ranks in the group, if the call's operation is average";
  let description = [{
    Example: `kolo.chan.divide %out[%c0] size [%n] : !kolo.buffer<1>`. Inside a `fuse` too.

    divide_c1: one offset and one size per grid dimension. divide_c2: `part` and `of` come together.
    divide_c3: the buffer has no slots.
  }];
  let arguments = (ins BufferType:$buffer, Variadic<Index>:$offsets, Variadic<Index>:$sizes, Optional<Index>:$part,
                   Optional<Index>:$parts);
  let assemblyFormat = [{
    $buffer `[` $offsets `]` `size` `[` $sizes `]` (`part` $part^ `of` $parts)? attr-dict `:` type($buffer)
  }];
  let hasVerifier = 1;
}

#endif
