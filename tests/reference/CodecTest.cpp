// What codecs mean for a program: conversions, chunks of whole granules, and what a call may be.
#include "Support.h"

#include "codec/Convert.h"

#include <cstring>

using namespace kolo;
using namespace kolo::reference;

static const std::string packedBuffer =
    "%packed = kolo.buffer scratch \"packed\" as #kolo.codec<i8 per 32 scale f32 fit> grid() blocks 0 : "
    "!kolo.buffer<0>\n";

static std::string copy(const std::string &from, const std::string &to) {
  return "kolo.copy " + from + " -> " + to +
         " {\n^bb0(%me: index):\nkolo.slices from [] size [] to [] size []\n} : !kolo.buffer<0> -> !kolo.buffer<0>\n";
}

static std::vector<float> floatsOf(const Bytes &bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

/// Numbers that no codec keeps as they are, different on every rank.
static void fillOddly(SimulatedCall &call) {
  for (size_t rank = 0; rank < call.inputs.size(); ++rank)
    for (size_t i = 0; i < call.inputs[rank].size() / sizeof(float); ++i) {
      float value = float(int((i * 7919 + rank * 104729) % 2003) - 1001) / 300;
      std::memcpy(&call.inputs[rank][i * sizeof(float)], &value, sizeof value);
    }
}

static std::vector<float> roundTrip(const codec::Codec &codec, const std::vector<float> &values) {
  std::vector<std::byte> encoded(size_t(codec::bytes(codec, int64_t(values.size()))));
  std::vector<float> decoded(values.size());
  codec::encode(codec, values, encoded);
  codec::decode(codec, encoded, decoded);
  return decoded;
}

static std::string textOf(llvm::Error error) { return error ? llvm::toString(std::move(error)) : std::string(); }

TEST(CodecMeaning, WhatMovesBetweenDifferentCodecsIsConverted) {
  ParsedChoreography parsed(
      choreography("all_reduce", wholeIn + wholeOut + packedBuffer + copy("%in", "%packed") + copy("%packed", "%out")));
  for (int64_t count : {0, 1, 31, 1023, 1024, 1025, 5000}) {
    SimulatedCall call = parsed.callOn({3}, count);
    fillOddly(call);
    ASSERT_EQ(textOf(interpretChoreography(*parsed, call)), "");
    for (size_t rank = 0; rank < 3; ++rank)
      EXPECT_EQ(floatsOf(call.outputs[rank]), roundTrip(dsl::int8(32), floatsOf(call.inputs[rank]))) << count;
  }
}

TEST(CodecMeaning, BetweenEqualCodecsBytesMove) {
  // Encoding twice would change scales by an ulp somewhere; forwarding does not.
  ParsedChoreography parsed(
      choreography("all_reduce", wholeIn + wholeOut + packedBuffer +
                                     "%again = kolo.buffer scratch \"again\" as "
                                     "#kolo.codec<i8 per 32 scale f32 fit> grid() blocks 0 : !kolo.buffer<0>\n" +
                                     copy("%in", "%packed") + R"(
    kolo.transfer %packed -> %again to [next %c1] {
    ^bb0(%me: index, %peer: index):
      kolo.slices from [] size [] to [] size []
    } : !kolo.buffer<0> -> !kolo.buffer<0>
  )" + copy("%again", "%out")));
  SimulatedCall call = parsed.callOn({3}, 3000);
  fillOddly(call);
  ASSERT_EQ(textOf(interpretChoreography(*parsed, call)), "");
  for (size_t rank = 0; rank < 3; ++rank)
    EXPECT_EQ(floatsOf(call.outputs[(rank + 1) % 3]), roundTrip(dsl::int8(32), floatsOf(call.inputs[rank])));
}

/// Rounding in f32 once is not the same as in bf16 after each of three sums.
TEST(CodecMeaning, AnF32BufferAccumulatesExactlyInACallOfBf16) {
  std::string accumulate = R"(
    kolo.transfer reducing %in -> %sum to [others] {
    ^bb0(%me: index, %peer: index):
      kolo.slices from [] size [] to [] size []
    } : !kolo.buffer<0> -> !kolo.buffer<0>
  )";
  ParsedChoreography parsed(choreography(
      "all_reduce", wholeIn + wholeOut +
                        "%sum = kolo.buffer scratch \"sum\" as #kolo.codec<f32> grid() blocks 0 : !kolo.buffer<0>\n" +
                        copy("%in", "%sum") + accumulate + copy("%sum", "%out")));
  SimulatedCall call = parsed.callOn({4}, 10, ElementType::BF16);
  for (size_t rank = 0; rank < 4; ++rank)
    for (size_t i = 0; i < 10; ++i) {
      uint16_t bits = bfloat16FromFloat(rank == 0 ? 256 : 1);
      std::memcpy(&call.inputs[rank][2 * i], &bits, sizeof bits);
    }
  ASSERT_EQ(textOf(interpretChoreography(*parsed, call)), "");
  uint16_t bits;
  std::memcpy(&bits, call.outputs[0].data(), sizeof bits);
  EXPECT_EQ(floatFromBfloat16(bits), 260); // 259 is not a bf16; one at a time, 256 + 1 would stay 256
}

TEST(CodecMeaning, ChunksAreWholeGranulesAndAStochasticEncodingDoesNotDependOnThem) {
  std::string program = R"(
    %in = kolo.buffer input "in" grid(%k) blocks 0 : !kolo.buffer<1>
    %out = kolo.buffer output "out" grid(%k) blocks 0 : !kolo.buffer<1>
    %packed = kolo.buffer scratch "packed" as #kolo.codec<i4 per 64 scale f16 fit stochastic> grid(%k) blocks 0 : !kolo.buffer<1>
    scf.for %i = %c0 to %k step %c1 {
      kolo.copy %in -> %packed {
      ^bb0(%me: index):
        kolo.slices from [%i] size [%c1] to [%i] size [%c1]
      } : !kolo.buffer<1> -> !kolo.buffer<1>
    }
    kolo.copy %packed -> %out {
    ^bb0(%me: index):
      kolo.slices from [%c0] size [%k] to [%c0] size [%k]
    } : !kolo.buffer<1> -> !kolo.buffer<1>
  )";
  std::vector<std::vector<Bytes>> outputs;
  for (const char *numChunks : {"1", "2", "3", "7"}) {
    ParsedChoreography parsed(
        choreography("all_reduce", std::string("%k = arith.constant ") + numChunks + " : index\n" + program));
    SimulatedCall call = parsed.callOn({2}, 5000);
    fillOddly(call);
    ASSERT_EQ(textOf(interpretChoreography(*parsed, call)), "");
    outputs.push_back(call.outputs);
  }
  for (const std::vector<Bytes> &other : outputs)
    EXPECT_EQ(other, outputs.front());
}

TEST(CodecMeaning, AChannelProgramConvertsAsItsChoreographyDoes) {
  ParsedProgram parsed(program("all_reduce", 1, wholeIn + wholeOut + packedBuffer + R"(
    kolo.chan.put %in[] size [] -> %packed[] size [] to %next part %l of %L : !kolo.buffer<0> -> !kolo.buffer<0>
    kolo.chan.signal 0 to %next
    kolo.chan.wait 0 from %prev
    kolo.chan.copy %packed[] size [] -> %out[] size [] part %l of %L : !kolo.buffer<0> -> !kolo.buffer<0>
    kolo.chan.reduce %packed[] size [] -> %out[] size [] part %l of %L : !kolo.buffer<0> -> !kolo.buffer<0>
    kolo.chan.flush
  )"));
  for (int64_t numLanes : {1, 2, 3})
    for (int64_t count : {0, 5, 1025, 5000}) {
      SimulatedCall call = parsed.callOn({3}, count);
      call.numLanes = numLanes;
      fillOddly(call);
      ASSERT_EQ(textOf(interpretChannel(*parsed, call, 5)), "");
      for (size_t rank = 0; rank < 3; ++rank) {
        std::vector<float> expected = roundTrip(dsl::int8(32), floatsOf(call.inputs[rank]));
        for (float &value : expected)
          value = value + value;
        EXPECT_EQ(floatsOf(call.outputs[(rank + 1) % 3]), expected);
      }
    }
}

TEST(CodecMeaning, OtherTypesAndProductsAreRefused) {
  ParsedChoreography parsed(
      choreography("all_reduce", wholeIn + wholeOut + packedBuffer + copy("%in", "%packed") + copy("%packed", "%out")));
  for (ElementType type : {ElementType::F64, ElementType::I8, ElementType::I32, ElementType::U64}) {
    SimulatedCall call = parsed.callOn({2}, 4, type);
    EXPECT_EQ(textOf(interpretChoreography(*parsed, call)),
              "bad call: buffer 'packed' has a codec: elements are f16, bf16 or f32, not " + nameOf(type).str());
  }
  SimulatedCall call = parsed.callOn({2}, 4, ElementType::F32, Reduction::Product);
  EXPECT_EQ(textOf(interpretChoreography(*parsed, call)),
            "bad call: buffer 'packed' has a codec: nothing is multiplied");
}
