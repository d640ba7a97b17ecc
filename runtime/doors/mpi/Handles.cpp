#include "Handles.h"

#include <algorithm>
#include <array>
#include <vector>

namespace kolo::mpi {
namespace {

enum class Arithmetic : uint8_t { None, Float, Complex, Signed, Unsigned, Byte, Logical };

struct Predefined {
  MPI_Datatype handle;
  Arithmetic arithmetic;
  bool isOfFortran;
};

/// By kind and size. Nothing where there are no kernels.
std::optional<Element> elementOf(Arithmetic arithmetic, int64_t sizeBytes) {
  static constexpr struct {
    Arithmetic arithmetic;
    int64_t sizeBytes;
    Element element;
  } all[] = {
      {Arithmetic::Float, 4, Element::F32},           {Arithmetic::Float, 8, Element::F64},
      {Arithmetic::Float, 16, Element::LongDouble},   {Arithmetic::Complex, 8, Element::ComplexF32},
      {Arithmetic::Complex, 16, Element::ComplexF64}, {Arithmetic::Signed, 1, Element::I8},
      {Arithmetic::Signed, 2, Element::I16},          {Arithmetic::Signed, 4, Element::I32},
      {Arithmetic::Signed, 8, Element::I64},          {Arithmetic::Unsigned, 1, Element::U8},
      {Arithmetic::Unsigned, 2, Element::U16},        {Arithmetic::Unsigned, 4, Element::U32},
      {Arithmetic::Unsigned, 8, Element::U64},        {Arithmetic::Byte, 1, Element::Byte},
      {Arithmetic::Logical, 1, Element::Bool},        {Arithmetic::Logical, 4, Element::Logical},
  };
  for (const auto &each : all)
    if (each.arithmetic == arithmetic && each.sizeBytes == sizeBytes)
      return each.element;
  return std::nullopt;
}

std::vector<Predefined> predefinedTypes() {
  std::vector<Predefined> types;
  bool isOfFortran = false;
  auto add = [&](Arithmetic arithmetic, std::initializer_list<MPI_Datatype> handles) {
    for (MPI_Datatype handle : handles)
      types.push_back({handle, arithmetic, isOfFortran});
  };
  // Where C and Fortran share a handle, it counts as C's.
  add(Arithmetic::Float, {MPI_FLOAT, MPI_DOUBLE, MPI_LONG_DOUBLE});
  add(Arithmetic::Complex, {MPI_C_FLOAT_COMPLEX, MPI_C_DOUBLE_COMPLEX});
  add(Arithmetic::Signed, {MPI_SIGNED_CHAR, MPI_SHORT, MPI_INT, MPI_LONG, MPI_LONG_LONG, MPI_INT8_T, MPI_INT16_T,
                           MPI_INT32_T, MPI_INT64_T});
  add(Arithmetic::Unsigned, {MPI_UNSIGNED_CHAR, MPI_UNSIGNED_SHORT, MPI_UNSIGNED, MPI_UNSIGNED_LONG,
                             MPI_UNSIGNED_LONG_LONG, MPI_UINT8_T, MPI_UINT16_T, MPI_UINT32_T, MPI_UINT64_T});
  add(Arithmetic::Byte, {MPI_BYTE});
  add(Arithmetic::Logical, {MPI_C_BOOL});
  add(Arithmetic::None, {MPI_CHAR, MPI_PACKED, MPI_WCHAR});
  isOfFortran = true;
  add(Arithmetic::Float, {MPI_REAL, MPI_DOUBLE_PRECISION, MPI_REAL4, MPI_REAL8});
  add(Arithmetic::Complex, {MPI_COMPLEX, MPI_DOUBLE_COMPLEX});
  add(Arithmetic::Signed,
      {MPI_AINT, MPI_OFFSET, MPI_COUNT, MPI_INTEGER, MPI_INTEGER1, MPI_INTEGER2, MPI_INTEGER4, MPI_INTEGER8});
  add(Arithmetic::Logical, {MPI_LOGICAL});
  add(Arithmetic::None, {MPI_CHARACTER});
  return types;
}

bool getSizes(MPI_Datatype handle, int &sizeBytes, MPI_Aint &extentBytes) {
  MPI_Aint least = 0;
  return handle != MPI_DATATYPE_NULL && PMPI_Type_size(handle, &sizeBytes) == MPI_SUCCESS &&
         PMPI_Type_get_extent(handle, &least, &extentBytes) == MPI_SUCCESS && sizeBytes > 0;
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
    MPI_Aint extentBytes = 0;
    if (!getSizes(type.handle, sizeBytes, extentBytes) || extentBytes != sizeBytes || find(type.handle))
      return;
    size_t place = placeOf(type.handle);
    while (places[place].isUsed)
      place = (place + 1) % places.size();
    const std::optional<Element> element = elementOf(type.arithmetic, sizeBytes);
    places[place] = {true, {type.handle, sizeBytes, element, type.isOfFortran && element != Element::Logical}};
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
  MPI_Count sizeBytes = 0;
  int64_t numBytes = 0;
  if (PMPI_Type_size_x(type, &sizeBytes) != MPI_SUCCESS || sizeBytes < 0)
    return -1;
  return __builtin_mul_overflow(int64_t(sizeBytes), count, &numBytes) ? -1 : numBytes;
}

std::optional<Element> findPair(MPI_Datatype type) {
  using Known = std::pair<MPI_Datatype, Element>;
  static const std::vector<Known> pairs = [] {
    std::vector<Known> known = {{MPI_FLOAT_INT, Element::F32AndI32},         {MPI_DOUBLE_INT, Element::F64AndI32},
                                {MPI_LONG_INT, Element::I64AndI32},          {MPI_2INT, Element::I32AndI32},
                                {MPI_SHORT_INT, Element::I16AndI32},         {MPI_2REAL, Element::F32AndF32},
                                {MPI_2DOUBLE_PRECISION, Element::F64AndF64}, {MPI_2INTEGER, Element::I32AndI32}};
    std::erase_if(known, [](const Known &pair) {
      int size = 0;
      MPI_Aint extentBytes = 0;
      return !getSizes(pair.first, size, extentBytes) || extentBytes != sizeBytes(pair.second);
    });
    return known;
  }();
  auto found = std::ranges::find(pairs, type, &Known::first);
  return found == pairs.end() ? std::nullopt : std::optional(found->second);
}

} // namespace kolo::mpi
