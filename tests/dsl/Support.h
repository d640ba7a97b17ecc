// Recordings of small bodies, and the mistakes that they announce. Shared by the tests of this folder.
#pragma once

#include "dsl/Recording.h"

#include <gtest/gtest.h>

namespace kolo::dsl {

inline const Mesh line("rank"), nodes("node", "gpu");

using Body = void (*)(Choreography &);

inline std::unique_ptr<Recording> recordBody(const Collective &collective, const Mesh &mesh, Body body,
                                             Location location = Location::current()) {
  return record({"test", collective, mesh, body, location});
}

struct ExpectedMistake {
  unsigned line;
  std::string part; // of the message
};
inline std::vector<ExpectedMistake> expectedMistakes;

/// Called by a body under test: the next line has a mistake whose message contains this.
inline void mistakeBelow(const std::string &part, Location location = Location::current()) {
  expectedMistakes.push_back({location.line() + 1, part});
}

/// Records the body, and expects the mistakes that it announces, in that order, and no others.
inline void expectMistakes(const Collective &collective, const Mesh &mesh, Body body,
                           Location location = Location::current()) {
  expectedMistakes.clear();
  std::unique_ptr<Recording> recording = recordBody(collective, mesh, body, location);
  for (size_t i = 0; i < std::max(expectedMistakes.size(), recording->diagnostics.size()); ++i) {
    if (i >= expectedMistakes.size()) {
      ADD_FAILURE() << "unexpected at line " << recording->diagnostics[i].location.line() << ": "
                    << recording->diagnostics[i].message;
      continue;
    }
    const ExpectedMistake &expected = expectedMistakes[i];
    if (i >= recording->diagnostics.size()) {
      ADD_FAILURE() << "not reported, of line " << expected.line << ": " << expected.part;
      continue;
    }
    const Diagnostic &actual = recording->diagnostics[i];
    EXPECT_EQ(actual.location.line(), expected.line) << actual.message;
    EXPECT_NE(actual.message.find(expected.part), std::string::npos)
        << actual.message << "\nexpected: " << expected.part;
  }
}

} // namespace kolo::dsl
