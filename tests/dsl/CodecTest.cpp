// Codecs in the language: which buffers get which, what whoever compiles chooses, and mistakes.
#include "Support.h"

#include "codec/Presets.h"
#include "dsl/EmitChoreography.h"
#include "dsl/PrintExpression.h"
#include "dsl/PrintSource.h"

#include "mlir/IR/Verifier.h"

using namespace kolo;
using namespace kolo::dsl;

static void quantised(Choreography &c) {
  Codec wire = c.codec("wire", int8(256));
  Buffer out = c.output(), packed = c.scratch("packed", out).as(wire);
  Buffer sum = c.scratch("sum", packed).as(f32()); // like another one, but for its codec
  Buffer plain = c.scratch("plain", packed);
  c.copy(c.input(), packed[c.rank()]);
  c.copy(packed, sum);
  c.copy(sum, plain);
  c.copy(plain, out);
}

static std::string emitted(const Recording &recording) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  mlir::OwningOpRef<mlir::ModuleOp> module = emitChoreography(context, recording, {{4}});
  EXPECT_TRUE(mlir::succeeded(mlir::verify(*module)));
  std::string text;
  llvm::raw_string_ostream(text) << *module;
  return text;
}

TEST(Codecs, BelongToTheBuffersThatAskForThem) {
  std::unique_ptr<Recording> recording = recordBody(AllGather, line, quantised);
  ASSERT_TRUE(recording->diagnostics.empty());
  std::vector<Codec> codecs;
  for (const RecordedBuffer &buffer : recording->buffers)
    codecs.push_back(buffer.codec);
  EXPECT_EQ(codecs, (std::vector<Codec>{none(), none(), int8(256), f32(), none()}));
  std::string text = emitted(*recording);
  EXPECT_NE(text.find("\"packed\" as <i8 per 256 scale f32 fit> grid(%0) blocks 1"), std::string::npos) << text;
  EXPECT_NE(text.find("\"plain\" grid(%0) blocks 1 :"), std::string::npos) << text;
}

TEST(Codecs, AreChosenByName) {
  Definition definition{"test", AllGather, line, quantised, Location::current()};
  EXPECT_EQ(record(definition, {{"wire", mxfp4()}})->buffers[2].codec, mxfp4());
  EXPECT_EQ(record(definition, {{"other", mxfp4()}})->buffers[2].codec, int8(256));
  std::unique_ptr<Recording> plain = record(definition, {{"wire", none()}});
  EXPECT_EQ(emitted(*plain).find("as <i8"), std::string::npos);
  ASSERT_EQ(plain->codecs.size(), 1u);
  EXPECT_EQ(plain->codecs[0].name, "wire");
}

TEST(Codecs, ADefinitionIsAskedWhetherItUsesThem) {
  EXPECT_TRUE(usesCodecs({"test", AllGather, line, quantised, Location::current()}));
  Body body = [](Choreography &c) { c.codec("wire", int8()); };
  EXPECT_FALSE(usesCodecs({"test", AllGather, line, body, Location::current()}));
}

TEST(Codecs, ArePrintedAsCpp) {
  Body body = [](Choreography &c) {
    Codec node = c.codec("node", levels({-1, 0, 0.5f}).per(64, Scale::BF16)), unused = c.codec("unused", mxfp4());
    Buffer out = c.output();
    c.copy(out, c.scratch("packed", out).as(node));
    c.copy(out, c.scratch("sum", out).grid(c.dim("node")).as(int4(256).stochastic()));
    c.slots("arrived", out, 3).as(node);
  };
  std::string text = printDefinition(*recordBody(AllGather, Mesh("node"), body));
  for (const char *part : {"Codec node2 = c.codec(\"node\", levels({-1, 0, 0.5}).per(64, Scale::BF16, Rule::Fit));",
                           "  c.codec(\"unused\", mxfp4());", "c.scratch(\"packed\", out).as(node2);",
                           ".as(Codec(Element::I4).per(256, Scale::F32, Rule::Full).stochastic());",
                           "c.slots(\"arrived\", out, 3).as(node2);"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
}

TEST(Codecs, MistakesAreReportedWhereABufferGetsOne) {
  expectMistakes(AllReduce, line, [](Choreography &c) {
    Buffer in = c.input(), out = c.output(), work = c.scratch("work", out);
    mistakeBelow("'input' is the caller's and has no codec; copy between it and scratch memory that has one");
    in.as(int8());
    mistakeBelow("'output' is the caller's and has no codec");
    out.as(bf16());
    work.as(int8(256)).as(int8(256));
    mistakeBelow("'work' has a codec already, int8(256); a buffer has one");
    work.as(mxfp4());
    mistakeBelow("the codec of 'odd' has a block of 48; a block is a power of two from 16 to 1024");
    c.scratch("odd", out).as(int8(48));
    mistakeBelow("the codec of 'cast' has a scale, but bf16 is a cast");
    c.scratch("cast", out).as(bf16().per(32));
    mistakeBelow("the codec of 'table' has no level 0");
    c.scratch("table", out).as(levels({-1, 1}).per(32));
    c.codec("wire", int8());
    mistakeBelow("there is a codec named 'wire' already");
    c.codec("wire", int8());
  });
}

TEST(Codecs, NothingIsCombinedIntoScalesOrDrawsAndTwoScalesDoNotMeet) {
  expectMistakes(AllReduce, line, [](Choreography &c) {
    Buffer out = c.output(), sum = c.scratch("sum", out).as(f32()), narrow = c.scratch("narrow", out).as(bf16());
    Buffer packed = c.scratch("packed", out).as(int8(256)), other = c.scratch("other", out).as(mxfp4());
    Buffer drawn = c.scratch("drawn", out).as(bf16().stochastic());
    Rank next = c.rank().next(c.dim("rank"));
    c.reduce(packed, sum);
    c.reduce(out, narrow);
    c.copy(narrow, packed);
    c.send(packed).to(next);
    mistakeBelow("combines into 'packed', which is int8(256); combine into a buffer that is .as(f32()), and");
    c.reduce(sum, packed);
    mistakeBelow("combines into 'other', which is mxfp4; combine into");
    c.send(out).to(next).at(other).reduce();
    mistakeBelow("combines into 'drawn', which is bf16 stochastic; combine into a buffer that is .as(f32()), and copy");
    c.reduce(sum, drawn);
    c.copy(sum, drawn);
    mistakeBelow("goes from 'packed', which is int8(256), to 'other', which is mxfp4; copy through a buffer without");
    c.copy(packed, other);
  });
}

TEST(Codecs, ACollectiveNamesItsDimensionsInOrderAndOnce) {
  Body nothing = [](Choreography &) {};
  Mesh mesh("node", "module", "die");
  EXPECT_EQ(recordBody(ReduceScatter.over("die", "module"), mesh, nothing)->groupDims, (std::vector<int>{2, 1}));
  std::unique_ptr<Recording> twice = recordBody(ReduceScatter.over("die", "die"), mesh, nothing);
  ASSERT_EQ(twice->diagnostics.size(), 1u);
  EXPECT_EQ(twice->diagnostics[0].message, "the collective names dimension 'die' twice");
}

TEST(PrintedSource, HasNoVariableWithTheNameOfAPreset) {
  for (const codec::Preset &preset : codec::presets())
    EXPECT_EQ(IdentifierSet().take(std::string(preset.name)), std::string(preset.name) + "2");
}
