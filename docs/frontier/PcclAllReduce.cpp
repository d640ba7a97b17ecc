// PCCL's all-reduces: PcclRails.h says how.
#include "PcclRails.h"

using namespace pccl;

KOLO_COLLECTIVE(pcclRecursiveAllReduce, AllReduce, Mesh("node", "gpu")) {
  reduceEverywhere(c, reduceByHalving, gatherByDoubling);
}
KOLO_COLLECTIVE(pcclRingAllReduce, AllReduce, Mesh("node", "gpu")) { reduceEverywhere(c, reduceByRing, gatherByRing); }
