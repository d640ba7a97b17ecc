// Small channel programs written by hand, and what the checker must say about them. Shared by the litmus tests.
#pragma once

#include "Judge.h"

#include "compiler/check/Verdict.h"

#include <initializer_list>

namespace kolo::mutation {

/// The end of lines that a refutation must name.
inline const std::string mark = " // here";

/// A program over a mesh of one dimension: some index arithmetic, then the body.
std::string program(const std::string &collective, int numSemaphores, const std::string &body);

/// The checker must prove the program, and the judge must find no harm.
void expectProved(const std::string &text, const Sizes &mesh, const char *transport = "shared");
/// The checker must refuse the program for this property and name exactly the marked lines, and the judge must find
/// harm.
void expectRefuted(const std::string &text, const Sizes &mesh, Property property, const char *transport = "shared");

/// The same for a program that is right when it is not called in place; the judge makes no calls in place.
void expectRefutedInPlace(const std::string &text, const Sizes &mesh, Property property);

/// One line per part.
std::string lines(std::initializer_list<std::string> parts);

//===--- Pieces of programs ---------------------------------------------------------------------------------------===//

/// Buffers of one block, or of one per rank, by name.
inline const std::string wholeIn = "%in = kolo.buffer input \"in\" grid() blocks 0 : !kolo.buffer<0>\n";
inline const std::string blocksIn = "%in = kolo.buffer input \"in\" grid(%n) blocks 1 : !kolo.buffer<1>\n";
inline const std::string blocksOut = "%out = kolo.buffer output \"out\" grid(%n) blocks 1 : !kolo.buffer<1>\n";
inline const std::string oneSlot = "%slot = kolo.buffer scratch \"slot\" grid() blocks 0 : !kolo.buffer<0>\n";
/// The pieces of a message to the next rank: everybody's input goes into the next one's slot, and from there to its
/// output.
inline const std::string ownCopy =
    "kolo.chan.copy %in[] size [] -> %out[%me] size [%c1] part %l of %L : !kolo.buffer<0> -> !kolo.buffer<1>\n";
inline const std::string entryCredit = "kolo.chan.signal 1 to %prev\nkolo.chan.wait 1 from %next\n";
inline const std::string putToSlot =
    "kolo.chan.put %in[] size [] -> %slot[] size [] to %next part %l of %L : !kolo.buffer<0> -> !kolo.buffer<0>";
inline const std::string dataSignal = "kolo.chan.signal 0 to %next", dataWait = "kolo.chan.wait 0 from %prev";
inline const std::string readSlot =
    "kolo.chan.copy %slot[] size [] -> %out[%prev] size [%c1] part %l of %L : !kolo.buffer<0> -> !kolo.buffer<1>";
inline const std::string acknowledgement = "kolo.chan.signal 2 to %prev\nkolo.chan.wait 2 from %next";
inline const std::string flush = "kolo.chan.flush";

/// Copies one block. A place is a block of a buffer of blocks, such as `%in[%me]`, or a buffer of one block: `%slot[]`.
std::string copyBlock(const std::string &from, const std::string &to);
/// An all-to-all over two ranks, with the scratch buffers `%slot` and `%packed` of one block.
std::string exchange(std::initializer_list<std::string> parts);

} // namespace kolo::mutation
