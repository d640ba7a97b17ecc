// Where the buffers of a program lie in memory, as values in IR. Used by every target, for the code that moves data and
// for the functions that tell the runtime how much memory a program takes.
#pragma once

#include "compiler/lower/PacketFormat.h"
#include "ir/Kolo.h"

#include "mlir/IR/IRMapping.h"

#include <array>
#include <optional>

namespace kolo {

/// The shape of a buffer, as values of type index.
struct BufferShape {
  llvm::SmallVector<mlir::Value> grid;
  unsigned numBlockDims;   // leading grid dimensions that enumerate blocks
  mlir::Value cut;         // of slots: number of chunks of the blocks whose chunks they hold; else null
  mlir::Value stride = {}; // elements from one block to the next; null: as many as a block has
  std::optional<PacketFormat> packets = {}; // then positions in it count packets, not elements: see createNumPackets
  codec::Codec codec = dsl::none();         // positions count elements all the same: see createBytesTo
  mlir::Value notes = {}; // bytes from the beginning of the role's memory to the lengths that are noted beside the
                          // buffer's chunks; null: there are none
};

/// Where numbers of 64 bits lie behind each other. In a table of this rank's input or output they begin with block
/// `at`. In other memory `at` counts bytes from the beginning of the role's memory of a rank, which is this one if
/// null.
struct NumbersPlace {
  BufferRole role;
  mlir::Value rank, at;
};

/// How generated code reads the tables of a call whose blocks have counts and places of their own. Numbers are of type
/// index, and count elements; they may only be read where the call has tables.
class BlockTableReader {
public:
  virtual ~BlockTableReader() = default;
  /// Whether the call has tables, of type i1.
  virtual mlir::Value isGiven(mlir::OpBuilder &builder, mlir::Location loc) const = 0;
  /// Of a block of this rank's input or output.
  virtual mlir::Value count(mlir::OpBuilder &builder, mlir::Location loc, BufferRole role, mlir::Value block) const = 0;
  /// Whether lists of the call choose the rows of its blocks, of type i1; null: the program takes no such lists.
  virtual mlir::Value hasRows(mlir::OpBuilder &builder, mlir::Location loc) const = 0;
  /// Where a block begins in the buffer of a rank; null: of this one.
  virtual mlir::Value place(mlir::OpBuilder &builder, mlir::Location loc, BufferRole role, mlir::Value rank,
                            mlir::Value block) const = 0;
  /// The first number at a place in this rank's memory.
  virtual mlir::Value noted(mlir::OpBuilder &builder, mlir::Location loc, const NumbersPlace &place) const = 0;
  /// Copies so many numbers. At most one of the places is a peer's. The source is in use as that of a put.
  virtual void note(mlir::OpBuilder &builder, mlir::Location loc, const NumbersPlace &from, const NumbersPlace &to,
                    mlir::Value number) const = 0;
};

/// Sizes that are the same for all buffers of a call, of type index.
struct CallValues {
  mlir::Value count;        // elements per block; with tables, of the longest one
  mlir::Value alignment;    // elements in 16 bytes, or codec::granule in a program with codecs: a power of two
  mlir::Value isDense = {}; // i1: no buffer has other strides than blocks are long; null: always
  const BlockTableReader *tables = nullptr; // null: the program takes none
  // What follows is for BufferLayout.
  std::array<mlir::Value, 2> blockElements = {}; // stride of the caller's input and output; null: `count`
  mlir::Value elementBytes = {}, numLanes = {};
  mlir::Value packetStride = {}; // createPacketStride; null where the program has no packets
  bool hasNotes = false;         // memory of the program's own may have notes: see notesPerLane
};

/// Nothing where the buffer holds elements.
std::optional<PacketFormat> packetFormatOf(BufferOp buffer);
/// Nothing where no buffer of the program holds packets.
std::optional<PacketFormat> packetFormatOf(ProgramOp program);

/// Packets that the data before an element fills, in whole units of 16 bytes, rounded down. An element inside a unit
/// counts as the unit's end.
mlir::Value createFilledPackets(mlir::OpBuilder &builder, mlir::Location loc, const CallValues &call,
                                const BufferShape &buffer, mlir::Value element);

/// Packets that a buffer of them takes: the packets that its data fills, rounded down, and one for every part of every
/// chunk. The extra packet takes the end of the part's data, and says that an empty part has arrived. The packets of a
/// part begin behind the packets that the data before it fills and one for every part before it. No two parts share a
/// packet, since a part of x packets' data behind b packets' data has max(1, ceil(x)) <= floor(b + x) - floor(b) + 1.
mlir::Value createNumPackets(mlir::OpBuilder &builder, mlir::Location loc, const CallValues &call,
                             const BufferShape &buffer, mlir::Value parts);

/// Elements from one block of packets to the next: a block begins with a packet of its own.
mlir::Value createPacketStride(mlir::OpBuilder &builder, mlir::Location loc, const CallValues &call);

/// Elements from one slot to the next, for chunks of blocks that are cut into so many: see kolo.buffer.
mlir::Value createSlotSize(mlir::OpBuilder &builder, mlir::Location loc, const CallValues &call,
                           mlir::Value chunksPerBlock);

/// Number of elements that a buffer takes, which need not be a multiple of 16 bytes.
mlir::Value createNumElements(mlir::OpBuilder &builder, mlir::Location loc, const CallValues &call,
                              const BufferShape &buffer);

/// `codec::bytes` of a number of elements, which is 0 or more. The codec is not none.
mlir::Value createEncodedBytes(mlir::OpBuilder &builder, mlir::Location loc, const codec::Codec &codec,
                               mlir::Value numElements);

/// Bytes of so many elements that lie in one chunk of a buffer without packets.
mlir::Value createChunkBytes(mlir::OpBuilder &builder, mlir::Location loc, const CallValues &call,
                             const BufferShape &buffer, mlir::Value numElements);

/// Number of chunks of a buffer, or of its slots.
mlir::Value createNumChunks(mlir::OpBuilder &builder, mlir::Location loc, const BufferShape &buffer);

/// The number of an element of a buffer as its block, and as its number in that block.
struct BlockPosition {
  mlir::Value block, element;
};
BlockPosition createBlockPosition(mlir::OpBuilder &builder, mlir::Location loc, const CallValues &call,
                                  const BufferShape &buffer, mlir::Value number);

/// Bytes from the beginning of a buffer to an element, or to a packet of a buffer of packets. In a buffer with a codec
/// the element's number in its block, or in its slot, is a multiple of `codec::granule`.
mlir::Value createBytesTo(mlir::OpBuilder &builder, mlir::Location loc, const CallValues &call,
                          const BufferShape &buffer, mlir::Value number);

/// The role in whose memory a buffer lies where inboxes have none of their own: an inbox is part of scratch memory.
constexpr BufferRole memoryOf(BufferRole role) { return role == BufferRole::Inbox ? BufferRole::Scratch : role; }

/// A buffer and its position.
struct PlacedBuffer {
  BufferRole role; // of its memory
  BufferShape shape;
  mlir::Value offset; // bytes from the beginning of the role's memory, of type index
};

/// Places the buffers of a program. Buffers of one role follow each other in the order of `place`, each at a multiple
/// of its alignment. A buffer of the caller is memory of its own.
class BufferLayout {
public:
  /// Bytes from the beginning of the role's memory to its first buffer; 0 unless said. Before any `place` of the role.
  void begin(BufferRole role, mlir::Value offset) { ends[size_t(role)] = offset; }
  /// From now on inboxes lie in memory of their own.
  void partInboxes() { hasInboxes = true; }

  /// `mapping` leads from the operands of the buffer to values of the function at hand.
  PlacedBuffer place(mlir::OpBuilder &builder, mlir::Location loc, const CallValues &call, BufferOp buffer,
                     const mlir::IRMapping &mapping);

  /// Bytes that the role's buffers have taken so far, `begin` included.
  mlir::Value end(mlir::OpBuilder &builder, mlir::Location loc, BufferRole role) const;

private:
  std::array<mlir::Value, getMaxEnumValForBufferRole() + 1> ends = {}; // by role; null: 0
  bool hasInboxes = false;
};

} // namespace kolo
