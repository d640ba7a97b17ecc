// What a rank keeps of early signals is bounded.
#include "Support.h"

#include "network/Registrations.h"

#include <gtest/gtest.h>

namespace kolo::test {
namespace {

TEST(Registrations, KeepABoundedNumberOfEarlySignalsOfEachSender) {
  Registrations registrations(3);
  for (uint32_t semaphore = 0; semaphore < Registrations::maxKept; ++semaphore)
    EXPECT_EQ(registrations.deliver(1, 0, {1, semaphore, 1}).verdict, Verdict::Accepted);
  EXPECT_EQ(registrations.deliver(1, 0, {1, Registrations::maxKept, 1}).verdict, Verdict::Early);
  EXPECT_EQ(registrations.deliver(1, 0, {1, 0, 2}).verdict, Verdict::Accepted); // one of those that are kept
  EXPECT_EQ(registrations.deliver(1, 0, {1, 0, 2}).verdict, Verdict::Refused);
  EXPECT_EQ(registrations.deliver(2, 0, {1, 0, 1}).verdict, Verdict::Accepted);
}

TEST(Registrations, WhatWasKeptForAnAgreementThatNeverCameIsForgottenAndNamesItsSender) {
  Registrations registrations(2);
  for (uint32_t semaphore = 0; semaphore < Registrations::maxKept; ++semaphore)
    EXPECT_EQ(registrations.deliver(1, 0, {3, semaphore, 1}).verdict, Verdict::Accepted);
  Landing landing(16, 2);
  EXPECT_EQ(expectStatus(registrations.add(landing.registration(4)), StatusCode::Mismatch, 1, "agreement 3"), "");
  EXPECT_EQ(registrations.deliver(1, 0, {5, 0, 1}).verdict, Verdict::Accepted);
}

TEST(Registrations, EarlyIsWhatOneOfTheNextAgreementsTakes) {
  Registrations registrations(2);
  Landing landing(16, 2);
  ASSERT_TRUE(registrations.add(landing.registration(10)).isOk());
  EXPECT_EQ(registrations.checkPut(1, {10, 0, 0}, 16).verdict, Verdict::Accepted);
  EXPECT_EQ(registrations.checkPut(1, {11, 0, 0}, 16).verdict, Verdict::Early);
  EXPECT_EQ(registrations.checkPut(1, {10 + maxEarlyAgreements, 0, 0}, 16).verdict, Verdict::Early);
  EXPECT_EQ(registrations.checkPut(1, {11 + maxEarlyAgreements, 0, 0}, 16).verdict, Verdict::Refused);
  EXPECT_EQ(registrations.checkPut(1, {9, 0, 0}, 16).verdict, Verdict::Refused);
}

} // namespace
} // namespace kolo::test
