// PCCL's reduce-scatters: PcclRails.h says how.
#include "PcclRails.h"

using namespace pccl;

KOLO_COLLECTIVE(pcclRecursiveReduceScatter, ReduceScatter, Mesh("node", "gpu")) {
  reduceAndScatter(c, reduceByHalving);
}
KOLO_COLLECTIVE(pcclRingReduceScatter, ReduceScatter, Mesh("node", "gpu")) { reduceAndScatter(c, reduceByRing); }
