// Everything a choreography needs, and how it is made known to the compiler:
//
//   #include <kolo/dsl/Language.h>
//   using namespace kolo::dsl;
//
//   KOLO_COLLECTIVE(ringAllGather, AllGather, Mesh("rank")) {
//     auto [d] = c.dims<1>();
//     ...
//   }
#pragma once

#include <kolo/dsl/Choreography.h>
#include <kolo/dsl/Registry.h>

/// Defines and registers a choreography; the body that follows receives `kolo::dsl::Choreography &c`.
#define KOLO_COLLECTIVE(name, collective, mesh)                                                                        \
  static void name(::kolo::dsl::Choreography &c);                                                                      \
  static const ::kolo::dsl::Registration koloRegistration_##name{#name, collective, mesh, &name};                      \
  static void name([[maybe_unused]] ::kolo::dsl::Choreography &c)
