// What ops of one phase have in common, for passes that treat them alike.
#ifndef KOLO_INTERFACES_TD
#define KOLO_INTERFACES_TD

include "mlir/IR/OpBase.td"

def StatementInterface : OpInterface<"StatementInterface"> {
  let cppNamespace = "::kolo";
  let description = "A choreography statement: moves a slice of a source to a slice of a destination on some ranks.";
  let methods = [
    InterfaceMethod<"where the data comes from", "::mlir::Value", "getSource">,
    InterfaceMethod<"where the data goes", "::mlir::Value", "getDestination">,
    InterfaceMethod<"combine with what is there, by the call's operation, instead of overwriting it", "bool", "isReducing">,
    InterfaceMethod<"what the statement moves, as a function of the sender", "::mlir::Region &", "getBody">];
}

def MoveInterface : OpInterface<"MoveInterface"> {
  let cppNamespace = "::kolo";
  let description = "A channel op that moves the chunks of a source slice to those of a destination slice, paired row-major.";
  let methods = [
    InterfaceMethod<"", "::mlir::Value", "getSource">,
    InterfaceMethod<"", "::mlir::Value", "getDestination">,
    InterfaceMethod<"", "::mlir::OperandRange", "getSourceOffsets">,
    InterfaceMethod<"", "::mlir::OperandRange", "getSourceSizes">,
    InterfaceMethod<"", "::mlir::OperandRange", "getDestinationOffsets">,
    InterfaceMethod<"", "::mlir::OperandRange", "getDestinationSizes">,
    InterfaceMethod<"the peer that owns the source; null: this rank", "::mlir::Value", "getSourceRank">,
    InterfaceMethod<"the peer that owns the destination; null: this rank", "::mlir::Value", "getDestinationRank">,
    InterfaceMethod<"number of the part of every chunk that moves; null: all of it", "::mlir::Value", "getPart">,
    InterfaceMethod<"number of parts that every chunk is cut into; null when there is no part", "::mlir::Value", "getParts">,
    InterfaceMethod<"", "::mlir::MutableOperandRange", "getPartMutable">,
    InterfaceMethod<"", "::mlir::MutableOperandRange", "getPartsMutable">];
}

#endif
