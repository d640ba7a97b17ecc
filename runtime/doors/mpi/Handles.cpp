#include "Handles.h"

#include <algorithm>
#include <array>
#include <vector>

namespace kolo::mpi {
namespace {

using runtime::DataType;

enum class Arithmetic : uint8_t { None, Float, Signed, Unsigned };

struct Predefined {
  MPI_Datatype handle;
  Arithmetic arithmetic;
};

/// By kind and size. Nothing where Kolo has no such type.
std::optional<DataType> dataType(Arithmetic arithmetic, int64_t sizeBytes) {
  switch (arithmetic) {
  case Arithmetic::None:
    break;
  case Arithmetic::Float:
    return sizeBytes == 4 ? std::optional(DataType::F32) : sizeBytes == 8 ? std::optional(DataType::F64) : std::nullopt;
  case Arithmetic::Signed:
    return sizeBytes == 1   ? std::optional(DataType::I8)
           : sizeBytes == 4 ? std::optional(DataType::I32)
           : sizeBytes == 8 ? std::optional(DataType::I64)
                            : std::nullopt;
  case Arithmetic::Unsigned:
    return sizeBytes == 1   ? std::optional(DataType::U8)
           : sizeBytes == 4 ? std::optional(DataType::U32)
           : sizeBytes == 8 ? std::optional(DataType::U64)
                            : std::nullopt;
  }
  return std::nullopt;
}

std::vector<Predefined> predefinedTypes() {
  std::vector<Predefined> types;
  auto add = [&](Arithmetic arithmetic, std::initializer_list<MPI_Datatype> handles) {
    for (MPI_Datatype handle : handles)
      types.push_back({handle, arithmetic});
  };
  add(Arithmetic::Float, {MPI_FLOAT, MPI_DOUBLE, MPI_REAL, MPI_DOUBLE_PRECISION, MPI_REAL4, MPI_REAL8});
  add(Arithmetic::Signed, {MPI_SIGNED_CHAR, MPI_INT, MPI_LONG, MPI_LONG_LONG, MPI_INT8_T, MPI_INT32_T, MPI_INT64_T,
                           MPI_AINT, MPI_OFFSET, MPI_COUNT, MPI_INTEGER, MPI_INTEGER1, MPI_INTEGER4, MPI_INTEGER8});
  add(Arithmetic::Unsigned, {MPI_UNSIGNED_CHAR, MPI_UNSIGNED, MPI_UNSIGNED_LONG, MPI_UNSIGNED_LONG_LONG, MPI_UINT8_T,
                             MPI_UINT32_T, MPI_UINT64_T});
  add(Arithmetic::None, {MPI_CHAR, MPI_BYTE, MPI_PACKED, MPI_SHORT, MPI_UNSIGNED_SHORT, MPI_INT16_T, MPI_UINT16_T,
                         MPI_WCHAR, MPI_C_BOOL, MPI_C_FLOAT_COMPLEX, MPI_C_DOUBLE_COMPLEX, MPI_COMPLEX,
                         MPI_DOUBLE_COMPLEX, MPI_CHARACTER, MPI_LOGICAL, MPI_INTEGER2, MPI_LONG_DOUBLE});
  return types;
}

/// Predefined handles are never freed, so their sizes are read once.
class TypeTable {
public:
  TypeTable() {
    for (const Predefined &type : predefinedTypes())
      add(type);
  }

  const BasicType *find(MPI_Datatype handle) const {
    for (size_t place = placeOf(handle);; place = (place + 1) % places.size())
      if (!places[place].isUsed || places[place].type.handle == handle)
        return places[place].isUsed ? &places[place].type : nullptr;
  }

private:
  struct Entry {
    bool isUsed = false;
    BasicType type = {};
  };

  static size_t placeOf(MPI_Datatype handle) { return (bitsOf(handle) * 0x9E3779B97F4A7C15) >> 56; }

  void add(const Predefined &type) {
    int sizeBytes = 0;
    MPI_Aint least = 0, extent = 0;
    if (type.handle == MPI_DATATYPE_NULL || find(type.handle) ||
        PMPI_Type_size(type.handle, &sizeBytes) != MPI_SUCCESS ||
        PMPI_Type_get_extent(type.handle, &least, &extent) != MPI_SUCCESS || sizeBytes <= 0 || extent != sizeBytes)
      return;
    size_t place = placeOf(type.handle);
    while (places[place].isUsed)
      place = (place + 1) % places.size();
    places[place] = {true, {type.handle, sizeBytes, dataType(type.arithmetic, sizeBytes)}};
  }

  std::array<Entry, 256> places; // open addressing; most stay empty
};

} // namespace

const BasicType *findBasicType(MPI_Datatype type) {
  static const TypeTable table;
  return table.find(type);
}

int64_t bytesOf(int count, MPI_Datatype type) {
  if (count < 0 || type == MPI_DATATYPE_NULL)
    return -1;
  if (const BasicType *basic = findBasicType(type)) [[likely]]
    return basic->sizeBytes * count;
  int sizeBytes = 0;
  return PMPI_Type_size(type, &sizeBytes) == MPI_SUCCESS ? int64_t(sizeBytes) * count : -1;
}

std::optional<runtime::Reduction> reductionOf(MPI_Op operation) {
  if (operation == MPI_SUM)
    return runtime::Reduction::Sum;
  if (operation == MPI_PROD)
    return runtime::Reduction::Product;
  if (operation == MPI_MIN)
    return runtime::Reduction::Min;
  if (operation == MPI_MAX)
    return runtime::Reduction::Max;
  return std::nullopt;
}

} // namespace kolo::mpi
