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
    Two phases, visible in the op names. Choreography ops (`kolo.choreography`, `kolo.transfer`, ...) are the global view:
    statements run one after the other on all ranks, with no synchronisation. Channel ops (`kolo.chan.*`) are one rank's
    view, symbolic in its coordinates, with all synchronisation explicit. Index arithmetic and loops are upstream `arith`
    and `scf` in both. `kolo.dim_size`, `kolo.root`, `kolo.lookup` and `kolo.buffer` belong to both.
  }];
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
}

class KoloOp<string mnemonic, list<Trait> traits = []> : Op<KoloDialect, mnemonic, traits>;

//===--- Enums -----------------------------------------------------------------------------------------------------===//

def CollectiveKind : I32EnumAttr<"CollectiveKind", "which collective", [
    I32EnumAttrCase<"AllGather", 0, "all_gather">, I32EnumAttrCase<"ReduceScatter", 1, "reduce_scatter">,
    I32EnumAttrCase<"AllReduce", 2, "all_reduce">, I32EnumAttrCase<"Broadcast", 3, "broadcast">,
    I32EnumAttrCase<"Reduce", 4, "reduce">, I32EnumAttrCase<"Gather", 5, "gather">,
    I32EnumAttrCase<"Scatter", 6, "scatter">, I32EnumAttrCase<"AllToAll", 7, "all_to_all">]> {
  let cppNamespace = "::kolo";
  let genSpecializedAttr = 0;
}

def BufferRole : I32EnumAttr<"BufferRole", "what a buffer is to the collective's caller", [
    I32EnumAttrCase<"Input", 0, "input">, I32EnumAttrCase<"Output", 1, "output">,
    I32EnumAttrCase<"Scratch", 2, "scratch">, I32EnumAttrCase<"Published", 3, "published">,
    I32EnumAttrCase<"Packets", 4, "packets">]> {
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

//===--- Attributes ------------------------------------------------------------------------------------------------===//

def CollectiveAttr : AttrDef<KoloDialect, "Collective"> {
  let mnemonic = "collective";
  let summary = "the collective that a program implements, and the mesh dimensions that it runs over";
  let description = [{
    `#kolo.collective<all_gather over 0, 1>`: every set of ranks that differ only in dimensions 0 and 1 gathers among
    itself. Its members are numbered row-major over these dimensions.
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
    With `cut`, every grid element is a slot: it holds any one chunk of a block of `count` elements that is cut into that many
    chunks. A slot has no size of its own: what is moved into it or out of it is as long as the chunk on the other side, and
    lies at its beginning. Slots follow each other at distances of count/cut elements, rounded up, plus 16 bytes less one
    element, rounded up to a multiple of 16 bytes: no chunk is larger. A `cut` below 1 counts as 1.

    A `published` buffer is what a rank says in `kolo.chan.enter`: it fills the buffer before, and all ranks may read it after.
    There are two, which invocations use in turn. It is small; a target says how small.

    In a `packets` buffer every few bytes carry the number of the invocation that they were put in, written with them at once. What
    reads them waits for those of its own invocation: no signal is needed. There are two of each, used in turn, and no element is
    put twice in one invocation. With `ll128`, they are 128 bytes together, of which 120 are data, else 8, of which 4 are.

    buffer_c1: the type's grid rank is the number of grid operands.
    buffer_c2: 0 <= blocks <= grid rank.
    buffer_c3: buffers are made at the top level of a program, outside loops.
    buffer_c4: only scratch has slots.
    buffer_c5: all grid dimensions of slots enumerate slots: `blocks` is the grid rank.
    buffer_c6: only packets are LL128.
  }];
  let arguments = (ins BufferRoleAttr:$role, StrAttr:$name, Variadic<Index>:$grid, I64Attr:$blocks,
                   Optional<Index>:$cut, UnitAttr:$ll128);
  let results = (outs BufferType:$result);
  let assemblyFormat = [{
    $role $name `grid` `(` $grid `)` `blocks` $blocks (`cut` $cut^)? (`ll128` $ll128^)? attr-dict `:` type($result)
  }];
  let hasVerifier = 1;
}

#endif
