// What the reader does not know is an error that names the line.
#include "Module.h"

#include <gtest/gtest.h>

using namespace kolo::ptx;

namespace {

std::string problemOf(const std::string &body) {
  try {
    readModule(".version 7.8\n.target sm_90\n.address_size 64\n.visible .entry k(\n.param .u64 k_param_0\n)\n{\n"
               ".reg .pred %p<4>;\n.reg .b32 %r<8>;\n.reg .b64 %rd<8>;\n" +
               body + "\nret;\n}\n");
  } catch (const std::runtime_error &problem) {
    return problem.what();
  }
  return "";
}

} // namespace

TEST(Reader, TakesWhatCodeForDevicesHas) {
  EXPECT_EQ(problemOf("ld.param.b64 %rd1, [k_param_0];\n@!%p1 bra $L1;\nld.acquire.sys.global.b64 %rd2, [%rd1+-8];\n"
                      "$L1:\nadd.s64 %rd3, %rd2, -1;\nmov.b64 {_, %r1}, %rd3;"),
            "");
}

TEST(Reader, NamesTheLineOfWhatItDoesNotKnow) {
  EXPECT_EQ(problemOf("add.s64 %rd1, %rd2, 1;\nadd.sat.s64 %rd1, %rd2, 1;"), "line 12: unknown opcode 'add.sat.s64'");
  EXPECT_EQ(problemOf("ld.relaxed.cluster.global.b64 %rd1, [%rd2];"),
            "line 11: unknown opcode 'ld.relaxed.cluster.global.b64'");
  EXPECT_EQ(problemOf("atom.add.u64 %rd1, [%rd2], 1;"), "line 11: unknown opcode 'atom.add.u64'");
  EXPECT_EQ(problemOf(".local .b8 a[8];"), "line 11: unknown directive '.local'");
  EXPECT_EQ(problemOf("add.s64 %rd1, %rd9, 1;"), "line 11: register '%rd9' is not declared");
  EXPECT_EQ(problemOf("add.s64 %rd1, %r1, 1;"), "line 11: a register of another size than 'add.s64' wants");
  EXPECT_EQ(problemOf("bra $L7;"), "line 11: there is no label '$L7'");
  EXPECT_EQ(problemOf("call.uni f, ();"), "line 11: there is no function 'f'");
  EXPECT_EQ(problemOf("st.global.v4.b64 [%rd1], {%rd1, %rd1, %rd1, %rd1};"),
            "line 11: unknown opcode 'st.global.v4.b64'");
  EXPECT_EQ(problemOf("mov.u32 %r1, %laneid;"), "line 11: register '%laneid' is not declared");
}
