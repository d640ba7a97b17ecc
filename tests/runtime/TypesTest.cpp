#include "kolo/runtime/Types.h"

#include <gtest/gtest.h>

using namespace kolo::runtime;

TEST(Types, EveryNameParsesBackToItsValue) {
  for (int i = 0; i < KOLO_NUM_TYPES; ++i)
    EXPECT_EQ(parseDataType(toString(static_cast<DataType>(i))), static_cast<DataType>(i));
  for (int i = 0; i < KOLO_NUM_REDUCTIONS; ++i)
    EXPECT_EQ(parseReduction(toString(static_cast<Reduction>(i))), static_cast<Reduction>(i));
  for (int i = 0; i < 8; ++i)
    EXPECT_EQ(parseCollectiveKind(toString(static_cast<CollectiveKind>(i))), static_cast<CollectiveKind>(i));
  EXPECT_EQ(sizeBytes(*parseDataType("bf16")), 2u);
  EXPECT_EQ(sizeBytes(*parseDataType("u64")), 8u);
}

TEST(Types, UnknownNamesAndValuesAreNotAccepted) {
  EXPECT_FALSE(parseDataType("float"));
  EXPECT_FALSE(parseReduction(""));
  EXPECT_FALSE(parseCollectiveKind("AllReduce"));
  EXPECT_EQ(sizeBytes(static_cast<DataType>(99)), 0u);
  EXPECT_STREQ(toString(static_cast<DataType>(99)), "invalid");
}

TEST(Mesh, RanksAreRowMajorSlowestFirst) {
  auto mesh = Mesh::parse("node=2,gpu=4");
  ASSERT_TRUE(mesh.isOk());
  EXPECT_EQ(mesh->numRanks(), 8);
  EXPECT_EQ(mesh->coordinates(6), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(mesh->toString(), "node=2,gpu=4");
  EXPECT_EQ(Mesh().numRanks(), 1);
}

TEST(Mesh, TheLargestHasAMillionRanks) {
  EXPECT_EQ(Mesh::parse("rank=1048576")->numRanks(), KOLO_MAX_MESH_RANKS);
  EXPECT_EQ(Mesh::parse("node=131072,gpu=8")->coordinates(1048575), (std::vector<int64_t>{131071, 7}));
}

TEST(Mesh, ImpossibleMeshesAreRefused) {
  for (const char *text :
       {"", "node", "node=", "node=0", "node=-1", "node=2x", "=2", "a=2,a=2", "a=2,", "a=2,,b=2", "a=1,b=1,c=1,d=1,e=1",
        "a=65536,b=65536", "a=1048577", "a=2,b=524289", "a=99999999999999999999"})
    EXPECT_EQ(Mesh::parse(text).status().code(), StatusCode::InvalidArgument) << text;
}
