// The functions that kernels consist of: their names, and what each device target has to define. Private to the device
// targets.
#pragma once

#include "codec/Codec.h"
#include "compiler/lower/PacketFormat.h"
#include "targets/DeviceCode.h"
#include "targets/Elements.h"
#include "targets/Values.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/BuiltinOps.h"

#include <algorithm>

namespace kolo::gpu {

/// Memory of devices and hosts, as far as kernels get at it by address; read-only tables inside an image; memory of a
/// block.
inline constexpr unsigned globalSpace = 1, constantSpace = 4, blockSpace = 3;
mlir::Type pointerType(mlir::OpBuilder &builder, unsigned space = globalSpace);

/// Primitives: LowerPrograms declares and calls them, a target defines them. Primitives marked "Block" are called by
/// all threads of a block, at the same point of the program; any thread may call the others by itself.
inline constexpr llvm::StringLiteral laneFunction = "kolo.lane";      // () -> i64: this block's lane
inline constexpr llvm::StringLiteral numLanesFunction = "kolo.lanes"; // () -> i64
inline constexpr llvm::StringLiteral entryFunction = "kolo.entry";    // () -> i64: which invocation of the launch
inline constexpr llvm::StringLiteral threadFunction = "kolo.thread";  // () -> i64: number of this thread in its block
inline constexpr llvm::StringLiteral numThreadsFunction = "kolo.threads"; // () -> i64: of a block
/// Block: returns when all threads have come; what they wrote is then visible to the block.
inline constexpr llvm::StringLiteral barrierFunction = "kolo.barrier"; // ()
/// Block: a barrier too; thread 0 brings a value, the others bring 0, and all get 0 if it is 0, else something else.
inline constexpr llvm::StringLiteral shareFunction = "kolo.share"; // (i32) -> i32
/// Block: a barrier too; all threads get 0 if all bring 0, else 1.
inline constexpr llvm::StringLiteral anyFunction = "kolo.any"; // (i32) -> i32
/// Every thread, before a barrier: makes what it wrote part of what thread 0 then publishes with `raise`.
inline constexpr llvm::StringLiteral publishFunction = "kolo.publish"; // ()
/// Writes a counter, system-scope release: after what this thread wrote, and after what the block published.
inline constexpr llvm::StringLiteral raiseFunction = "kolo.raise"; // (ptr<1>, i64)
/// Reads a counter that others raise. Together with a later `acquire` a system-scope acquire, for the block after a
/// barrier.
inline constexpr llvm::StringLiteral peekFunction = "kolo.peek";       // (ptr<1>) -> i64
inline constexpr llvm::StringLiteral acquireFunction = "kolo.acquire"; // ()
/// Every thread: gives what it gets, which is the same for all threads of the block, or of the team.
inline constexpr llvm::StringLiteral uniformFunction = "kolo.uniform"; // (i64) -> i64
/// Every thread: where the block keeps two lists of addresses, ptr<1>, that LowerFuse gathers: mostListEntries sources,
/// from the first on, and as many destinations, from entry destinationEntries on.
inline constexpr llvm::StringLiteral listFunction = "kolo.list"; // () -> ptr<3>
inline constexpr int64_t mostListEntries = 128, destinationEntries = mostListEntries;
/// Every thread: where the block keeps numKept numbers of 64 bits, which PlaceInvariants computes.
inline constexpr llvm::StringLiteral keptFunction = "kolo.kept"; // () -> ptr<3>
inline constexpr int64_t numKept = 128;
/// Programs with codecs alone. A team is `teamThreads` neighbouring threads of a block, the same for a module. All
/// threads of a team call `meet` at the same point; the teams of a block need not. What they wrote is then visible to
/// the team.
inline constexpr llvm::StringLiteral meetFunction = "kolo.meet"; // (i64 teamThreads)
/// Every thread: memory of the block, teamRoomBytes for each team, aligned to 16 bytes.
inline constexpr llvm::StringLiteral roomFunction = "kolo.room"; // () -> ptr<3>
inline constexpr int64_t teamRoomBytes = 5376, mostTeams = 8;
/// LL128 lines, 128 bytes at a multiple of 128. Threads 8k to 8k + 7 of a block are a group, and call these three
/// together. The j-th thread of a group stores or loads bytes 16 j to 16 j + 15 of a line, at the address that it
/// passes. A reader that finds the last 8 bytes which a group stored finds all 128. Between devices this holds for the
/// connections that the target names.
inline constexpr int64_t threadsPerLine = 8;
inline constexpr llvm::StringLiteral storeLineFunction = "kolo.storeLine"; // (ptr<1>, i64 low, i64 high)
inline constexpr llvm::StringLiteral loadLineFunction = "kolo.loadLine";   // (ptr<1>) -> {i64 low, i64 high}
inline constexpr llvm::StringLiteral fromLastFunction =
    "kolo.fromLast"; // (i32) -> i32: what the group's last thread brings
/// Nanoseconds that pass while kernels run, from any beginning but never 0. In steps of up to a millisecond.
inline constexpr llvm::StringLiteral clockFunction = "kolo.clock"; // () -> i64
/// Passes a little time, more when called for the n-th time in a row.
inline constexpr llvm::StringLiteral pauseFunction = "kolo.pause"; // (i64 n)

/// Functions that LowerPrograms defines, for the block; see MoveFunctions.cpp and WaitFunctions.cpp. A module has one
/// copy of each: their work outweighs a call, and programs stay small and quick to compile. Types and reductions are
/// numbers.
inline constexpr llvm::StringLiteral copyFunction = "kolo.copy";     // (dst, src, sizeBytes)
inline constexpr llvm::StringLiteral reduceFunction = "kolo.reduce"; // (dst, src, numElements, type, reduction)
inline constexpr llvm::StringLiteral divideFunction = "kolo.divide"; // (dst, numElements, type, numRanks)
/// From all sources in the lists to the destinations [first, end) in them. A destination may be a source, element by
/// element. `difference` has every bit in which two of the addresses differ. All threads have met since the lists were
/// written, and have to meet before they are again.
inline constexpr llvm::StringLiteral multicastFunction =
    "kolo.multicast"; // (first, end, difference, sizeBytes): of one source
/// (numSources, first, end, difference, numElements, type, reduction): of at least two.
inline constexpr llvm::StringLiteral combineFunction = "kolo.combine";
/// Between codecs, and only in modules that have some: see ConvertFunction.cpp. An entry of the lists is an address and
/// the number of a codec, each of 8 bytes. All sources are combined, each sum is rounded as the codec `chunk` stores
/// it, and the result goes to the destinations [first, end), whose codecs are among the bits of `codecs`. The codec of
/// the only source may have scales if it is `chunk`. A destination may be a source. Barriers of the block before and
/// after.
inline constexpr llvm::StringLiteral convertFunction =
    "kolo.convert"; // (numSources, first, end, codecs, numElements, type, reduction, chunk)
/// Where one of the codecs is stochastic, two more arguments say what it draws by: createDrawHash of the call and the
/// rank that holds the source, and the number of the first element in the call.
inline bool haveDraws(llvm::ArrayRef<codec::Codec> codecs) {
  return llvm::any_of(codecs, [](const codec::Codec &codec) { return codec.isStochastic(); });
}
/// Signals and waits: see WaitFunctions.cpp. A semaphore is named by (peer, semaphore, numSemaphores).
struct ExchangeFunctionNames {
  /// (invocation, semaphore..., statement). The statement only of programs that use a staged network.
  llvm::StringLiteral signal;
  /// (invocation, semaphore..., statement) -> i32: a KoloDeviceFailureCode, the same for the block.
  llvm::StringLiteral wait;
  /// As `signal`, by one thread, for many that do it at once; in a program that uses a staged network, for thread 0
  /// alone. Before: all have called `publish`, and then `barrier`.
  llvm::StringLiteral signalOne;
  /// (invocation, semaphore...) -> i64: a KoloDeviceFailureCode. After: all call `waitEnd`.
  llvm::StringLiteral waitOne;
  /// Block: a barrier too. (invocation, i64 code, semaphore..., statement) -> i32: 0 if all threads bring
  /// KOLO_DEVICE_OK, else the record of the failure is written.
  llvm::StringLiteral waitEnd;
  llvm::StringLiteral blockedWait, blockedWaitEnd, waitNote;
};
inline constexpr ExchangeFunctionNames hostFunctions = {"kolo.signal",           "kolo.wait",     "kolo.signal.one",
                                                        "kolo.wait.one",         "kolo.wait.end", "kolo.wait.blocked",
                                                        "kolo.wait.end.blocked", "kolo.wait.note"};
/// Of programs that use a staged network; their invocation is a KoloDeviceNetworkInvocation.
inline constexpr ExchangeFunctionNames networkFunctions = {
    "kolo.net.signal",   "kolo.net.wait",         "kolo.net.signal.one",       "kolo.net.wait.one",
    "kolo.net.wait.end", "kolo.net.wait.blocked", "kolo.net.wait.end.blocked", "kolo.net.wait.note"};
/// Likewise: see QueueFunctions.cpp. (invocation, peer, statement, offset, src, sizeBytes) -> i32: a
/// KoloDeviceFailureCode, the same for the block. Copies to the peer's inbox, or has the host write there.
inline constexpr llvm::StringLiteral pushFunction = "kolo.net.push";
/// What is written to a chunk of the outbox in another way: `claim`, then writing to `chunk`, then `commit`, all by the
/// block. `claim`: (invocation, peer, statement) -> i32, as kolo.net.push, with a barrier. `chunk`: (invocation) ->
/// ptr. `commit`: (invocation, peer, statement, offset, sizeBytes), with a barrier.
inline constexpr llvm::StringLiteral claimFunction = "kolo.net.claim", chunkFunction = "kolo.net.chunk",
                                     commitFunction = "kolo.net.commit";
/// Thread 0, before all of what it asks for is published: (invocation, peer, statement, i64 kind and semaphore,
/// agreement, offset, value, source) -> i64: a KoloDeviceFailureCode. The fields are those of a KoloDeviceRequest.
inline constexpr llvm::StringLiteral requestFunction = "kolo.net.request";
/// For packets of one format: see PacketFunctions.cpp, PacketGroupFunctions.cpp and their like for lines. `sequence` is
/// the call's. Statuses are those of kolo.wait. LLVM takes the status of a "blocked" function for different from thread
/// to thread.
struct PacketFunctionNames {
  llvm::StringLiteral send;    // (packets, src, sizeBytes, sequence)
  llvm::StringLiteral receive; // (invocation, sequence, statement, dst, packets, sizeBytes) -> i32
  /// (invocation, sequence, statement, dst, packets, numElements, type, reduction) -> i32
  llvm::StringLiteral receiveReduce;
  llvm::StringLiteral blockedReceive, blockedReceiveReduce;
  /// Packets of several peers at once. They are in the block's lists of addresses, as entries of three words:
  /// packets, memory, and size: bytes, or elements for receiveReduce, whose entries have one memory and one size.
  /// Block: all threads have met since the entries were written. Only the receiving ones end with a barrier.
  /// `list` is where the entries are; `isOdd`: whether memory is aligned to less than the format's units, or, for
  /// lines, a message is none of whole halves.
  llvm::StringLiteral sendAll;    // (list, numEntries, isOdd, sequence)
  llvm::StringLiteral receiveAll; // (invocation, sequence, statement, list, numEntries, isOdd) -> i32
  /// (invocation, sequence, statement, list, numEntries, isOdd, type, reduction) -> i32: in the order of the entries
  llvm::StringLiteral receiveReduceAll;
  llvm::StringLiteral blockedReceiveAll, blockedReceiveReduceAll;
};
inline constexpr PacketFunctionNames llFunctions = {"kolo.send",
                                                    "kolo.receive",
                                                    "kolo.receiveReduce",
                                                    "kolo.receive.blocked",
                                                    "kolo.receiveReduce.blocked",
                                                    "kolo.sendAll",
                                                    "kolo.receiveAll",
                                                    "kolo.receiveReduceAll",
                                                    "kolo.receiveAll.blocked",
                                                    "kolo.receiveReduceAll.blocked"};
inline constexpr PacketFunctionNames ll128Functions = {"kolo.sendLines",
                                                       "kolo.receiveLines",
                                                       "kolo.receiveReduceLines",
                                                       "kolo.receiveLines.blocked",
                                                       "kolo.receiveReduceLines.blocked",
                                                       "kolo.sendAllLines",
                                                       "kolo.receiveAllLines",
                                                       "kolo.receiveReduceAllLines",
                                                       "kolo.receiveAllLines.blocked",
                                                       "kolo.receiveReduceAllLines.blocked"};
/// Of such lists two may be written while another one is read.
inline constexpr int64_t mostPacketEntries = 42, packetEntryBytes = 24, packetListBytes = 1024, numPacketLists = 3;
static_assert(mostPacketEntries * packetEntryBytes <= packetListBytes);
/// Of the block's lists, which are of addresses or of packets.
inline constexpr int64_t listBytes =
    std::max(packetListBytes * numPacketLists, (destinationEntries + mostListEntries) * 8);
/// What memory and messages have to be multiples of, so that packets of several peers are served at once.
inline int64_t packetUnitBytes(const PacketFormat &format) { return format == ll128Packets ? 8 : 16; }
inline const PacketFunctionNames &functionsOf(const PacketFormat &format) {
  return format == ll128Packets ? ll128Functions : llFunctions;
}
/// The names of functions that make one move of a program and give a status begin with this.
inline constexpr llvm::StringLiteral fallibleMovePrefix = "receive.";
/// Unsigned division of numbers that are the same for all threads. LowerDivisions calls it.
inline constexpr llvm::StringLiteral quotientFunction = "kolo.quotient"; // (i64, i64) -> i64
/// Likewise of numbers that may differ from thread to thread: in loops with this attribute.
inline constexpr llvm::StringLiteral quotientByThreadFunction = "kolo.quotient.of";
inline constexpr llvm::StringLiteral byThreadAttribute = "by_thread";

void declarePrimitives(mlir::ModuleOp module);
/// copy, reduce and divide; multicast and combine where a program fuses. The number of threads of a block is a multiple
/// of groupSize.
void defineMoves(mlir::ModuleOp module, const DeviceOptions &options, int64_t groupSize);
/// The number of a codec among those of a module.
inline int64_t numberOf(llvm::ArrayRef<codec::Codec> codecs, const codec::Codec &codec) {
  return llvm::find(codecs, codec) - codecs.begin();
}
/// Between these codecs, by number; the first is none, for the type of the call. Declares the primitives of teams,
/// which have teamThreads threads.
void defineConversions(mlir::ModuleOp module, const DeviceOptions &options, llvm::ArrayRef<codec::Codec> codecs,
                       int64_t teamThreads);
void defineWaitAndSignal(mlir::ModuleOp module, const ExchangeFunctionNames &names);
/// What `networkFunctions` call, and `push`. Behind defineMoves.
void defineQueues(mlir::ModuleOp module);
void definePackets(mlir::ModuleOp module, const DeviceOptions &options);
/// Behind definePackets.
void definePacketGroups(mlir::ModuleOp module, const DeviceOptions &options);
void defineLines(mlir::ModuleOp module, const DeviceOptions &options);
/// Behind defineLines.
void defineLineGroups(mlir::ModuleOp module, const DeviceOptions &options);
void defineQuotient(mlir::ModuleOp module);

enum class Inlining { Never, Always, IfUseful };
/// Declares a primitive; nothing for one that returns nothing.
void declarePrimitive(mlir::OpBuilder &builder, mlir::ModuleOp module, llvm::StringRef name, mlir::Type result,
                      llvm::ArrayRef<mlir::Type> arguments);
/// Makes a private function at the end of the module and leaves the builder in its entry block.
mlir::LLVM::LLVMFuncOp createFunction(mlir::OpBuilder &builder, mlir::ModuleOp module, llvm::StringRef name,
                                      mlir::Type result, llvm::ArrayRef<mlir::Type> arguments, Inlining inlining);
/// Gives a primitive its body, which is to be inlined, and leaves the builder there.
mlir::LLVM::LLVMFuncOp definePrimitive(mlir::OpBuilder &builder, mlir::ModuleOp module, llvm::StringRef name);

/// Defines the primitives `list`, and `room` if it is declared, for targets whose memory of a block is a global of
/// blockSpace.
void defineBlockMemory(mlir::ModuleOp module);

mlir::Value load(mlir::OpBuilder &builder, mlir::Location loc, mlir::Type type, mlir::Value base, int64_t offsetBytes);
/// table[index], for entries of 8 bytes.
mlir::Value loadEntry(mlir::OpBuilder &builder, mlir::Location loc, mlir::Type type, mlir::Value table,
                      mlir::Value index);
/// A rank's place in a KoloDeviceNetworkInvocation.
mlir::Value loadPlace(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value invocation, mlir::Value rank);
/// The number of a rank's entry in its tables of addresses: one for all ranks of other hosts.
mlir::Value loadEntryNumber(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value invocation, mlir::Value rank);
mlir::Value isNull(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value address);
/// Calls a function of the module; no value for one that returns nothing.
mlir::Value call(mlir::OpBuilder &builder, mlir::Location loc, llvm::StringRef name, mlir::ValueRange arguments = {});
/// Builds what thread 0 alone does.
void buildForLeader(mlir::OpBuilder &builder, mlir::Location loc, llvm::function_ref<void()> build);

} // namespace kolo::gpu
