// The choreographies that this process knows: those linked in, and those of libraries opened since.
#pragma once

#include <kolo/dsl/Collective.h>

#include <functional>
#include <source_location>

namespace kolo::dsl {

class Choreography;

/// A named choreography, not yet recorded.
struct Definition {
  std::string name;
  Collective collective;
  Mesh mesh;
  std::function<void(Choreography &)> body;
  std::source_location location;
};

/// All definitions registered so far, in order of registration, which the linker chooses for those that are linked in.
/// Not to be called while libraries are being opened.
const std::vector<Definition> &registeredChoreographies();

/// Whether one of its buffers has a codec when nobody chooses any. Runs the body.
bool usesCodecs(const Definition &definition);

/// Registers a definition while it is constructed. Made by KOLO_COLLECTIVE.
struct Registration {
  Registration(std::string name, Collective collective, Mesh mesh, void (*body)(Choreography &),
               std::source_location location = std::source_location::current());
};

} // namespace kolo::dsl
