// The dialect, its attributes and types, and what the ops of both phases share.
#ifndef KOLO_BASE_TD
#define KOLO_BASE_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"

def KoloDialect : Dialect {
  let name = "kolo";
  let cppNamespace = "::kolo";
  let summary = "collectives as choreographies, and as per-rank channel programs";
  let description = [{
    The dialect has two phases, visible in the op names. Choreography ops (`kolo.choreography`, `kolo.transfer`, ...) are the
    global view: statements run one after the other on all ranks, with no synchronisation. Channel ops (`kolo.chan.*`) are
    one rank's view, symbolic in its coordinates, with all synchronisation explicit. Both use upstream `arith` and `scf` for
    index arithmetic and loops. `kolo.dim_size`, `kolo.root`, `kolo.lookup` and `kolo.buffer` belong to both.

    Three marks may stand on ops of other dialects too. Each is an i64, not negative.

    | mark | meaning | from | to |
    |---|---|---|---|
    | `kolo.stripe` | the variant of the language's `stripe` that a statement or a loop belongs to | dsl | FuseStripes |
    | `kolo.phase` | the top-level statement or loop of the choreography that an op comes from | Project | PlacePipeline |
    | `kolo.pipeline_phase` | the phase that a branch of a pipeline holds | PlacePipeline | synchronisation |

    A stripe's mark is a hint, not a promise. A pass that needs independent variants looks at their slices.

    stripe_c1: `kolo.stripe` is a number on a statement or on an `scf.for`.
    phase_c1: `kolo.phase` is a number on an op at the top level of a program.
    pipeline_phase_c1: `kolo.pipeline_phase` is a number on an `scf.if` inside a program.
    mark_c1: no other attribute of this dialect is a mark.
  }];
  let discardableAttrs = (ins "::mlir::IntegerAttr":$stripe, "::mlir::IntegerAttr":$phase,
                          "::mlir::IntegerAttr":$pipeline_phase);
  let hasOperationAttrVerify = 1;
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
}

class KoloOp<string mnemonic, list<Trait> traits = []> : Op<KoloDialect, mnemonic, traits>;

//===--- Enums -----------------------------------------------------------------------------------------------------===//

def CollectiveKind : I32EnumAttr<"CollectiveKind", "which collective", [
    I32EnumAttrCase<"AllGather", 0, "all_gather">, I32EnumAttrCase<"ReduceScatter", 1, "reduce_scatter">,
    I32EnumAttrCase<"AllReduce", 2, "all_reduce">, I32EnumAttrCase<"Broadcast", 3, "broadcast">,
    I32EnumAttrCase<"Reduce", 4, "reduce">, I32EnumAttrCase<"Gather", 5, "gather">,
    I32EnumAttrCase<"Scatter", 6, "scatter">, I32EnumAttrCase<"AllToAll", 7, "all_to_all">,
    I32EnumAttrCase<"Scan", 8, "scan">, I32EnumAttrCase<"Exscan", 9, "exscan">]> {
  let cppNamespace = "::kolo";
  let genSpecializedAttr = 0;
}

def BufferRole : I32EnumAttr<"BufferRole", "what a buffer is to the collective's caller", [
    I32EnumAttrCase<"Input", 0, "input">, I32EnumAttrCase<"Output", 1, "output">,
    I32EnumAttrCase<"Scratch", 2, "scratch">, I32EnumAttrCase<"Published", 3, "published">,
    I32EnumAttrCase<"Packets", 4, "packets">, I32EnumAttrCase<"Inbox", 5, "inbox">]> {
  let cppNamespace = "::kolo";
  let genSpecializedAttr = 0;
}
def BufferRoleAttr : EnumAttr<KoloDialect, BufferRole, "role">;

def StepKind : I32EnumAttr<"StepKind", "how a relation moves along one mesh dimension", [
    I32EnumAttrCase<"Keep", 0, "keep">, I32EnumAttrCase<"Next", 1, "next">, I32EnumAttrCase<"Flip", 2, "flip">,
    I32EnumAttrCase<"Others", 3, "others">, I32EnumAttrCase<"At", 4, "at">, I32EnumAttrCase<"Mapped", 5, "mapped">]> {
  let cppNamespace = "::kolo";
  let genSpecializedAttr = 0;
}

// Weakest first. A put's receiver gives the credit to its sender; a pull's reader gives it to the owner of what it reads.
def CreditKind : I32EnumAttr<"CreditKind", "which promise a signal makes that announces no data", [
    // The receiver is through with iteration k of a loop; the sender waits for it before iteration k + D.
    I32EnumAttrCase<"Lag", 0, "lag">,
    // The reader has read for the last time; the owner waits for it before the end of the program.
    I32EnumAttrCase<"Exit", 1, "exit">,
    // The receiver has entered this invocation; the sender waits for it before its first put.
    I32EnumAttrCase<"Entry", 2, "entry">,
    // All that precedes the statement is complete at the receiver; the sender waits for it before its put. Of a pull: the
    // reader has read; the owner waits for it at the end of the statement.
    I32EnumAttrCase<"Statement", 3, "statement">]> {
  let cppNamespace = "::kolo";
  let genSpecializedAttr = 0;
}
def CreditKindAttr : EnumAttr<KoloDialect, CreditKind, "credit"> { let assemblyFormat = "`(` $value `)`"; }

// The names are those of the manifest.
def InPlace : I32EnumAttr<"InPlace", "how a call may run whose input lies inside its output", [
    // The runtime first copies the input, which is right for every program.
    I32EnumAttrCase<"CopyInput", 0, "copyInput">,
    // The call runs as it is: the program reads no input that it has overwritten as output.
    I32EnumAttrCase<"Direct", 1, "direct">]> {
  let cppNamespace = "::kolo";
  let genSpecializedAttr = 0;
}
def InPlaceAttr : EnumAttr<KoloDialect, InPlace, "in_place">;

//===--- Attributes ------------------------------------------------------------------------------------------------===//

def CollectiveAttr : AttrDef<KoloDialect, "Collective"> {
  let mnemonic = "collective";
  let summary = "the collective that a program implements, and the mesh dimensions that it runs over";
  let description = [{
    `#kolo.collective<all_gather over 0, 1>`: each set of ranks that differ only in dimensions 0 and 1 is a group, and gathers
    among itself. The group's members are numbered row-major over these dimensions, in the order in which they stand here.
  }];
  let parameters = (ins EnumParameter<CollectiveKind>:$kind, ArrayRefParameter<"int64_t">:$groupDims);
  let assemblyFormat = "`<` $kind `over` $groupDims `>`";
  let genVerifyDecl = 1;
}

def StepAttr : AttrDef<KoloDialect, "Step"> {
  let mnemonic = "step";
  let summary = "how a relation moves along one mesh dimension of size n, from coordinate c";
  let description = [{
    | kind | receiver's coordinate | operand |
    |---|---|---|
    | keep | c | |
    | next | (c + k) mod n | k |
    | flip | c xor m, which must be below n | m |
    | others | every coordinate but c, in the order c+1, c+2, ... mod n | |
    | at | i | i |
    | mapped | table[c]; the table is a permutation of 0 .. n-1 | |
  }];
  let parameters = (ins EnumParameter<StepKind>:$kind, OptionalArrayRefParameter<"int64_t">:$table);
  let assemblyFormat = "`<` $kind (`[` $table^ `]`)? `>`";
  let genVerifyDecl = 1;
}
def StepArrayAttr : TypedArrayAttrBase<StepAttr, "one step per mesh dimension">;

def ProofAttr : AttrDef<KoloDialect, "Proof"> {
  let mnemonic = "proof";
  let summary = "a mesh that a program was checked for, and the mesh that the checker ran it on";
  let description = [{
    `#kolo.proof<[64] on [16]>`: the checker represents a mesh that is too large by a smaller one of the same kind.
    `#kolo.proof<[64, 8] on [64, 8] from [2, 0]>`: it also proved all meshes of which the first dimension has a size of
    2 or more; 0 says that nothing was decided along a dimension.

    proof_c1: both meshes have the same number of dimensions, positive sizes, and at most 1,048,576 ranks.
    proof_c2: `from` has a size that is not negative for each dimension, if it is there.
  }];
  let parameters = (ins ArrayRefParameter<"int64_t">:$mesh, ArrayRefParameter<"int64_t">:$on,
                    OptionalArrayRefParameter<"int64_t">:$from);
  let assemblyFormat = "`<` `[` $mesh `]` `on` ` ` `[` $on `]` (`from` ` ` `[` $from^ `]`)? `>`";
  let genVerifyDecl = 1;
}
def ProofArrayAttr : TypedArrayAttrBase<ProofAttr, "one proof per mesh">;

def CodecAttr : AttrDef<KoloDialect, "Codec"> {
  let mnemonic = "codec";
  let summary = "how the elements of a buffer are stored";
  let description = [{
    `#kolo.codec<i8 per 256 scale f32 fit>`, `#kolo.codec<bf16>`, `#kolo.codec<levels [-1.0, 0.0, 1.0] per 64 scale bf16 fit
    stochastic>`: an element, a scale for each block, its type and its rule, and perhaps stochastic rounding. `ir/README.md`
    defines the arithmetic. `text` is what `kolo::codec::textOf` gives.

    codec_c1: the parameters are those of a codec, and it is not `none`.
  }];
  let parameters = (ins StringRefParameter<"text of the codec">:$text);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = "::kolo::codec::Codec getCodec() const;";
}

//===--- Types -----------------------------------------------------------------------------------------------------===//

def BufferType : TypeDef<KoloDialect, "Buffer"> {
  let mnemonic = "buffer";
  let summary = "memory of every rank, cut into a grid of chunks with this many dimensions";
  let parameters = (ins "unsigned":$gridRank);
  let assemblyFormat = "`<` $gridRank `>`";
}

//===--- Ops of both phases ----------------------------------------------------------------------------------------===//

include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def DimSizeOp : KoloOp<"dim_size", [Pure]> {
  let summary = "number of ranks along one mesh dimension";
  let description = "Example: `%n = kolo.dim_size 0`. dim_size_c1: the dimension exists in the enclosing program's mesh.";
  let arguments = (ins I64Attr:$dim);
  let results = (outs Index:$result);
  let assemblyFormat = "$dim attr-dict";
  let hasVerifier = 1;
}

def RootOp : KoloOp<"root", [Pure]> {
  let summary = "number of the root rank inside the group that the collective runs over";
  let description = "Example: `%r = kolo.root`. Known at the call only.";
  let results = (outs Index:$result);
  let assemblyFormat = "attr-dict";
}

def LookupOp : KoloOp<"lookup", [Pure]> {
  let summary = "entry of a constant table";
  let description = "Example: `%x = kolo.lookup %i in [2, 0, 1]`. The index must lie inside the table.";
  let arguments = (ins Index:$index, DenseI64ArrayAttr:$table);
  let results = (outs Index:$result);
  let assemblyFormat = "$index `in` $table attr-dict";
}

def BufferOp : KoloOp<"buffer", [AttrSizedOperandSegments, MemoryEffects<[MemAlloc]>]> {
  let summary = "one of the program's buffers, the same on every rank";
  let description = [{
    ```mlir
    %out = kolo.buffer output "out" grid(%nodes, %gpus, %k) blocks 2 : !kolo.buffer<3>
    ```
    The first `blocks` grid dimensions enumerate blocks of `count` elements each (`count` as the call gives it); the others
    cut every block into C chunks, C their product. Chunks are numbered row-major. Inside a block, chunk j holds the elements
    from j*count/C to (j+1)*count/C, both rounded down to a multiple of 16 bytes except at the end of the block. Chunks may
    be empty.

    ```mlir
    %arrived = kolo.buffer scratch "arrived" grid(%two) blocks 1 cut %n : !kolo.buffer<1>
    ```
    With `cut`, every grid element is a slot. It holds any one chunk of a block of `count` elements that is cut into that many
    chunks. A move into a slot or out of it is as long as the chunk on the other side, and starts where the slot starts. Slots
    lie ceil(count/cut) elements plus 16 bytes less one element apart, rounded up to a multiple of 16 bytes. No chunk is
    larger. A `cut` below 1 counts as 1.

    An `inbox` is scratch memory that data from other hosts arrives in.

    A rank fills a `published` buffer before `kolo.chan.enter`; all ranks may read it after. There are two of each such buffer,
    which invocations use in turn. The buffer is small; a target says how small.

    A `packets` buffer holds LL packets: 8 bytes, of which 4 are data. With `ll128` it holds LL128 lines: 128 bytes, of which
    120 are data. Each carries the number of the invocation that put it, written at once with the data. A reader waits for the
    packets of its own invocation and needs no signal. There are two of each such buffer, used in turn. No element is put twice
    in one invocation.

    ```mlir
    %packed = kolo.buffer scratch "packed" as #kolo.codec<i8 per 256 scale f32 fit> grid(%n) blocks 0 : !kolo.buffer<1>
    ```
    With `as`, elements are stored by a codec. What moves between buffers of different codecs is converted on the way; between
    buffers of equal codecs the bytes move as they are. In a program with codecs, the 16 bytes above are 1024 elements.

    buffer_c1: the type's grid rank is the number of grid operands.
    buffer_c2: 0 <= blocks <= grid rank.
    buffer_c3: buffers are made at the top level of a program, outside loops.
    buffer_c4: only scratch, inbox and packets have slots.
    buffer_c5: all grid dimensions of slots enumerate slots: `blocks` is the grid rank.
    buffer_c6: only packets are LL128.
    buffer_c7: the caller's buffers, input and output, have no codec.
  }];
  let arguments = (ins BufferRoleAttr:$role, StrAttr:$name, Variadic<Index>:$grid, I64Attr:$blocks,
                   Optional<Index>:$cut, OptionalAttr<CodecAttr>:$codec, UnitAttr:$ll128);
  let results = (outs BufferType:$result);
  let assemblyFormat = [{
    $role $name (`as` $codec^)? `grid` `(` $grid `)` `blocks` $blocks (`cut` $cut^)? (`ll128` $ll128^)? attr-dict `:` type($result)
  }];
  let hasVerifier = 1;
}

#endif
